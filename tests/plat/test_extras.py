"""A missing optional package is named in one message, with the extra that brings it, before anything runs."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path

import pytest

from plat import extras
from plat.app.searching import load_searches
from plat.dispatch.registry import find_dispatcher
from plat.errors import SpecError
from plat.extras import packages_of, require_extra
from plat.planning.check import check_machine
from plat.spec.expansion.experiment import build_run
from plat.store.home import Home
from plat_envs.data import hub_rows
from plat_envs.environment_errors import BadEnvironment

SMALL = "objectives: [{maximize: success}]\ntrials: 2\nseeds: [0]\n"
SEARCH = "title: mine\nbase: {scale: smoke}\nspace: {filter.value: {float: [0.5, 0.9]}}\n" + SMALL


EXTRAS = ("rl", "verl", "ray", "search", "hub", "tensorboard", "wandb", "reasoning-gym", "retrieval", "mcp", "explore")


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Pretend that these distributions are not installed, and that no module of them can be imported."""
    there = extras.is_installed
    monkeypatch.setattr(extras, "is_installed", lambda name: name not in names and there(name))
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


def test_every_extra_is_one_of_the_package() -> None:
    declared = metadata("plat").get_all("Provides-Extra") or []
    assert set(declared) == set(EXTRAS) and all(map(packages_of, EXTRAS))


def test_nothing_is_said_of_an_installed_extra() -> None:
    require_extra("search", "plat tune", "the command line")


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_missing_package_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch, extra: str) -> None:
    without(monkeypatch, *packages_of(extra))
    with pytest.raises(SpecError, match=f"it needs .* not installed: {', '.join(packages_of(extra))}$") as caught:
        require_extra(extra, "it", "here")
    assert (caught.value.where, caught.value.fix) == ("here", f"pip install 'plat[{extra}]'")


@pytest.mark.parametrize(
    ("module", "pruner", "extra"), [("optuna", "none", "search"), ("ray", "asha", None), ("ray", "none", None)]
)
def test_a_search_names_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, pruner: str, extra: str | None
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"{SEARCH}pruner: {pruner}\n")
    without(monkeypatch, module)
    if extra is None:
        assert load_searches([str(file)])
        return
    with pytest.raises(SpecError, match=f"not installed: {module}") as caught:
        load_searches([str(file)])
    assert caught.value.fix == f"pip install 'plat[{extra}]'"


def test_on_ray_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "ray")
    with pytest.raises(SpecError, match="--on ray needs packages that are not installed: ray"):
        find_dispatcher("ray").check_settings((), False)


def test_data_of_the_hub_name_their_extra_before_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = build_run(["task=countdown", "task.env.data=hub", "scale=smoke"])
    home = Home(tmp_path)
    check_machine([run], home)
    without(monkeypatch, "datasets")
    with pytest.raises(SpecError, match="data: hub needs packages that are not installed: datasets"):
        check_machine([run], home)
    with pytest.raises(BadEnvironment, match="not installed: datasets"):
        hub_rows("some/dataset", "")


ALONE = """
import sys
for name in {"torch", "gymnasium", "regex", "verl", "ray", "optuna", "transformers", "tokenizers", "datasets", 
             "tensordict", "transfer_queue",
             "msgspec", "zmq", "torchdata", "peft", "accelerate", "wandb", "faiss"}:
    sys.modules[name] = None
from plat.cli import main
sys.argv = ["plat", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize("verb", ["options", "plan", "doctor"])
def test_verbs_work_without_any_extra(tmp_path: Path, verb: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("title: mine\nbase: {scale: smoke}\nmatrix: {seed: [0]}\n")
    arguments = {"options": [], "plan": [str(file), "--home", "home"], "doctor": ["--home", "home"]}[verb]
    command = [sys.executable, "-c", ALONE, verb, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ended.returncode == 0 or verb == "doctor", ended.stderr
    assert "Traceback" not in ended.stderr + ended.stdout
    assert "(ModuleNotFoundError" not in ended.stdout, "each plug-in can be imported"
