"""Importers as processes: several at once, killed in the middle, on a full disk, on a home without a store."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

from store_dump import dump

from plat.store.mlflow.importer import import_runs

WORKER = """
import sys
from plat.store.home import Home
from plat.store.mlflow.importer import import_runs
home = Home.find(sys.argv[1])
print("ready", flush=True)
runs = home.all_runs()
for run in reversed(runs) if sys.argv[2] == "backwards" else runs:
    import_runs(home, home.store_uri(), runs=[run])
"""


def test_two_processes_and_kills_in_the_middle(make_home, recipe):
    """Two importers at once in opposite orders, killed again and again: the content of one undisturbed import."""
    recipes = [recipe(n, steps=60, kills=[(30, 20)]) for n in range(12)]
    homes = [make_home("quiet"), make_home("killed")]
    for item in recipes:
        shutil.copytree(item.write(homes[0]).root, homes[1].run(item.id).root)
    import_runs(homes[0], homes[0].store_uri())
    rng = random.Random(0)
    for delay in [rng.uniform(0.01, 0.25) for _ in range(5)] + [None]:
        workers = [
            subprocess.Popen([sys.executable, "-c", WORKER, homes[1].root, way], stdout=subprocess.PIPE)
            for way in ("forwards", "backwards")
        ]
        for worker in workers:
            worker.stdout.readline()
        if delay is not None:
            time.sleep(delay)
            for worker in workers:
                os.kill(worker.pid, signal.SIGKILL)
        for worker in workers:
            worker.communicate()
        codes = [worker.returncode for worker in workers]
    assert codes == [0, 0]
    assert dump(homes[1].store_uri()) == dump(homes[0].store_uri())
    assert import_runs(homes[1], homes[1].store_uri()).imported == []


def test_a_full_disk_in_the_middle_of_an_import(home, recipe, runs_of):
    """Run by run all or nothing: what was imported before stays, the rest follows when there is room again."""
    for n in range(6):
        recipe(n, steps=400).write(home)
    code = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1_100_000,) * 2)\n"
    code += "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    done = subprocess.run([sys.executable, "-c", code + WORKER, home.root, "forwards"], capture_output=True, text=True)
    assert "StoreError" in done.stderr.splitlines()[-1]
    imported = runs_of(home)
    whole = [run for run in imported if "plat.measured" in run.data.tags]
    assert 0 < len(whole) < 6 and len(imported) <= len(whole) + 1
    import_runs(home, home.store_uri())
    assert len(runs_of(home)) == 6


def test_the_first_import_makes_the_store(make_home, recipe, runs_of):
    """Two processes at once on a home without a store."""
    home = make_home(store=False)
    for n in range(4):
        recipe(n).write(home)
    workers = [
        subprocess.Popen([sys.executable, "-c", WORKER, home.root, way], stderr=subprocess.PIPE, text=True)
        for way in ("forwards", "backwards")
    ]
    for worker in workers:
        said, code = worker.communicate()[1], worker.wait()
        assert code == 0 and "Error" not in said
    with sqlite3.connect(home.database) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert len(runs_of(home)) == 4
