"""The house rules of the import graph, held by reading the source: arrows point one way, heavy packages load late.

The rules look at every `import` statement of our own files, those inside functions included; `if TYPE_CHECKING:` blocks
are left out, because they never run.
"""

from __future__ import annotations

import ast
import graphlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = {
    "plat": ROOT / "platform" / "plat",
    "plat_rl": ROOT / "platform" / "plat_rl",
    "plat_envs": ROOT / "envs" / "plat_envs",
    "plat_analysis": ROOT / "analysis" / "plat_analysis",
    "plat_ragen2": ROOT / "analysis" / "plat_ragen2",
}
FILES = sorted(path for folder in SOURCES.values() for path in folder.rglob("*.py"))

# A module belongs to the longest prefix found here; it may import what is listed, and itself.
MAY_IMPORT = {
    "plat.errors": set(),
    "plat.extras": set(),
    "plat.plain_files": set(),
    "plat.suggest": set(),
    "plat.switches": set(),
    "plat.processes": set(),
    "plat.words": set(),
    "plat.characters": set(),
    "plat.units": set(),
    "plat.user_code": set(),
    "plat.moved_modules": set(),
    "plat.peak": set(),
    "plat_rl.conf": set(),
    "plat_rl.rl": {"plat.trainer"},
    "plat_rl": {
        "plat_rl.rl",
        "plat_rl.conf",
        "plat_envs",
        "plat.trainer",
        "plat.spec",
        "plat.store",
        "plat.planning",
        "plat.search",
        "plat.app",
        "plat.cli",
    },
    "plat.plugins": set(),
    "plat_envs": set(),
    "plat.trainer": set(),
    "plat.spec": {"plat.trainer"},
    "plat.store": {"plat.spec", "plat.trainer"},
    "plat.runner": {"plat.store", "plat.spec", "plat.trainer"},
    "plat.planning": {"plat.runner", "plat.store", "plat.spec", "plat.trainer"},
    "plat.dispatch": {"plat.planning", "plat.runner", "plat.store", "plat.spec", "plat.trainer"},
    "plat.search": {
        "plat.planning",
        "plat.dispatch",
        "plat.search",
        "plat.runner",
        "plat.store",
        "plat.spec",
        "plat.trainer",
    },
    "plat_analysis": {"plat.store", "plat.spec"},
    "plat_ragen2": {"plat_analysis", "plat.store", "plat.spec"},
    "plat.app": {
        "plat_analysis",
        "plat.search",
        "plat.dispatch",
        "plat.planning",
        "plat.runner",
        "plat.store",
        "plat.spec",
        "plat.trainer",
    },
    "plat.api": {
        "plat.app",
        "plat_analysis",
        "plat.dispatch",
        "plat.planning",
        "plat.search",
        "plat.store",
        "plat.spec",
    },
    "plat.cli": {"plat", "plat_analysis"},
    "plat.__main__": {"plat.entry"},
    "plat.entry": {"plat.cli"},
    "plat": set(),
}
EVERYWHERE = (
    "plat.moved_modules",
    "plat.plugins",
    "plat.errors",
    "plat.extras",
    "plat.peak",
    "plat.plain_files",
    "plat.suggest",
    "plat.switches",
    "plat.words",
    "plat.processes",
    "plat.characters",
    "plat.units",
    "plat.user_code",
)
# Packages and the only places whose import statements may name them.
ONLY_IN = {
    "mlflow": ("plat.store", "plat.app", "plat.cli"),
    "sqlalchemy": ("plat.store",),
    "hydra": ("plat.spec", "plat_rl.verl.settings.composition"),
    "ray": ("plat.dispatch.ray", "plat.search.ray", "plat.trainer.private_ray", "plat_rl.verl"),
    "transfer_queue": ("plat_rl.verl",),
    "online_fdr": ("plat_analysis.statistics",),
    "optuna": ("plat.search",),
    "submitit": ("plat.dispatch.slurm",),
    "torch": (
        "plat_envs.retrieval.indexes",
        "plat_rl",
        "plat.store.run_directory.checkpoint",
        "plat.runner",
        "plat.processes",
        "plat.dispatch.local",
        "plat.cli",
    ),
    "verl": ("plat_rl.verl",),
    "transformers": ("plat_rl", "plat_envs.retrieval.indexes"),
    "faiss": ("plat_envs.retrieval.indexes",),
    "safetensors": ("plat_rl", "plat.store.run_directory.checkpoint"),
    "matplotlib": ("plat_analysis", "plat_ragen2"),
    "bokeh": ("plat_analysis.explore",),
    "sklearn": ("plat_analysis.explore",),
    "plotext": ("plat.cli",),
    "scipy": ("plat_analysis", "plat_ragen2", "plat_rl.rl"),
    "rich": ("plat.cli", "plat.dispatch", "plat_analysis", "plat.planning"),
    "typer": ("plat.cli", "plat_rl.verbs"),
    "PIL": ("plat_envs.games.pictures", "plat_envs.show", "plat_rl.verl.vision"),
}
HEAVY = {
    "torch", "ray", "mlflow", "verl", "pandas", "scipy", "matplotlib", "hydra", "omegaconf", "transformers", "datasets",
    "sqlalchemy", "safetensors", "tokenizers", "numpy", "gymnasium", "rich",
    "plotext", "optuna", "faiss", "bokeh", "sklearn", "PIL",
}  # fmt: skip
# What the parent process or `plat plan` imports; everything else may load its own heavy packages at the top.
LIGHT = (
    "plat.api", "plat.app", "plat.cli", "plat.__main__", "plat.entry", "plat.planning", "plat.dispatch", "plat.runner",
    "plat.spec", "plat.store",
    "plat.trainer.api", "plat_rl.run_config", "plat_rl.embedded.spec", "plat_rl.rl.config", "plat_envs.api",
    "plat_rl.validation", "plat_rl.verl.spec", "plat_rl.verl.settings", "plat.words", "plat.processes",
)  # fmt: skip
# Loaded only by a verb that reads the store into frames, and by the driver of Ray Tune.
HEAVY_ALLOWED = {"plat.store.mlflow.frames": {"pandas", "numpy"}, "plat.dispatch.ray.tuner": {"ray"}}


