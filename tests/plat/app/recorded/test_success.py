"""A metric called `success` is success: of an import, and of a script, also beside `val/success` and in percent."""

from __future__ import annotations

from pathlib import Path

import pytest


def table(scale: float, other: str = "") -> str:
    rows = ["arm,seed,step,success" + (f",{other}" if other else "")]
    for seed in range(6):
        for arm, level in (("a", 0.9 + 0.001 * seed**2), ("b", 0.8)):
            cells = [arm, seed, 1, scale * level] + ([0.1 if arm == "a" else 0.4] if other else [])
            rows.append(",".join(map(str, cells)))
    return "\n".join(rows) + "\n"


CLAIM = """claims:
  - {id: higher, says: a is higher., check: mean_delta_positive, rows: [], columns: [], pair: arm, baseline: b,
     treatment: a, measure: {metric: success}, smallest: 5}
"""


@pytest.mark.parametrize(
    ("scale", "other", "shown"), [(1, "", "+10.9"), (1, "val/success", "+10.9"), (100, "", "+10.92")]
)
def test_the_column_success_is_what_is_judged(plat, project, scale, other, shown):
    Path("all.csv").write_text(table(scale, other))
    code, out, err = plat("import", "table", "all.csv", "--axes", "arm", "--out", "arm.yaml")
    assert (code, err) == (0, "") and f"−{shown[1:]} [" in out
    text, _, _ = Path("arm.yaml").read_text().partition("# To ask")
    claim = CLAIM if scale == 1 else CLAIM.replace("{metric: success}", "{metric: success, percent: false}")
    Path("arm.yaml").write_text(text + claim)
    code, out, _ = plat("claims", "arm.yaml")
    assert code == 0 and out.startswith("shown") and f"{shown} [" in out


def test_a_success_that_is_no_share_is_never_shown_in_percent(plat, project):
    Path("all.csv").write_text(table(100))
    assert plat("import", "table", "all.csv", "--axes", "arm", "--out", "arm.yaml")[0] == 0
    text, _, _ = Path("arm.yaml").read_text().partition("# To ask")
    Path("arm.yaml").write_text(text + CLAIM)
    code, out, err = plat("claims", "arm.yaml")
    assert code == 2 and "success has values outside of 0 to 1" in out + err and "percent: false" in out + err
    assert "91 " in plat("runs", "arm.yaml")[1] or "%" not in plat("runs", "arm.yaml")[1]


def test_a_script_that_prints_success(plat, project):
    line = "json.dumps({'step': 1, 'success': 0.5 + float(sys.argv[1]) / 10})"
    Path("s.py").write_text(f"import json, sys\nprint({line})\n")
    base = "title: x\nbase: {trainer: script, script.command: 'python s.py {lr}'}\nmatrix: {lr: [1, 2], seed: [0, 1]}\n"
    Path("s.yaml").write_text(base)
    code, out, err = plat("sweep", "s.yaml", "-j", "1")
    assert code == 0 and "60.0" in out and "70.0" in out and "+10.0" in out, out + err


def test_the_peak_of_a_success_that_is_no_share_is_refused(plat, project):
    Path("all.csv").write_text(table(100))
    assert plat("import", "table", "all.csv", "--axes", "arm", "--out", "arm.yaml")[0] == 0
    text, _, _ = Path("arm.yaml").read_text().partition("# To ask")
    Path("arm.yaml").write_text(text + CLAIM.replace("{metric: success}", "peak"))
    code, out, err = plat("claims", "arm.yaml")
    assert code == 2 and "success has values outside of 0 to 1" in out + err
