"""A home copied with `cp -r` is a home of its own: whatever is done in the copy leaves the original byte for byte."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from cli_files import GUESSING, results_of


def contents(home: Path) -> dict[str, str]:
    """Every file below a folder, with a hash of its bytes."""
    files = [path for path in home.rglob("*") if path.is_file()]
    return {str(path.relative_to(home)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_copied_home_is_used_and_the_original_stays(plat, spec, home, toy, tmp_path, monkeypatch):
    path = spec(GUESSING)
    code, first, err = plat("sweep", path)
    assert code == 0, err
    original, copy = contents(home), tmp_path / "copy"
    subprocess.run(["cp", "-r", str(home), str(copy)], check=True)
    monkeypatch.setenv("PLAT_HOME", str(copy))
    assert "2 done of 2" in plat("status", path)[1]
    code, again, _ = plat("sweep", path)
    assert code == 0 and "started" not in again and first[first.index("A test") : first.index("report:")] in again
    assert plat("sync", path)[0] == 0
    code, out, _ = plat("report", path)
    assert code == 0 and f"{copy}/reports" in out and str(home) not in out
    removed, kept = sorted(results_of(copy))
    assert plat("rm", removed, "--yes")[0] == 0 and results_of(copy).keys() == {kept}
    code, out, _ = plat("sweep", path, "-v")
    assert code == 0 and out.count("started") == 1 and results_of(copy).keys() == {removed, kept}
    assert plat("rm", kept, "--yes")[0] == 0 and plat("gc")[0] == 0
    assert contents(home) == original
    monkeypatch.setenv("PLAT_HOME", str(home))
    assert plat("sweep", path)[1].startswith("nothing to do")
