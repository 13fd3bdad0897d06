"""The base model of a stand-in: one per recipe, made once, always the same bytes; and it has learned to speak."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict, fields, replace
from pathlib import Path

import numpy as np
import pytest
import step_counter
import torch

from plat.spec.expansion.experiment import build_run
from plat_envs.api import make_environment
from plat_rl.embedded.base_model.base_record import (
    SHIPPED,
    VERSIONS,
    Corpus,
    base_key,
    built_bases,
    checkpoint_hash,
    read_base,
    recipe_hash,
)
from plat_rl.embedded.base_model.load import build, corpus, load_base, obtain
from plat_rl.embedded.evaluate import evaluate
from plat_rl.embedded.transformer.model import unpack
from plat_rl.embedded.transformer.tokenizer import WordTokenizer
from plat_rl.loop.randomness import FixedInstances
from plat_rl.run_config import BaseConfig, ModelConfig, ShapeConfig

QUICK = ModelConfig(
    shape=ShapeConfig(layers=1, width=16, heads=2, kv_heads=2, ffn=32), base=BaseConfig(steps=6, batch=8, pool=40)
)


def content(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_building_again_does_nothing(tmp_path):
    folder = build(QUICK, tmp_path).folder
    times = {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    assert build(QUICK, tmp_path).folder == folder
    assert {file.name: file.stat().st_mtime_ns for file in folder.iterdir()} == times


def test_the_same_recipe_gives_the_same_bytes_whatever_the_number_of_threads(tmp_path):
    first = build(QUICK, tmp_path / "first")
    torch.set_num_threads(2)
    try:
        second = build(QUICK, tmp_path / "second")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert first.sha256 == second.sha256 and content(first.folder) == content(second.folder)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "base.json"])
@pytest.mark.parametrize("damage", ["flipped", "gone"])
def test_a_damaged_base_is_made_again(tmp_path, name, damage):
    folder = build(QUICK, tmp_path).folder
    whole = content(folder)
    spoil(folder / name, damage)
    assert content(build(QUICK, tmp_path).folder) == whole


def spoil(file, damage):
    if damage == "gone":
        file.unlink()
    else:
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(bytes(data))


def test_what_a_killed_build_left_is_cleared_away(tmp_path):
    remains = built_bases(tmp_path) / f".{base_key(QUICK)}-1"
    remains.mkdir(parents=True)
    (remains / "model.safetensors").write_bytes(b"half")
    build(QUICK, tmp_path / "bases")
    assert not remains.exists()


def test_a_record_says_what_the_base_is(tmp_path):
    record = build(QUICK, tmp_path)
    assert record.folder.name == base_key(QUICK) == f"v2-{record.recipe_hash}"
    assert record.sha256 == checkpoint_hash(record.folder), "the content hash is that of any local checkpoint"
    assert record.size == sum(len(data) for data in content(record.folder).values())
    assert set(record.built_with) >= {"plat", "torch", "cpu"} and len(record.loss) == 2
    assert read_base(record.folder, record.recipe_hash) == record


BUILD = """
import json, sys
if len(sys.argv) > 3:
    from step_counter import StepCounter
    counter = StepCounter(sys.argv[1], int(sys.argv[3]))
from pathlib import Path
from plat.spec.expansion.experiment import build_run
from plat_rl.run_config import BaseConfig, ModelConfig, ShapeConfig
from plat_rl.embedded.base_model.load import build
model = json.loads(sys.argv[2])
build(ModelConfig(shape=ShapeConfig(**model["shape"]), base=BaseConfig(**model["base"])), Path(sys.argv[1]))
if len(sys.argv) > 3:
    print(counter.steps, "steps")