# What subclasses verl or Ray Tune, or runs in their processes: `plat_rl.verl.train` imports it when a run begins,
# and `plat.dispatch.ray.driver` when it holds a Tuner.
WITHIN_VERL = (
    "plat_rl.verl.cpu.platform", "plat_rl.verl.cpu.register", "plat_rl.verl.cpu.cpu_rollout",
    "plat_rl.verl.rollouts.agent_loop", "plat_rl.verl.update.loss", "plat_rl.verl.update.trainer",
    "plat.dispatch.ray.tuner", "plat.search.ray.scheduler", "plat.search.ray.tuned_search",
)  # fmt: skip


@dataclass(frozen=True)
class Import:
    """One imported module, as written in one file."""

    path: Path
    line: int
    importer: str
    target: str
    at_top: bool

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.importer} imports {self.target}"


def module_name(path: Path) -> str:
    for package, folder in SOURCES.items():
        if path.is_relative_to(folder):
            parts = [package, *path.relative_to(folder).with_suffix("").parts]
            return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    raise AssertionError(path)


def imports_of(path: Path) -> Iterator[Import]:
    """Every import statement of a file; `from a import b` counts as a.b where that is a module, and as a otherwise."""
    importer = module_name(path)
    package = importer if path.name == "__init__.py" else importer.rpartition(".")[0]

    def visit(node: ast.AST, at_top: bool) -> Iterator[Import]:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            children: list[ast.AST] = list(node.orelse)
        else:
            children = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(path, node.lineno, importer, alias.name, at_top)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parent, base] if base else parent)
            for alias in node.names:
                yield Import(path, node.lineno, importer, f"{base}.{alias.name}", at_top)
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in children:
            yield from visit(child, at_top and not inside)

    yield from visit(ast.parse(path.read_text(encoding="utf-8")), True)


