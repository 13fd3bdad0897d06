"""Keep what plat found in the runs that others publish, as numbers and verdicts: their files are not kept here.

    plat sweep experiments/published/tdmpc2.yaml   (after its import, see the file)
    python -m tools.documents.published [--home plat-home]

This writes `results/published/NAME.json` for each file of experiments/published that the home has a report of. The page
docs/published.md is made of these.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from tools.documents.described_runs import described

FILES, SUMMARIES = Path("experiments/published"), Path("results/published")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, default=Path("plat-home"))
    home = parser.parse_args().home
    SUMMARIES.mkdir(exist_ok=True)
    for file in sorted(FILES.glob("*.yaml")):
        report = home / "reports" / file.stem
        if (report / "claims.json").is_file():
            more = described(str(file), str(home)) if file.stem == "ragen2_runs" else {}
            (SUMMARIES / f"{file.stem}.json").write_text(text_of(report, more), encoding="utf-8")
            print(f"{SUMMARIES / file.stem}.json written")


def text_of(report: Path, more: dict[str, list[float]]) -> str:
    """Return the summary of a report: its verdicts, and its numbers with their intervals; no run's values.

    more  further numbers, called `described/NAME`
    """
    claims = json.loads((report / "claims.json").read_text(encoding="utf-8"))["claims"]
    table = json.loads((report / "estimates.json").read_text(encoding="utf-8"))
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    numbers = {row["name"].partition("/")[2]: _ends(row) for row in rows if row["value"] is not None}
    numbers |= {f"described/{name}": values for name, values in more.items()}
    kept = ("id", "says", "verdict", "reason", "detail")
    summary = {"verdicts": [{key: claim[key] for key in kept} for claim in claims], "numbers": numbers}
    return json.dumps(summary, indent=1, ensure_ascii=False) + "\n"


def _ends(row: dict[str, Any]) -> list[float]:
    ends = [row["value"], row["low"], row["high"]]
    return [round(end, 6) for end in ends if end is not None]


if __name__ == "__main__":
    main()
