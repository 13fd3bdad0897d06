"""The documentation is run: every `$ plat ...` line of a ```console block must work, at smoke scale, in a new home."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

import pytest
from fresh_plat import fresh_plat

ROOT = Path(__file__).parent.parent
# Tried by tests/contract/test_cluster_guide.py and test_ray_guide.py.
ON_A_CLUSTER = {ROOT / "docs" / "cluster.md", ROOT / "docs" / "ray.md"}
PAGES = sorted({ROOT / "README.md", *(ROOT / "docs").glob("*.md")} - ON_A_CLUSTER)
FAST = ["scale=smoke"]  # appended to every command that trains or reads what was trained
VERBS_WITH_FILES = {"plan", "sweep", "status", "report", "claims", "retry", "export", "tune"}
VERBS_WITH_FILES |= {"runs", "watch", "diff", "cancel", "rm"}


def commands(page: Path) -> list[str]:
    """The `$ ` lines of the page's console blocks, in order."""
    blocks = re.findall(r"^```console\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def shell_lines(page: Path) -> list[str]:
    """The lines of the page's code blocks that somebody would give to a shell."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    shell = [block for language, block in blocks if language in ("", "console", "sh")]
    lines = [line.removeprefix("$ ") for block in shell for line in block.splitlines()]
    return [line for line in lines if line.startswith(("plat ", "python ", "make "))]


@pytest.mark.parametrize("page", [*PAGES, *sorted(ON_A_CLUSTER)], ids=lambda page: page.name)
def test_no_shell_takes_a_documented_value_for_its_own_grammar(page: Path):
    """Parentheses end a command in every shell, and some refuse brackets that match no file: both need quotes."""
    quoted = r"'[^']*'|\"[^\"]*\""
    wrong = [line for line in shell_lines(page) if re.search(r"=\S*[][(){}<>*?;&|]", re.sub(quoted, "", line))]
    assert not wrong


def at_smoke_scale(command: str) -> list[str]:
    words = shlex.split(command)
    assert words[0] == "plat", f"only plat is run from the documentation: {command}"
    if words[1] in VERBS_WITH_FILES and any(word.endswith(".yaml") for word in words) and "scale=smoke" not in words:
        words += FAST
    return words[1:]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that looks like the repository, in which commands may leave files."""
    folder = tmp_path_factory.mktemp("checkout")
    for path in ROOT.iterdir():
        (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home for all pages: what one page trained, the next reads."""
    return tmp_path_factory.mktemp("docs") / "home"


ALL = list(dict.fromkeys((page.name, command) for page in PAGES for command in commands(page)))


@pytest.mark.parametrize(("page", "command"), ALL, ids=[f"{page}: {command}" for page, command in ALL])
def test_a_documented_command_works(page: str, command: str, home: Path, checkout: Path):
    environment = {key: value for key, value in os.environ.items() if key != "MLFLOW_TRACKING_URI"}
    environment |= {"PLAT_HOME": str(home)}
    done = fresh_plat(*at_smoke_scale(command), cwd=checkout, env=environment, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip(), "it should say something"


def test_documented_experiment_files_can_be_planned(tmp_path: Path):
    from plat.spec.expansion.experiment import load_experiment
    from plat_analysis.plugins.entry_checking import check_entries

    page = (ROOT / "docs" / "writing-an-experiment.md").read_text(encoding="utf-8")
    blocks = [block for block in re.findall(r"^```yaml\n(.*?)^```", page, flags=re.M | re.S) if "title:" in block]
    shutil.copytree(ROOT / "experiments" / "papers", tmp_path / "papers")
    counts = []
    for number, block in enumerate(blocks):
        path = tmp_path / f"example{number}.yaml"
        path.write_text(block)
        experiment = load_experiment(path)
        check_entries(experiment)
        counts.append(len(experiment.runs))
    assert counts == [4, 16, 6, 48, 12, 140]  # 2 x 2; 2 x 3 x 3 - 3 + 1; 2 x 3; 8 x 2 x 3; 2 x 6; 2 x 7 x 2 x 5


def test_links_between_pages_lead_somewhere():
    broken = []
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text(encoding="utf-8")):
            if not (page.parent / target).exists():
                broken.append(f"{page.name}: {target}")
    assert not broken, broken


def test_pages_name_only_files_that_exist():
    """Paths in `code` of the source tree are real ones."""
    wrong = []
    for page in PAGES:
        for name in re.findall(
            r"`((?:platform|envs|analysis|experiments|tests|docs|benchmarks)/[\w./-]+)`", page.read_text()
        ):
            if not (ROOT / name).exists():
                wrong.append(f"{page.name}: {name}")
    assert not wrong, wrong


def test_modules_that_are_named_exist():
    """In pages, docstrings and comments: `plat.store.home` is a module, and `plat.store.home.Home` a name in it.

    What begins otherwise than a package of ours (`plat.trainers`, `plat.file`) is an entry point or a tag.
    """
    folders = {
        "plat": "platform/plat",
        "plat_rl": "platform/plat_rl",
        "plat_envs": "envs/plat_envs",
        "plat_analysis": "analysis/plat_analysis",
        "plat_ragen2": "analysis/plat_ragen2",
    }
    sources = {package: sorted((ROOT / folder).rglob("*.py")) for package, folder in folders.items()}
    modules = {}
    for package, paths in sources.items():
        for path in paths:
            parts = [package, *path.relative_to(ROOT / folders[package]).with_suffix("").parts]
            modules[".".join(parts).removesuffix(".__init__")] = path

    def exists(name: str) -> bool:
        known = max((module for module in modules if f"{name}.".startswith(f"{module}.")), key=len)
        rest = name.removeprefix(known).strip(".").partition(".")[0]
        path = modules[known]
        return bool(re.search(rf"\b{rest}\b", path.read_text(encoding="utf-8"))) or bool(
            [*path.parent.glob(f"{rest}.*")]
        )

    wrong = []
    for path in [*PAGES, *ON_A_CLUSTER, *(path for paths in sources.values() for path in paths)]:
        for name in re.findall(r"`((?:plat|plat_envs|plat_analysis)(?:\.\w+)+)`", path.read_text(encoding="utf-8")):
            if ".".join(name.split(".")[:2]) in modules and not exists(name):
                wrong.append(f"{path.relative_to(ROOT)}: {name}")
    assert not wrong, "\n".join(wrong)


def test_every_direct_dependency_is_explained():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    stated = [
        *project["dependencies"],
        *(text for extra in project["optional-dependencies"].values() for text in extra),
    ]
    direct = {re.split(r"[\[<>=!~ ]", text)[0] for text in stated}
    page = (ROOT / "docs" / "dependencies.md").read_text()
    explained = set(re.findall(r"^\| ([\w-]+)", page, flags=re.M)) - {"package"}
    assert direct == explained


def test_pins_cover_every_direct_dependency_and_name_no_place():
    import tomllib

    lines = [line.strip() for line in (ROOT / "requirements.txt").read_text().splitlines() if line.strip()]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines), "pins only: no hosts, no local builds"
    pinned = {line.split("==")[0].lower() for line in lines}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {re.split(r"[\[<>=!~ ]", text)[0].lower() for text in project["dependencies"]} <= pinned