def owner(module: str, prefixes: object) -> str | None:
    """The longest of the prefixes that the module is, or is inside of."""
    owners = [p for p in prefixes if module == p or module.startswith(p + ".")]  # type: ignore[attr-defined]
    return max(owners, key=len) if owners else None


ALL = [imported for path in FILES for imported in imports_of(path)]


def test_there_is_something_to_check():
    assert len(FILES) > 30 and len(ALL) > 200


def test_our_packages_import_in_one_direction_only():
    wrong = []
    for imported in ALL:
        target = owner(imported.target, MAY_IMPORT)
        source = owner(imported.importer, MAY_IMPORT)
        if target is None or source is None or target == source:
            continue
        if target in EVERYWHERE or (
            target == "plat" and imported.target.count(".") <= 1
        ):  # `from plat import __version__`, `import plat`
            continue
        allowed = MAY_IMPORT[source]
        if target not in allowed and not (source == "plat.cli"):
            wrong.append(str(imported))
    assert not wrong, "\n".join(wrong)


def dependencies(files: list[Path]) -> dict[str, set[str]]:
    """Our module -> our modules that it imports, inside functions too."""
    modules = {module_name(path) for path in files}
    imports = [imported for path in files for imported in imports_of(path)]
    graph: dict[str, set[str]] = {module: set() for module in modules}
    for imported in imports:
        target = owner(imported.target, modules)
        if target is not None and target != imported.importer:
            graph[imported.importer].add(target)
    return graph


def cycle_in(graph: dict[str, set[str]]) -> list[str]:
    """The modules of a cycle, in order; [] when there is none."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_itself_in_a_circle_not_even_inside_functions():
    cycle = cycle_in(dependencies(FILES))
    assert not cycle, " <- ".join(cycle)


def test_a_circle_behind_a_function_is_seen(tmp_path, monkeypatch):
    (tmp_path / "first.py").write_text("from plat import second\n")
    (tmp_path / "second.py").write_text("def later():\n    from plat.first import something\n")
    monkeypatch.setitem(SOURCES, "plat", tmp_path)
    assert set(cycle_in(dependencies(sorted(tmp_path.iterdir())))) == {"plat.first", "plat.second"}


@pytest.mark.parametrize("names", [MAY_IMPORT, EVERYWHERE, LIGHT, HEAVY_ALLOWED, WITHIN_VERL])
def test_the_rules_name_only_modules_that_exist(names):
    modules = {module_name(path) for path in FILES}
    assert not [name for name in names if name not in modules]


def test_nobody_imports_the_command_line():
    assert not [str(f) for f in ALL if owner(f.target, ["plat.cli"]) and owner(f.importer, ["plat.cli"]) is None
                and f.importer != "plat.entry" and not owner(f.importer, ["plat_rl.verbs"])]  # fmt: skip


def test_only_the_registry_knows_the_schedulers():
    """It names their modules in texts, so no import statement outside of a dispatcher's own folder may."""
    folders = [f"plat.dispatch.{name}" for name in ("local", "ray", "slurm")]
    wrong = [
        str(f)
        for f in ALL
        if (folder := owner(f.target, folders)) is not None
        and owner(f.importer, [folder]) is None
        and (f.importer, folder) != ("plat.dispatch.task", "plat.dispatch.local")  # a task does its runs locally
        and not (folder == "plat.dispatch.ray" and owner(f.importer, ["plat.search.ray"]))  # a search on Ray
    ]
    assert not wrong, "\n".join(wrong)


