"""A trainer that lies beside its experiment file is found by the tasks of a scheduler, without a path."""

from __future__ import annotations

import subprocess
import sys

from beside import trainer_text
from clusters import QUICK


def test_a_trainer_beside_its_file_is_found_by_the_tasks(home, fake, tmp_path, monkeypatch):
    for name in ("PLAT_ALLOW_IMPORT", "PYTHONPATH"):
        monkeypatch.delenv(name)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "beside_trainer.py").write_text(trainer_text("beside_trainer", "io.log(1, {'val/success': 0.5})"))
    (mine / "own.yaml").write_text("title: Own\nbase: {trainer: 'beside_trainer:Own'}\nmatrix: {seed: [0]}\n")
    sweeping = [
        "sweep",
        str(mine / "own.yaml"),
        "--on",
        "slurm",
        "--wait",
        "--allow-import",
        "--home",
        str(home.root),
        *QUICK,
    ]
    done = subprocess.run([sys.executable, "-m", "plat", *sweeping], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert fake.calls()["sbatch"] == 1 and [run.result.exists() for run in home.all_runs()] == [True]
