"""What the tests in tests/frozen catch, shown by making the mistakes.

    python tests/mutations.py [NAME...]      a table: each mutation, and the first test that fails under it

Each mutation is applied to a copy of the source, never to the repository, and the freezing tests are run against the
copy. The exit code is 1 when a mutation goes unnoticed, or when the tests fail without one. Takes from two to
twenty seconds for each mutation.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEMONSTRATIONS = "envs/plat_envs/stand_in.py"
TRAINER = "platform/plat_rl/embedded"
SCHEMA = "platform/plat_rl/run_config.py"
COPIED = ("platform", "envs", "analysis", "experiments", "tests/frozen", "pyproject.toml")


@dataclass(frozen=True)
class Edit:
    """Replace the only place in `file` where `old` stands; with `everywhere`, every whole word `old` of a folder."""

    file: str
    old: str
    new: str
    everywhere: bool = False

    def __call__(self, root: Path) -> None:
        if self.everywhere:
            files = [file for file in (root / self.file).rglob("*") if file.suffix in (".py", ".yaml")]
            count = sum(_replace(file, self.old, self.new) for file in files)
            if not count:
                raise LookupError(f"{self.old!r} stands nowhere in {self.file}")
            return
        path = root / self.file
        text = path.read_text()
        if text.count(self.old) != 1:
            raise LookupError(f"{self.old!r} stands {text.count(self.old)} times in {self.file}, not once")
        path.write_text(text.replace(self.old, self.new))


def _replace(file: Path, old: str, new: str) -> int:
    text, count = re.subn(rf"\b{re.escape(old)}\b", new, file.read_text())
    if count:
        file.write_text(text)
    return count


def flip_a_bit_of_a_base(root: Path) -> None:
    """Damage: the record still holds the hash of the bytes before."""
    weights = _first_base(root) / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-3] ^= 1
    weights.write_bytes(bytes(data))


def ship_another_build(root: Path) -> None:
    """Other weights with a record that fits them: only the frozen hash can tell."""
    from plat_rl.embedded.base_model.base_record import content_hash, file_hash

    flip_a_bit_of_a_base(root)
    folder = _first_base(root)
    record = json.loads((folder / "base.json").read_text())
    record["files"]["model.safetensors"] = file_hash(folder / "model.safetensors")
    names = ("config.json", "model.safetensors")
    record["sha256"] = content_hash((name, record["files"][name]) for name in names)
    (folder / "base.json").write_text(json.dumps(record))


def leave_a_base_out(root: Path) -> None:
    shutil.rmtree(_first_base(root))


def _first_base(root: Path) -> Path:
    return min(path for path in (root / TRAINER / "bases").iterdir() if path.is_dir())


MUTATIONS: dict[str, Callable[[Path], None]] = {
    "another JSON spelling of the identity": Edit(
        "platform/plat/spec/identity/run_identity.py", 'sort_keys=True, separators=(",", ":")', "sort_keys=True"
    ),
    "another number of the scheme": Edit("platform/plat/spec/identity/run_identity.py", "SCHEME = 2", "SCHEME = 3"),
    "scheme left out of the id": Edit(
        "platform/plat/spec/identity/run_identity.py", """ + ',"scheme":' + str(SCHEME)""", ""
    ),
    "versions of plugins dropped from ids": Edit(
        "platform/plat/spec/composition/resolver.py", "version, plugins, facts", "version, [], facts"
    ),
    "base model dropped from ids": Edit(TRAINER + "/spec.py", '"base": base_identity(config.model), ', ""),
    "warm-up of the base's training": Edit(TRAINER + "/base_model/load.py", "WARMUP_STEPS = 50", "WARMUP_STEPS = 60"),
    "Adam betas of the base's training": Edit(TRAINER + "/base_model/load.py", "(0.9, 0.99)", "(0.9, 0.98)"),
    "decay of the base's learning rate": Edit(TRAINER + "/base_model/load.py", "(1 - step / base.steps)", "1.0"),
    "mix of the demonstrations": Edit(DEMONSTRATIONS, "_GOOD_MOVES = 0.7", "_GOOD_MOVES = 0.69"),
    "share of useful templates": Edit(
        DEMONSTRATIONS,
        "rng.random() < mix.usefulness",
        "rng.random() < 0.5 * mix.usefulness",
    ),
    "shares of the splits": Edit(
        "envs/plat_envs/instances.py", '("base",) * 4 + ("train",) * 4', '("base",) * 3 + ("train",) * 5'
    ),
    "a bit of a shipped base": flip_a_bit_of_a_base,
    "another build in place of a shipped base": ship_another_build,
    "a shipped base left out": leave_a_base_out,
    "a default in the schema": Edit(SCHEMA, "beta2: float = number(0.999", "beta2: float = number(0.99"),
    "a default of a scale": Edit("platform/plat_rl/conf/scale/laptop.yaml", "  lr: 3.0e-4", "  lr: 3.1e-4"),
    "a value of an algorithm": Edit("platform/plat_rl/conf/algorithm/dapo.yaml", "clip_high: 0.28", "clip_high: 0.27"),
    "the spelling of a key": Edit("platform", "ema_alpha", "ema_weight", everywhere=True),
    "the default evaluation temperature": Edit(
        SCHEMA, "number(0.5, minimum=0)  # of the sampling in", "number(0.6, minimum=0)  # of the sampling in"
    ),
    "seeds of the training instances": Edit(
        "platform/plat_rl/loop/randomness.py", "pair(pair(seed, step), refill)", "pair(pair(step, seed), refill)"
    ),
    "temperature of evaluations": Edit(
        TRAINER + "/evaluate.py", "config.task, config.eval.temperature", "config.task, config.train.temperature"
    ),
    "a `legacy` value": Edit(TRAINER + "/spec.py", '_rounding": "floor"', '_rounding": "round"'),
    "version of an environment": Edit("envs/plat_envs/games/sokoban.py", 'version="', 'version="9'),
}


def main(names: list[str]) -> int:
    chosen = {name: edit for name, edit in MUTATIONS.items() if not names or name in names}
    unnoticed = 0
    for name, edit in [("(none)", None), *chosen.items()]:
        failed = failures_under(edit)
        wrong = bool(failed) != (edit is not None)
        unnoticed += wrong
        print(f"{name:45} {'UNNOTICED' if wrong and edit else ', '.join(failed) or 'all pass'}", flush=True)
    return int(unnoticed > 0)


def failures_under(edit: Callable[[Path], None] | None) -> list[str]:
    """The first of the freezing tests that fails on a copy of the source with this edit; empty when all pass."""
    with tempfile.TemporaryDirectory(prefix="plat-mutation-") as folder:
        root = Path(folder)
        for name in COPIED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            (root / name).parent.mkdir(exist_ok=True, parents=True)
            copy(ROOT / name, root / name)
        if edit is not None:
            edit(root)
        (root / "tests" / "toy").mkdir(parents=True)
        sources = os.pathsep.join(str(root / package) for package in ("platform", "envs", "analysis"))
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-x", "-rfE", "tests/frozen"],
            cwd=root,
            env={**os.environ, "PYTHONPATH": sources, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
        )
    failed = [
        line.split("::")[1].split(" ")[0]
        for line in done.stdout.splitlines()
        if line.startswith(("FAILED", "ERROR")) and "::" in line
    ]
    if done.returncode and not failed:
        raise RuntimeError(f"the tests did not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return list(dict.fromkeys(name.split("[")[0] for name in failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
