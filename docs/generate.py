"""Writes into the pages of `docs/` what commands print, so that no number in them is written by hand.

python docs/generate.py [PAGE ...]            write every block anew
python docs/generate.py --check [PAGE ...]    change nothing; exit code 1 and the names of blocks that are out of date

A block lies between a line that says where it comes from and `<!-- end -->`:

    <!-- prints: COMMAND -->           the output of `python -m ...`, e.g. a Markdown table
    <!-- shows: COMMAND -->            the same in a block of code
    <!-- report: BUNDLE FILE TABLE --> a table of the report of an experiment file, made from the runs of a bundle
    <!-- claims: BUNDLE FILE -->       the verdicts on its claims
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(<!-- (prints|shows|report|claims): (.*?) -->\n)(.*?)(<!-- end -->)", re.S)

REASONS = re.compile(r"; (?![^(]*\))")  # between the reasons of a verdict, not inside of their parentheses


def run(*command: str) -> str:
    """What a Python command prints, started in the root of the repository; SystemExit where it fails."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PLAT_", "MLFLOW_"))}
    done = subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{shlex.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


@cache
def report(bundle: str, file: str) -> dict[str, str]:
    """File name -> text of the tables and claims of a report, made in a home that holds the runs of the bundle."""
    with tempfile.TemporaryDirectory() as folder:
        home, out = f"{folder}/home", f"{folder}/report"
        run("-m", "plat", "import", bundle, "--home", home)
        run("-m", "plat", "report", f"{bundle}/experiments/{file}", "--home", home, "--out", out)
        paths = [*Path(out).glob("*.md"), Path(out, "claims.json")]
        return {path.name: path.read_text(encoding="utf-8") for path in paths}


@cache
def content(kind: str, source: str) -> str:
    """The lines of a block."""
    words = shlex.split(source)
    if kind == "report":
        bundle, file, table = words
        heading, _, rest = report(bundle, file)[f"{table}.md"].partition("\n")
        return f"\n**{heading.lstrip('# ')}**\n{rest.rstrip()}\n\n"
    if kind == "claims":
        claims = json.loads(report(words[0], words[1])["claims.json"])["claims"]
        verdicts = [f"{claim['verdict']}: {claim['says']}\n  {claim['detail']}" for claim in claims]
        return "```text\n" + REASONS.sub("\n  ", "\n".join(verdicts)) + "\n```\n"
    if words[0] != "python":
        raise SystemExit(f"only python is run for a page: {source}")
    printed = run(*words[1:]).rstrip()
    return f"```text\n{printed}\n```\n" if kind == "shows" else f"\n{printed}\n\n"


def generated(text: str) -> str:
    """The page with every block written anew."""
    return BLOCK.sub(lambda match: match[1] + content(match[2], match[3]) + match[5], text)


def stale_blocks(text: str) -> list[str]:
    """The sources of the blocks whose lines are not those of their source."""
    return [source for _, kind, source, lines, _ in BLOCK.findall(text) if lines != content(kind, source)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, help="(default: every page of docs/)")
    parser.add_argument("--check", action="store_true", help="change nothing")
    given = parser.parse_args(arguments)
    stale = 0
    for page in given.pages or sorted((ROOT / "docs").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if given.check:
            for source in stale_blocks(text):
                print(f"{page}: not what it should be: {source}")
                stale += 1
        elif (new := generated(text)) != text:
            page.write_text(new, encoding="utf-8")
            print(f"{page}: written")
    return int(stale > 0)


if __name__ == "__main__":
    sys.exit(main())