def test_the_analysis_reads_the_store_and_never_writes_it():
    readable = (
        "plat.store.mlflow.frames",
        "plat.store.mlflow.report_record",  # what a report hands over to be written
        "plat.store.mlflow.run_tags",
        "plat.store.home",
        "plat.store.coordination.live_sweeps",
        "plat.store.bundle.bundle_frames",
        "plat.store.bundle.format",
    )
    wrong = [
        str(f)
        for f in ALL
        if f.importer.startswith(("plat_analysis", "plat_ragen2"))
        and owner(f.target, ["plat.store"])
        and owner(f.target, readable) is None
    ]
    assert not wrong, "\n".join(wrong)


def test_the_packages_of_the_analysis_import_in_one_direction():
    """Each package imports those to its right at most; what lies directly in `plat_analysis` is for all."""
    order = ["explore", "report", "claims", "plugins", "figures", "tables"]
    order += ["reference", "contrasts", "quantities", "data", "statistics"]
    assert {path.name for path in SOURCES["plat_analysis"].iterdir() if (path / "__init__.py").exists()} == set(order)
    rank = {f"plat_analysis.{package}": position for position, package in enumerate(order)}
    wrong = [
        str(f)
        for f in ALL
        if (importer := owner(f.importer, rank)) and (target := owner(f.target, rank)) and rank[importer] > rank[target]
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", sorted(ONLY_IN))
def test_a_package_is_named_only_where_it_belongs(package):
    wrong = [str(f) for f in ALL if f.target.split(".")[0] == package and owner(f.importer, ONLY_IN[package]) is None]
    assert not wrong, "\n".join(wrong)


def test_environments_and_analysis_know_no_torch():
    wrong = [
        str(f)
        for f in ALL
        if f.importer.split(".")[0] in ("plat_envs", "plat_analysis", "plat_ragen2")
        and f.target.split(".")[0] in ("torch", "verl", "mlflow", "ray", "hydra")
        and (f.importer, f.target) != ("plat_envs.retrieval.indexes", "torch")  # of a server
    ]
    assert not wrong, "\n".join(wrong)


def test_the_sandbox_knows_the_standard_library_alone():
    """And what runs inside of a box knows only itself: a box has nothing else of ours."""
    allowed = {"plat_envs.sandbox": ["plat_envs.sandbox", "plat_envs.environment_errors"]}
    allowed["plat_envs.environment_errors"] = []
    allowed["plat_envs.sandbox.inside"] = ["plat_envs.sandbox.inside"]
    wrong = [
        str(f)
        for f in ALL
        if (package := owner(f.importer, allowed))
        and owner(f.target, allowed[package]) is None
        and f.target.split(".")[0] not in sys.stdlib_module_names
    ]
    assert not wrong, "\n".join(wrong)


def test_heavy_packages_load_inside_functions_where_start_up_matters():
    wrong = [
        str(f)
        for f in ALL
        if f.at_top
        and (heavy := f.target.split(".")[0]) in HEAVY
        and owner(f.importer, LIGHT)
        and heavy not in HEAVY_ALLOWED.get(f.importer, set())
    ]
    assert not wrong, "\n".join(wrong)


def test_verl_is_never_imported_at_the_top():
    late = ("verl", "ray", "transfer_queue")
    assert not [
        str(f) for f in ALL if f.at_top and f.target.split(".")[0] in late and owner(f.importer, WITHIN_VERL) is None
    ]
    early = [f for f in ALL if f.at_top and f.target in WITHIN_VERL and owner(f.importer, WITHIN_VERL) is None]
    assert not [str(f) for f in early]


def test_the_checker_sees_a_wrong_import(tmp_path, monkeypatch):
    folder = tmp_path / "rl"
    folder.mkdir()
    (folder / "bad.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import ray\nimport mlflow\n"
        "def f():\n    from plat.store import home\nfrom ..store import reader\n"
    )
    monkeypatch.setitem(SOURCES, "plat", tmp_path)
    targets = [(f.target, f.at_top) for f in imports_of(folder / "bad.py")]
    assert (
        ("mlflow", True) in targets and ("plat.store.home", False) in targets and ("plat.store.reader", True) in targets
    )
    assert not [target for target, _ in targets if target == "ray"]
