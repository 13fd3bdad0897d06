"""Results of the kit become rows and a page; a rehearsal becomes neither, and what was not run is listed."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import take

KIT = Path(__file__).parents[3] / "benchmarks" / "gpu"
MACHINE = {"device": "cuda", "tiny": False, "name": "NVIDIA X9", "driver": "999.1", "packages": "torch 2.11.0"}
RATE = {
    "matrix rate, float32": {"size": 8192, "tflops": 50.0},
    "494 M, float32": {"parameters": 494_000_000, "tflops": 12.5, "share_of_matrix_rate": 0.25, "peak_gib": 31.4159},
    "494 M, bfloat16": {"skipped": "the card has no bfloat16"},
}
SAVING = {
    "float32": {
        "rounds": 3,
        "iteration, 1": {"seconds": 8.0, "ratio": 1.0},
        "iteration, 0.5": {"seconds": 6.0, "ratio": 0.75},
    }
}


def archive(folder: Path, **records: dict) -> Path:
    path = folder / f"results-{len(list(folder.iterdir()))}.tar.gz"
    with tarfile.open(path, "w:gz") as packed:
        for name, record in records.items():
            text = json.dumps(record).encode()
            member = tarfile.TarInfo(f"{name}.json")
            member.size = len(text)
            packed.addfile(member, io.BytesIO(text))
    return path


def record(state: str, measured: dict | None = None, reason: str = "") -> dict:
    return {"state": state, "seconds": 12.34, "reason": reason, "measured": measured or {}}


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    docs = tmp_path / "docs"
    docs.mkdir()
    for name in ("gpu", "benchmarks"):
        (docs / f"{name}.md").write_text("before\n\n## On a GPU: numbers\n\nold\n")
    monkeypatch.setattr(take, "DOCS", docs)
    return docs


def call(monkeypatch: pytest.MonkeyPatch, *archives: Path) -> int:
    monkeypatch.setattr(sys, "argv", ["take.py", *map(str, archives)])
    return take.main()


def test_numbers_are_written_and_what_was_not_run_is_listed(docs, tmp_path, monkeypatch):
    failed = record("failed", {"one": {"error": "out of memory"}}, "one: out of memory")
    one = archive(tmp_path, machine=MACHINE, rate=record("done", RATE), saving=record("done", SAVING), verl_grpo=failed)
    assert call(monkeypatch, one) == 0
    page, rows = (docs / "gpu.md").read_text(), (docs / "benchmarks.md").read_text()
    assert page.startswith("before\n\n## On a GPU: numbers\n\n") and "old" not in page
    assert "NVIDIA X9" in page and "999.1" in page
    assert "| `verl_ppo` | not run |" in page and "| `embedded` | not run |" in page and "`free`" not in page
    assert "| `verl_grpo` | failed | 12.3 | one: out of memory |" in page
    assert "| 494 M, float32 | 494,000,000 | 12.5 | 0.25 | 31.4 |" in page and "the card has no bfloat16" in page
    assert (
        "| embedded trainer, 494 M, float32, an iteration | 12.5 TFLOP/s | square matrix products: 50 TFLOP/s" in rows
    )
    assert "| embedded trainer, 494 M, float32, 0.5 of the prompts kept | 6 s | every prompt: 8 s | 1.33x |" in rows
    assert "bfloat16" not in rows


def test_a_done_step_of_an_earlier_archive_stays(docs, tmp_path, monkeypatch):
    first = archive(tmp_path, machine=MACHINE, rate=record("done", RATE), saving=record("cut off"))
    second = archive(tmp_path, machine=MACHINE, rate=record("failed"), saving=record("done", SAVING))
    assert call(monkeypatch, first, second) == 0
    page = (docs / "gpu.md").read_text()
    assert "| `rate` | done |" in page and "| `saving` | done |" in page


@pytest.mark.parametrize("rehearsal", [{"device": "cpu"}, {"tiny": True}])
def test_a_rehearsal_is_written_nowhere(docs, tmp_path, monkeypatch, capsys, rehearsal):
    assert call(monkeypatch, archive(tmp_path, machine=MACHINE | rehearsal, rate=record("done", RATE))) == 0
    assert "This was a rehearsal" in capsys.readouterr().out
    assert "old" in (docs / "gpu.md").read_text() and "old" in (docs / "benchmarks.md").read_text()


def test_what_is_no_archive_is_one_message(docs, tmp_path, monkeypatch, capsys):
    (tmp_path / "notes.txt").write_text("hello")
    assert call(monkeypatch, tmp_path / "notes.txt") == 2
    assert call(monkeypatch, archive(tmp_path, rate=record("done"))) == 2
    said = capsys.readouterr().err
    assert said.count("error: ") == 2 and "Traceback" not in said and "old" in (docs / "gpu.md").read_text()


def test_recorded_differences_stand_beside_what_is_allowed():
    recorded = {"gradient": "4.4123e-07", "gradient/tolerance": "0.001", "kept": "equal"}
    tests = {"test_a": {"outcome": "passed", "seconds": 1.0, "recorded": recorded}}
    assert "| `test_a` | passed | 1 | gradient: 4.41e-07 (at most 0.001); kept: equal |" in take.tests_of(tests)


def test_the_pages_say_that_nothing_was_run_or_what_was():
    docs = KIT.parents[1] / "docs"
    for name, nothing in (("gpu", take.page_of({})), ("benchmarks", take.rows_of({}))):
        text = (docs / f"{name}.md").read_text()
        assert len(take.SECTION.findall(text)) == 1
        assert nothing in text or "driver" in text or "On NVIDIA" in text


def test_tests_on_a_gpu_skip_with_a_reason_where_there_is_none():
    command = [sys.executable, "-m", "pytest", "tests/plat_rl/cuda", "-m", "cuda", "-rs", "-p", "no:cacheprovider"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=KIT.parents[1])
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU: the tests are not skipped")
    assert done.returncode == 0, done.stdout
    assert "36 skipped" in done.stdout and "built without CUDA" in done.stdout, done.stdout
