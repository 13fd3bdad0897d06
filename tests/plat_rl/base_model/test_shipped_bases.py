"""Bases that travel with the package: found by recipe, checked before use, never built again in silence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from plat.errors import CheckpointError, PlatError, RunError, SpecError
from plat.spec.expansion.experiment import build_run, config_object
from plat.store.run_directory.attempts import new_attempt
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.run_io import FileRunIO
from plat_rl.embedded.base_model import base_record
from plat_rl.embedded.base_model.base_record import VERSIONS, base_key
from plat_rl.embedded.base_model.load import build, load_base, obtain
from plat_rl.embedded.spec import EmbeddedTrainer
from plat_rl.embedded.train import train
from plat_rl.run_config import ModelConfig, RunConfig

TINY = ("scale=smoke", "train.iterations=0")


def tiny(*overrides: str) -> RunConfig:
    return config_object(build_run([*TINY, *overrides]), EmbeddedTrainer())


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[ModelConfig], Path]:
    """`shipped(model)` builds a base and makes it travel with the package, for one test; returns its folder."""
    monkeypatch.setattr(base_record, "SHIPPED", tmp_path / "package")
    monkeypatch.setattr(base_record, "SHIPPED_KEYS", ())
    return lambda model: build(model, tmp_path / "package").folder


def damage(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))


def test_a_shipped_base_is_used_and_nothing_is_built(shipped: Any, tmp_path: Path) -> None:
    config = tiny()
    folder = shipped(config.model)
    assert EmbeddedTrainer().preparation(config) is None
    base = load_base(config, tmp_path / "cache")
    assert base.sha256 == obtain(config.model, tmp_path / "cache").sha256
    assert obtain(config.model, tmp_path / "cache").folder == folder and not (tmp_path / "cache").exists()


def test_another_build_of_the_recipe_is_another_base(shipped: Any) -> None:
    shipped(tiny().model)
    other = tiny("model.base.seed=7")
    preparation = EmbeddedTrainer().preparation(other)
    assert preparation is not None and preparation[0] == base_key(other.model)
    shipped(other.model)
    assert EmbeddedTrainer().preparation(other) is None, "several builds can be shipped side by side"
    assert build_run([*TINY]).id != build_run([*TINY, "model.base.seed=7"]).id


def test_the_content_of_a_shipped_base_is_part_of_the_identity(shipped: Any) -> None:
    local = build_run(TINY)
    folder = shipped(tiny().model)
    assert EmbeddedTrainer().fingerprint(tiny())["base"] == {"sha256": obtain(tiny().model, Path("unused")).sha256}
    first = build_run(TINY)
    assert first.id != local.id, "a base that must be built is another fact than a shipped one"
    replace_weights(folder)
    assert build_run(TINY).id not in (first.id, local.id)


def replace_weights(folder: Path) -> None:
    """Another build of the same recipe: whole, with other numbers."""
    weights = load_file(folder / "model.safetensors")
    save_file({name: tensor + 1e-3 for name, tensor in weights.items()}, folder / "model.safetensors")
    known = json.loads((folder / "base.json").read_text())
    made = base_record.record_of(folder, known["model"], known["recipe"], parameters=known["parameters"])
    (folder / "base.json").write_text(json.dumps(made.to_json()))


def test_a_base_that_must_be_built_is_named_by_its_recipe_and_marked() -> None:
    facts = EmbeddedTrainer().fingerprint(tiny())["base"]
    assert facts == {"recipe": base_key(tiny().model).partition("-")[2], "built": "local"}


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "base.json"])
def test_a_damaged_shipped_base_is_refused_before_anything_runs(shipped: Any, tmp_path: Path, name: str) -> None:
    config = tiny()
    folder = shipped(config.model)
    damage(folder / name)
    for use in (lambda: build_run(TINY), lambda: load_base(config, tmp_path / "cache")):
        with pytest.raises(CheckpointError) as error:
            use()
        assert error.value.where == str(folder / name)
        assert "is shipped with plat is damaged" in error.value.what and "install plat again" in str(error.value.fix)
    assert not (tmp_path / "cache").exists(), "nothing was built in its place"
    (listed,) = base_record.records_in(base_record.SHIPPED)[1]
    assert "install plat again" in str(listed.fix), "nothing builds a base in the package's folder"


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"format": 99}', '{"format": 1, "folder": 3}', '{"format": 1, "files": {}}']
)
def test_a_strange_record_is_damage(shipped: Any, content: str) -> None:
    folder = shipped(tiny().model)
    (folder / "base.json").write_text(content)
    with pytest.raises(CheckpointError) as error:
        build_run(TINY)
    assert error.value.where == str(folder / "base.json")


def test_a_record_of_another_recipe_is_damage(shipped: Any) -> None:
    folder, other = shipped(tiny().model), shipped(tiny("model.base.seed=7").model)
    (folder / "base.json").write_bytes((other / "base.json").read_bytes())
    with pytest.raises(CheckpointError, match="its hashes do not match its recipe"):
        build_run(TINY)


def test_a_version_that_does_not_exist_is_refused() -> None:
    config = RunConfig()
    config.model.base.version = "v0"
    with pytest.raises(SpecError, match="no base version 'v0'") as error:
        EmbeddedTrainer().validate(config)
    assert error.value.where == "model.base.version" and "v2" in str(error.value.fix)


def test_a_later_version_changes_no_base_of_an_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    before = base_key(ModelConfig())
    monkeypatch.setitem(VERSIONS, "v3", (*VERSIONS["v2"], "a task added later"))
    assert base_key(ModelConfig()) == before


# --- what a run records, and what it refuses -------------------------------------------------------------------------


def attempt_io(root: Path, number: int, cache: Path) -> FileRunIO:
    paths = RunPaths(root)
    paths.root.mkdir(exist_ok=True)
    return FileRunIO(paths, new_attempt(paths, number), cache, lambda: False)


def test_a_run_records_the_content_of_its_base_when_it_starts(tmp_path: Path, memory_io: Any) -> None:
    config, io = tiny(), memory_io()
    train(config, io)
    assert io.recorded == {"base_sha256": obtain(config.model, io.cache).sha256}


def test_a_run_does_not_go_on_from_another_base(tmp_path: Path) -> None:
    """The base of the first attempt is gone, e.g. with its cache, and another build has taken its place."""
    config, cache = tiny(), tmp_path / "cache"
    train(config, attempt_io(tmp_path / "run", 1, cache))
    replace_weights(obtain(config.model, cache).folder)
    with pytest.raises(RunError, match="base_sha256 was") as error:
        train(config, attempt_io(tmp_path / "run", 2, cache))
    assert isinstance(error.value, PlatError) and error.value.fix


def test_the_index_names_the_folders_that_travel_with_the_package() -> None:
    assert sorted(base_record.SHIPPED_KEYS) == sorted(
        folder.name for folder in base_record.SHIPPED.iterdir() if folder.is_dir()
    )


def test_a_shipped_base_whose_folder_is_missing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its runs would get other ids in silence, because a base that is built here is named by its recipe."""
    model = tiny().model
    monkeypatch.setattr(base_record, "SHIPPED", tmp_path)
    assert base_record.shipped_base(model) is None, "no shipped base is expected of this recipe"
    monkeypatch.setattr(base_record, "SHIPPED_KEYS", (base_key(model),))
    with pytest.raises(CheckpointError, match="missing") as refused:
        base_record.base_identity(model)
    assert "install plat again" in str(refused.value.fix)
