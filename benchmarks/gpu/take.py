"""Write the numbers of the GPU kit into docs/gpu.md and docs/benchmarks.md.

    python benchmarks/gpu/take.py results.tar.gz [results.tar.gz ...]

Of several archives of one machine, a step is taken from the last one that has it done, or has it at all. Results of a
rehearsal (`--device cpu` or `--tiny`) are printed and written nowhere. Steps that were not run are listed as such.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tarfile
from pathlib import Path
from typing import Any

from run import STEPS

DOCS = Path(__file__).resolve().parents[2] / "docs"
SECTION = re.compile(r"(^## On a GPU: numbers\n\n).*\Z", re.DOTALL | re.MULTILINE)  # the last one of both pages
NOT_RUN = "**Not run yet.** No machine with a GPU has run these steps."
NO_ROWS = "Nothing has been measured on a GPU yet."
HALF = "half of the prompts over every prompt"


def results_of(archives: list[Path]) -> dict[str, dict[str, Any]]:
    """Return step -> its record, and `machine`. Raises ValueError for an archive that the kit has not written."""
    found: dict[str, dict[str, Any]] = {}
    for archive in archives:
        try:
            with tarfile.open(archive) as packed:
                files = {name: packed.extractfile(name) for name in packed.getnames() if name.endswith(".json")}
                records = {Path(name).stem: json.load(stream) for name, stream in files.items() if stream}
        except (OSError, EOFError, tarfile.TarError, ValueError) as error:
            raise ValueError(f"{archive} is no archive of results: {error}") from error
        if "machine" not in records or not all(map(_is_record, records.values())):
            raise ValueError(f"{archive} has no machine, or a record that the kit has not written")
        for name, record in records.items():
            if name == "machine" or record.get("state") == "done" or found.get(name, {}).get("state") != "done":
                found[name] = record
    return found


def _is_record(record: Any) -> bool:
    """Return True for a JSON object whose measurements are objects, too."""
    measured = record.get("measured", {}) if isinstance(record, dict) else None
    return isinstance(measured, dict) and all(isinstance(one, dict) for one in measured.values())


def page_of(found: dict[str, dict[str, Any]]) -> str:
    """Return the part of docs/gpu.md that is written from results."""
    if not found:
        return NOT_RUN
    machine = found["machine"]
    facts = [
        (name, machine[name]) for name in ("name", "driver", "memory", "cores", "python", "packages") if name in machine
    ]
    parts = [table(("the machine", ""), [(name, shown(value)) for name, value in facts])]
    states = [(f"`{name}`", *_state(found.get(name))) for name in STEPS if name != "free" or name in found]
    parts.append(table(("step", "state", "seconds", "what was left out, or went wrong"), states))
    for name in STEPS:
        if measured := found.get(name, {}).get("measured"):
            parts.append(f"### `{name}`\n\n" + "\n\n".join(tables_of(measured)))
    return "\n\n".join(parts)


def _state(record: dict[str, Any] | None) -> tuple[str, str, str]:
    if record is None or "state" not in record:
        return "not run", "", ""
    return str(record["state"]), shown(record.get("seconds", "")), str(record.get("reason", ""))


def tables_of(measured: dict[str, dict[str, Any]]) -> list[str]:
    """Return measurements as tables: those with the same scalar values as rows of one, others as a table each."""
    rows: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    others = []
    for name, values in measured.items():
        nested = {key: value for key, value in values.items() if isinstance(value, dict)}
        scalars = {key: value for key, value in values.items() if key not in nested}
        if nested and all("outcome" in value for value in nested.values()):
            others.append(f"**{name}**\n\n" + tests_of(nested))
        elif nested:
            others.append(f"**{name}**\n\n" + "\n\n".join(tables_of({**({"": scalars} if scalars else {}), **nested})))
        elif scalars:
            row = (name, *(shown(value) for value in scalars.values()))
            rows.setdefault(tuple(key if "/" in key else key.replace("_", " ") for key in scalars), []).append(row)
    plain = []
    for columns, lines in rows.items():
        if len(lines) == 1 and len(columns) > 4:  # upright
            plain.append(table((lines[0][0], ""), list(zip(columns, lines[0][1:], strict=True))))
        else:
            plain.append(table(("", *columns), lines))
    return plain + others


def tests_of(tests: dict[str, dict[str, Any]]) -> str:
    """Return a table of tests, with what they have recorded: a value, and the largest that the test allows."""
    rows = []
    for name, test in tests.items():
        said = [str(reason) for reason in test.get("reason", [])]
        for key, value in test.get("recorded", {}).items():
            if not key.endswith("/tolerance"):
                allowed = test["recorded"].get(f"{key}/tolerance")
                said.append(f"{key}: {_short(value)}" + (f" (at most {_short(allowed)})" if allowed else ""))
        rows.append((f"`{name}`", str(test["outcome"]), shown(test["seconds"]), "; ".join(said)))
    return table(("test", "outcome", "seconds", "largest differences, and what else was recorded"), rows)


def _short(text: str) -> str:
    """Return a recorded number with three significant digits, and other text as it is."""
    try:
        return shown(float(text))
    except ValueError:
        return text


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "/").replace("\n", " ") for cell in line) + " |" for line in lines
    )


def shown(value: Any) -> str:
    """Return a value as text; a number with three significant digits."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, list):
        return ", ".join(map(shown, value))
    return "" if value is None else str(value)