"""


def test_two_processes_build_it_once(tmp_path):
    command = [sys.executable, "-c", BUILD, str(tmp_path), json.dumps(asdict(QUICK))]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    printed = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert sum("base model: step" in text for text in printed) == 1
    assert content(tmp_path / base_key(QUICK)) == content(build(QUICK, tmp_path / "here").folder)


def building(bases, *at):
    """A process that builds the base; `at`: before which of its steps it is killed (0: it lives)."""
    command = [sys.executable, "-c", BUILD, str(bases), json.dumps(asdict(QUICK)), *map(str, at)]
    environment = os.environ | {"PYTHONPATH": str(Path(step_counter.__file__).parent)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


@pytest.fixture(scope="module")
def steps(tmp_path_factory):
    """How many steps a build takes that nothing disturbs."""
    said = building(tmp_path_factory.mktemp("counted"), 0).communicate(timeout=120)[0]
    return int(said.split()[-2])


def kill_a_build(bases, at):
    """Two processes build the same base, and the first is killed before this step; the other gives it whole."""
    killed = building(bases, at)
    other = building(bases)
    assert killed.wait(120) in (-signal.SIGKILL, 0), "0: the other one was first, and it had less to do"
    killed.stdout.close()
    assert other.communicate(timeout=120)[0] is not None and other.returncode == 0
    assert content(bases / base_key(QUICK)) == content(build(QUICK, bases.parent / "here").folder)
    assert {path.name for path in bases.iterdir()} == {base_key(QUICK), f"{base_key(QUICK)}.lock"}, "no litter"


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_a_build_that_is_killed_leaves_the_other_one_the_same_base(tmp_path, steps, share):
    kill_a_build(tmp_path / "bases", int(steps * share))


@pytest.mark.chaos
def test_a_build_that_is_killed_at_any_step(tmp_path, steps):
    assert steps > 10
    for at in range(1, steps + 1):
        kill_a_build(tmp_path / str(at) / "bases", at)


@pytest.mark.parametrize("field", [field.name for field in fields(ShapeConfig)])
def test_every_field_of_the_shape_is_part_of_the_recipe(field):
    value = getattr(QUICK.shape, field)
    other = replace(QUICK, shape=replace(QUICK.shape, **{field: not value if isinstance(value, bool) else value * 2}))
    assert recipe_hash(other) != recipe_hash(QUICK)


@pytest.mark.parametrize("field", [field.name for field in fields(BaseConfig)])
def test_every_field_of_the_training_is_part_of_the_recipe(field, monkeypatch):
    monkeypatch.setitem(VERSIONS, "v2x", VERSIONS["v2"])
    value = getattr(QUICK.base, field)
    other = replace(QUICK, base=replace(QUICK.base, **{field: value + "x" if isinstance(value, str) else value + 1}))
    assert recipe_hash(other) != recipe_hash(QUICK)


def test_the_names_of_a_model_are_not():
    assert recipe_hash(replace(QUICK, name="other", paper_name="Other")) == recipe_hash(QUICK)


def test_the_corpus_mixes_as_asked_and_depends_on_the_seed_alone():
    tokenizer = WordTokenizer()
    facts = BaseConfig(pool=30, grounded=1.0, wrong=0.0)
    source = Corpus("frozenlake")
    grounded = corpus(source, facts, tokenizer)
    assert grounded == corpus(source, facts, tokenizer) != corpus(source, replace(facts, seed=1), tokenizer)
    starts = {tokenizer.encode(word)[0] for word in ("at", "goal")}
    assert {response[0] for _, response in grounded} == starts
    templates = corpus(source, replace(facts, grounded=0.0), tokenizer)
    assert not any(response[0] in starts for _, response in templates)
    assert all(response[-1] == tokenizer.eos for _, response in grounded + templates)


@pytest.mark.parametrize("task", ["sokoban", "frozenlake", "metamathqa", "countdown"])
def test_no_position_of_the_corpus_is_met_later(task):
    """Neither where training and evaluation start nor where they can get to, for other seeds too."""
    tokenizer = WordTokenizer()
    budget = 2 if make_environment(task).config.turns > 1 else 1  # words at the end: actions left, <think>
    builds = [BaseConfig(pool=3000, seed=seed) for seed in (0, 1)]
    seen = {prompt[:-budget] for build in builds for prompt, _ in corpus(Corpus(task), build, tokenizer)}
    for split in ("train", "validation", "heldout"):
        environment = make_environment(task, split=split)
        for seed in range(1000):
            done, rng, prompt = False, random.Random(seed), environment.reset(seed)
            while not done:
                assert tuple(tokenizer.prompt(prompt))[:-budget] not in seen
                prompt, _, done, _ = environment.step(environment.demonstrate(rng, "template", rng.random() < 0.5))


@pytest.mark.parametrize("task", ["sokoban", "frozenlake", "metamathqa", "countdown"])
def test_the_base_has_learned_the_format_of_every_task(compose, cache, task):
    config = compose(f"task={task}", "eval.instances=24")
    shape, flat, tokenizer, _ = load_base(config, cache)
    losses = obtain(config.model, cache).loss
    assert losses[-1] < 0.5 * losses[0]
    instances = FixedInstances(config, "validation", 24)
    metrics, batch = evaluate(unpack(shape, flat), tokenizer, config, instances)
    assert metrics["format_valid"] > 0.9
    assert np.mean(batch.reasoning_level >= 0) > 0.5


def test_the_tokenizer_of_a_checkpoint_is_part_of_its_runs_identity(tmp_path):
    """Another chat template or vocabulary reads and writes other tokens; a README beside it does not."""
    folder = tmp_path / "checkpoint"
    shutil.copytree(next(path for path in SHIPPED.iterdir() if path.is_dir()), folder)

    def run_id():
        return build_run([f"model.path={folder}"]).id

    ids = [run_id()]
    (folder / "README.md").write_text("about it")
    assert run_id() == ids[0]
    for name, text in (
        ("tokenizer_config.json", "{}"),
        ("chat_template.jinja", "{{ x }}"),
        ("chat_template.jinja", ""),
    ):
        (folder / name).write_text(text)
        ids.append(run_id())
    assert len(set(ids)) == 4


def test_runs_in_half_precision_are_not_those_of_before_master_weights():
    plain, half = (build_run([f"dtype={dtype}"]).fingerprint for dtype in ("float32", "bfloat16"))
    assert half == plain | {"master_weights": "float32"}
