"""What does an agent keep that edits a script, asks `plat judge`, and keeps or reverts?

    python benchmarks/agent_loop.py [--rounds 20] [--folder DIR]

The agent is this script. It knows `plat skill` (from its table it takes which exit code means *keep*) and the JSON of
`plat judge`. The program classifies scikit-learn's digits, with noise on the images, by a softmax regression. Every
second edit is a planted gain: the noise becomes a fifth smaller. The others draw other noise and another split, which
changes every result and improves nothing. `--naive` keeps what scored better once, as loops without plat do.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCRIPT = """import argparse
import numpy as np
from sklearn.datasets import load_digits

NOISE = 2.0
ORDER = 0

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
random = np.random.default_rng([parser.parse_args().seed, ORDER])
images, labels = load_digits(return_X_y=True)
images = images / 16 + NOISE * random.standard_normal(images.shape)
chosen = random.permutation(len(images))
trained, held_out = chosen[:500], chosen[500:]
weights = np.zeros((64, 10))
for step in range(100):
    scores = images[trained] @ weights
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    weights -= 0.5 * images[trained].T @ (shares - np.eye(10)[labels[trained]]) / 500
found = (images[held_out] @ weights).argmax(axis=1)
print({"accuracy": float((found == labels[held_out]).mean())})
"""
JUDGE = ["judge", "python train.py", "--metric", "accuracy", "--against", "HEAD", "--study", "night", "--json"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="number of edits; every second edit is a planted gain")
    parser.add_argument("--folder", type=Path, help="where the program lies [a temporary folder]")
    parser.add_argument("--naive", action="store_true", help="keep what scored better in one run of each")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        loop(options.folder or Path(scratch), options.rounds, naive=options.naive)


def loop(folder: Path, rounds: int, *, naive: bool) -> None:
    """Edit, judge, and keep or revert; print each round and what was kept."""
    keeps = codes_to_keep(plat(folder, "skill", "--json")[1]["text"])
    script = folder / "train.py"
    script.write_text(SCRIPT)
    (folder / ".gitignore").write_text("plat-home\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "the first version")
    kept = {"gain": 0, "noise": 0}
    tried = {"gain": 0, "noise": 0}
    pairs, started = 0, time.monotonic()
    for number in range(rounds):
        kind = "gain" if number % 2 else "noise"
        script.write_text(edited(script.read_text(), kind, number))
        if naive:
            is_better, said = scored_better(folder), ""
        else:
            code, found = plat(folder, *JUDGE)
            is_better, said = code in keeps, f"{found.get('verdict')}, {found.get('pairs')} pairs {found.get('error')}"
            pairs += found.get("pairs") or 0
        tried[kind] += 1
        kept[kind] += is_better
        git(folder, *(["commit", "-q", "-am", f"edit {number}"] if is_better else ["checkout", "-q", "."]))
        print(f"{number + 1:3} {kind:5} {'kept' if is_better else 'reverted':8} {said}", flush=True)
    minutes = (time.monotonic() - started) / 60
    print(f"kept {kept['gain']} of {tried['gain']} gains and {kept['noise']} of {tried['noise']} edits without effect")
    print(f"{pairs} pairs, {minutes:.1f} min")


def edited(text: str, kind: str, number: int) -> str:
    """Return the program after an edit: a fifth less noise, or other draws."""
    if kind == "gain":
        return re.sub(r"^NOISE = ([\d.]+)", lambda found: f"NOISE = {0.8 * float(found[1]):.4f}", text, flags=re.M)
    return re.sub(r"^ORDER = \d+", f"ORDER = {number + 1}", text, flags=re.M)


def codes_to_keep(skill: str) -> set[int]:
    """Return the exit codes of `plat judge` after which the page tells to keep a change."""
    rows = re.findall(r"^\| (\d+) \| [^|]+ \| ([^|]+) \|$", skill, flags=re.M)
    return {int(code) for code, what in rows if what.startswith("keep")}


def plat(folder: Path, *words: str) -> tuple[int, dict[str, object]]:
    """Return the exit code and the JSON of a verb."""
    done = subprocess.run([sys.executable, "-m", "plat", *words], cwd=folder, capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout)


def scored_better(folder: Path) -> bool:
    """Return whether one run of the edited program scores above one run of the last version kept."""
    after = one_run(folder)
    git(folder, "stash", "-q")
    before = one_run(folder)
    git(folder, "stash", "pop", "-q")
    return after > before


def one_run(folder: Path) -> float:
    done = subprocess.run([sys.executable, "train.py"], cwd=folder, capture_output=True, text=True, check=True)
    return float(re.findall(r"[\d.]+", done.stdout)[0])


def git(folder: Path, *words: str) -> None:
    of_author = ["-c", "user.name=agent", "-c", "user.email=agent@localhost"]
    subprocess.run(["git", *of_author, *words], cwd=folder, check=True)


if __name__ == "__main__":
    main()