def rows_of(found: dict[str, dict[str, Any]]) -> str:
    """Return the rows of docs/benchmarks.md: each figure beside its reference of the same minute."""
    rows = []
    for name, one in found.get("rate", {}).get("measured", {}).items():
        if one.get("share_of_matrix_rate"):
            against = f"square matrix products: {shown(one['tflops'] / one['share_of_matrix_rate'])} TFLOP/s"
            ratio = f"{one['share_of_matrix_rate']:.3f}x"
            rows.append((f"embedded trainer, {name}, an iteration", f"{shown(one['tflops'])} TFLOP/s", against, ratio))
    saving = found.get("saving", {}).get("measured", {})
    for precision, one in saving.items():
        for share in ("0.75", "0.5", "0.25"):
            if f"iteration, {share}" in one:
                mine, whole = one[f"iteration, {share}"], one["iteration, 1"]
                name = f"embedded trainer, 494 M, {precision}, {share} of the prompts kept"
                against = f"every prompt: {shown(whole['seconds'])} s"
                rows.append((name, f"{shown(mine['seconds'])} s", against, f"{1 / mine['ratio']:.2f}x"))
    verl = found.get("verl_ppo", {}).get("measured", {})
    if "step" in verl.get(HALF, {}):
        against = "every prompt; the paper's Table 5: 26 to 41 % less"
        less = f"{100 * (1 - verl[HALF]['step']):.0f} % less time"
        rows.append(
            ("verl, PPO, 494 M, a step with half of the prompts", less, against, f"{1 / verl[HALF]['step']:.2f}x")
        )
    if not rows:
        return NO_ROWS
    return f"On {found['machine'].get('name', 'a GPU')}:\n\n" + table(
        ("benchmark", "measured", "reference", "ratio"), rows
    )


def written(page: Path, content: str) -> str:
    """Return the text of a page with another content of its last section. Raises ValueError if it has none."""
    text = page.read_text()
    if not SECTION.search(text):
        raise ValueError(f"{page} has no section `On a GPU: numbers`")
    return SECTION.sub(lambda match: f"{match[1]}{content.rstrip()}\n", text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path, nargs="+")
    try:
        found = results_of(parser.parse_args().archive)
        if found["machine"].get("device") != "cuda" or found["machine"].get("tiny"):
            print(page_of(found), rows_of(found), "This was a rehearsal: no page is written.", sep="\n\n")
            return 0
        pages = {DOCS / "gpu.md": page_of(found), DOCS / "benchmarks.md": rows_of(found)}
        for page, text in {page: written(page, content) for page, content in pages.items()}.items():
            page.write_text(text)
    except (ValueError, KeyError, TypeError, ZeroDivisionError) as error:
        print(f"error: {error}\n  fix: name results.tar.gz of benchmarks/gpu/run.py", file=sys.stderr)
        return 2
    print("docs/gpu.md and docs/benchmarks.md are written: read them, and commit")
    return 0


if __name__ == "__main__":
    sys.exit(main())
