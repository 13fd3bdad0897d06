"""Write or check the pages whose numbers come from the runs in results/.

`docs/templates/NAME.md.j2` is the source of `docs/NAME.md`, and `README.md.j2` that of `README.md`. A template is the
page in Markdown, with each measured number as an expression of Jinja: `{{ change("quickstart", "claim/x/grpo") }}` (see
`values`). `docs/numbers.json` has the numbers of every experiment file that a page names, and
`experiments/verdicts.json` the verdicts.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError, TemplateSyntaxError

from plat.errors import SpecError
from plat_analysis.claims.reference import FILE, asks
from plat_analysis.report.report import Report
from tools.documents.bundles import Bundles
from tools.documents.values import Values

TEMPLATES, ENDING = Path("docs/templates"), ".j2"
NUMBERS, VERDICTS = Path("docs/numbers.json"), Path("experiments") / FILE


def write(root: Path) -> list[str]:
    """Write every page, picture and file of numbers; return a line for each changed text. SpecError as `texts`."""
    changed = []
    for path, new, _ in texts(root, Bundles(root), draw=True):
        if _read(root / path) != new:
            (root / path).write_text(new, encoding="utf-8")
            changed.append(f"{path} written")
    return changed


def problems(root: Path, bundles: Bundles | None = None) -> list[str]:
    """Return one line for each place that is not what the bundles say. Writes nothing. SpecError as `texts`.

    bundles  source of the numbers, by default those of `root`; reuse makes a second check fast
    """
    lines = []
    for path, new, source in texts(root, bundles or Bundles(root), draw=False):
        pairs = zip_longest(_read(root / path).splitlines(), new.splitlines())
        place = next((number for number, (old, right) in enumerate(pairs, start=1) if old != right), None)
        if place is not None:
            lines.append(f"{path}:{place}: this is not what {source} says; `make results` writes it again")
    return lines


def texts(root: Path, bundles: Bundles, draw: bool) -> Iterator[tuple[Path, str, str]]:
    """Yield (path, text as it should be, its source) of every file. SpecError for a template that cannot be filled."""
    values = Values(bundles, root, draw)
    for template in sorted((root / TEMPLATES).glob(f"*.md{ENDING}")):
        name = template.name.removesuffix(ENDING)
        page = Path(name) if name == "README.md" else Path("docs") / name
        yield page, filled(template, root, values.functions(page)), template.relative_to(root).as_posix()
    judged = {name: bundles.report(name) for name in sorted(bundles.folders()) if bundles.claims_of(name)}
    entries = {name: _entry(report, bundles.folders()[name], bundles.root) for name, report in judged.items()}
    yield VERDICTS, _json(entries), "results/"
    one_line = re.compile(r"\[\s+([^\[\]]*?)\s+\]")  # an estimate and its interval
    yield NUMBERS, one_line.sub(lambda found: f"[{' '.join(found[1].split())}]", _json(values.numbers)), "results/"


def filled(template: Path, root: Path, functions: dict[str, Any]) -> str:
    """Return the text of a template. Raises SpecError, with file and line, for a name or call that is wrong."""
    environment = Environment(
        loader=FileSystemLoader(template.parent), undefined=StrictUndefined, keep_trailing_newline=True
    )
    try:
        return environment.get_template(template.name).render(functions)
    except (SpecError, TemplateError, TypeError) as error:
        line = error.lineno if isinstance(error, TemplateSyntaxError) else _line(error, template)
        place = f"{template.relative_to(root)}:{line}"
        if not isinstance(error, SpecError):
            raise SpecError(str(error), where=place) from error
        error.where = f"{place} ({error.where})" if error.where else place
        raise


def _line(error: BaseException, template: Path) -> int:
    """Return the line of a template at which an error was raised."""
    frame, line = error.__traceback__, 1
    while frame is not None:
        line = frame.tb_lineno if frame.tb_frame.f_code.co_filename == str(template) else line
        frame = frame.tb_next
    return line


def _entry(report: Report, folder: Path, root: Path) -> dict[str, Any]:
    """Return the verdicts of an experiment file, as `plat_analysis.claims.reference` reads them."""
    experiment = report.experiment
    asked = {str(claim.get("id", claim.get("check"))): asks(claim) for claim in experiment.claims}
    return {
        "command": shlex.join(["plat", "sweep", experiment.path.as_posix(), *experiment.overrides]),
        "results": folder.relative_to(root).as_posix(),
        "runs": sum(not run.missing for run in report.results.runs),
        "claims": {
            verdict.id: {
                "asks": asked[verdict.id],
                "verdict": verdict.word,
                "found": verdict.reason,
            }
            for verdict in report.claims
        },
    }


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _read(path: Path) -> str:
    """Return the content of a file, or "" if it does not exist."""
    return path.read_text(encoding="utf-8") if path.is_file() else ""
