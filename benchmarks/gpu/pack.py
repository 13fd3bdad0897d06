"""Pack what a GPU machine without network lacks: wheels in parts, and the source tree without its large files.

    python benchmarks/gpu/pack.py                     into build/gpu: tree/, part-1/, part-2/, ...
    python benchmarks/gpu/pack.py --bare mine.txt     for a machine that has other packages

Run it where pip has a package index, in the environment of `make install`. The machine is assumed to have the packages
of `bare.txt`. What plat and its trainer verl need beyond these, in the versions of requirements.txt, is downloaded as
wheels for that machine's Python; plat itself becomes a wheel, too. `run.py` installs the parts there.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from parts import write_parts

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
MIB = 1 << 20
# Folders of the checkout that do not travel: finished runs, shipped base models, pictures.
LEFT_BEHIND = ("results/", "platform/plat_rl/bases/v", "docs/images/")
# Required by metadata, but not used here: verl can log to W&B; Ray can make environments and show stacks of its
# processes; MLflow can talk to Databricks and Docker, keep models of scikit-learn, and encrypt keys of its gateway.
UNUSED = {"wandb", "py-spy", "virtualenv", "databricks-sdk", "docker", "skops", "cryptography"}
# Folders of wheels that are not used: web pages, Java, tests, libraries beside the core of Ray.
LEFT_OUT = {
    "mlflow": "mlflow/server/js/build/",
    "pandas": "pandas/tests/",
    "ray": ("ray/jars/", "ray/dashboard/client/", "ray/rllib/", "ray/llm/"),
}
# In bare.txt in a version that plat does not work with.
CARRIED_ANYWAY = {"pandas"}
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64",
             "manylinux_2_34_x86_64", "manylinux_2_31_x86_64", "manylinux1_x86_64")  # fmt: skip


def names_in(file: Path) -> dict[str, str]:
    """Return canonical name -> version ("" if none is given) of a requirements file."""
    lines = [line.partition("#")[0].strip() for line in file.read_text().splitlines()]
    pairs = [line.partition("==") for line in lines if line]
    return {canonicalize_name(name): version for name, _, version in pairs}


def needed(extras: tuple[str, ...], python: str, bare: dict[str, str]) -> list[str]:
    """Return the packages that plat needs with these extras, and the machine lacks, by canonical name.

    Follows the requirements of the installed packages, by their markers for the machine's Python. A package that the
    machine has is not followed further.
    """
    machine = {"python_version": python, "python_full_version": f"{python}.0", "platform_machine": "x86_64"}
    seen: dict[str, set[str]] = {}

    def follow(name: str, asked: set[str]) -> None:
        key = canonicalize_name(name)
        if key in UNUSED or (key in bare and key not in CARRIED_ANYWAY) or asked <= seen.get(key, set()):
            return
        seen[key] = seen.get(key, set()) | asked
        for text in importlib.metadata.distribution(name).requires or ():
            requirement = Requirement(text)
            marker = requirement.marker
            if marker is None or any(marker.evaluate({**machine, "extra": extra}) for extra in seen[key]):
                follow(requirement.name, {"", *requirement.extras})

    follow("plat", {"", *extras})
    del seen["plat"]
    return sorted(seen)


def copy_tree(target: Path) -> None:
    """Copy the tracked files of the checkout, without those that stay behind."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        source = REPOSITORY / name
        if not name.startswith(LEFT_BEHIND) and source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)


def download(names: list[str], folder: Path, python: str) -> None:
    """Download a wheel of each package, pinned by requirements.txt; build the pure ones that have none."""
    pins = names_in(REPOSITORY / "requirements.txt")
    wanted = [f"{name}=={pins[name]}" if name in pins else name for name in names]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    target = ["--only-binary=:all:", "--python-version", python, "--implementation", "cp"]
    target += [word for platform in PLATFORMS for word in ("--platform", platform)]
    without_wheel = []
    for one in wanted:
        command = [*pip, "download", "-q", "--no-deps", *target, "-d", str(folder), one]
        if subprocess.run(command, capture_output=True).returncode:
            without_wheel.append(one)
    for one in without_wheel:
        print(f"{one} has no wheel for that machine: building one", flush=True)
        done = subprocess.run([*pip, "wheel", "-q", "--no-deps", "-w", str(folder), one], capture_output=True)
        if done.returncode:
            raise SystemExit(f"error: no wheel of {one}: {done.stderr.decode(errors='replace').strip()}")
    for wheel in folder.glob("*.whl"):
        if (
            "cp" in (tag := wheel.stem.split("-")[-3])
            and "abi3" not in wheel.stem
            and python.replace(".", "") not in tag
        ):
            raise SystemExit(f"error: {wheel.name} is for another Python than {python}")


def leave_out(wheel: Path, prefixes: str | tuple[str, ...]) -> None:
    """Write a wheel again without the files whose names begin with one of the prefixes."""
    smaller = wheel.with_suffix(".smaller")
    with ZipFile(wheel) as whole, ZipFile(smaller, "w", ZIP_DEFLATED) as kept:
        for entry in whole.infolist():
            if not entry.filename.startswith(prefixes):
                kept.writestr(entry, whole.read(entry), ZIP_DEFLATED)
    smaller.rename(wheel)


def _name_of(wheel: Path) -> str:
    return canonicalize_name(wheel.name.split("-")[0])


def size_of(folder: Path) -> float:
    """Return the size of the files in a folder, in MiB."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / MIB


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=REPOSITORY / "build" / "gpu", help="[build/gpu]; replaced")
    parser.add_argument("--bare", type=Path, default=HERE / "bare.txt", help="what the machine has [bare.txt]")
    parser.add_argument("--python", default="3.12", help="the machine's Python [%(default)s]")
    parser.add_argument("--part", type=int, default=40, help="largest size of a part in MiB [%(default)s]")
    given = parser.parse_args()
    if given.part < 1:
        parser.error("--part: at least 1 MiB")
    if not given.bare.is_file():
        parser.error(f"--bare: {given.bare} is no file")
    for old in (given.out / "tree", given.out / "wheels", *given.out.glob("part-*")):
        shutil.rmtree(old, ignore_errors=True)
    tree, wheels = given.out / "tree", given.out / "wheels"
    wheels.mkdir(parents=True)
    copy_tree(tree)
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)], cwd=tree, check=True)
    bare = names_in(given.bare)
    base, everything = needed(("hub",), given.python, bare), needed(("hub", "verl", "ray"), given.python, bare)
    download(everything, wheels, given.python)
    for name, prefixes in LEFT_OUT.items():
        for wheel in wheels.glob(f"{name}-*.whl"):
            leave_out(wheel, prefixes)
    first = {canonicalize_name(name) for name in ("plat", *base)}  # so that a call with one part can do something
    files = sorted(wheels.glob("*.whl"), key=lambda path: (_name_of(path) not in first, path.stat().st_size, path.name))
    parts = write_parts(files, given.out, given.part * MIB, given.python)
    print(f"{tree}: {size_of(tree):.1f} MiB")
    for part in parts:
        print(f"{part}: {size_of(part):.1f} MiB")
    print("send the tree and one part a call; in the tree there: python3 benchmarks/gpu/run.py --part FOLDER")


if __name__ == "__main__":
    main()
