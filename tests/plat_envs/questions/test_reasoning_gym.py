"""Items of reasoning-gym: the same for the same seed, scored by the package, without a trace in this process."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time

import pytest

pytest.importorskip("reasoning_gym", reason="pip install 'plat[reasoning-gym]'")

from plat_envs.api import configure, find_environment, make_environment
from plat_envs.environment_errors import BadEnvironment, ServiceError
from plat_envs.instances import SPLITS
from plat_envs.questions import reasoning_gym
from plat_envs.questions.reasoning_gym import item_of

NO_DEFAULT = {"composite"}  # it needs a list of datasets


def made(split="train", **options):
    return make_environment("reasoning_gym", options, split, "chat")


def answer(environment, text):
    return environment.step(f"by counting </think> <answer> {text} </answer>")


OWN = r"""
import json, sys
from plat_envs.questions.reasoning_gym_worker import item
answers = [item(name, "", number)[1]["answer"] for name, number in json.loads(sys.argv[1])]
print("", json.dumps(answers), sep="\n")
"""


def own_answers(items):
    """The answers that the package gives with items, as its worker makes them."""
    command = [sys.executable, "-c", OWN, json.dumps([[item["dataset"], item["number"]] for item in items])]
    done = subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": "0"}, check=True, capture_output=True)
    return json.loads(done.stdout.splitlines()[-1])


def own_answer(environment):
    return own_answers([environment._item])[0]


@pytest.mark.parametrize("dataset", ["chain_sum", "spell_backward", "countdown"])
def test_the_right_answer_scores_one_and_another_less(dataset):
    environment = made(dataset=dataset)
    for seed in range(3):
        prompt = environment.reset(seed)
        assert environment.question in prompt
        _, reward, done, info = answer(environment, own_answer(environment))
        assert (reward, done, info["success"]) == (1.0, True, True)
        environment.reset(seed)
        _, reward, _, info = answer(environment, "no such answer")
        assert reward < 1 and not info["success"] and info["format_valid"]
    environment.close()


def test_items_are_functions_of_split_and_seed_and_splits_share_none():
    first, second = made(), made()
    questions = [first.reset(seed) for seed in range(5)]
    assert [second.reset(seed) for seed in reversed(range(5))] == questions[::-1] and len(set(questions)) == 5
    numbers = {split: {item_of(split, seed) for seed in range(2000)} for split in SPLITS}
    assert sum(map(len, numbers.values())) == len(set().union(*numbers.values())) > 7990
    first.close()
    second.close()


def test_this_process_imports_nothing_and_its_random_numbers_stay():
    random.seed(1)
    expected = random.random()
    code = "import random, sys; from plat_envs.api import make_environment as make; random.seed(1);"
    code += "e = make('reasoning_gym', {}, 'train', 'chat'); e.reset(0); assert 'reasoning_gym' not in sys.modules;"
    code += f"assert random.random() == {expected!r}; e.close()"
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", code]) == 0


def test_a_score_that_takes_too_long_is_nought_and_the_next_one_is_right(monkeypatch):
    environment = made(seconds=0.5)
    environment.reset(0)
    worker = environment._worker
    real = worker._line
    monkeypatch.setattr(worker, "_line", lambda process, seconds: time.sleep(0.1))  # as if no line came in time
    assert answer(environment, own_answer(environment))[1] == 0.0
    monkeypatch.setattr(worker, "_line", real)
    environment.reset(0)
    assert answer(environment, own_answer(environment))[1] == 1.0
    environment.close()


def test_a_killed_process_is_started_again_and_changes_nothing():
    environment = made()
    prompt = environment.reset(0)
    right = own_answer(environment)
    for again in range(2):
        reasoning_gym._SHARED._process.kill()
        if again:
            assert environment.reset(0) == prompt
        assert answer(environment, right)[1] == 1.0
    environment.close()


def test_an_answer_that_kills_the_process_earns_nothing_and_an_item_that_does_fails_the_run(monkeypatch):
    environment = made()
    environment.reset(0)

    def dies(process, seconds):
        raise reasoning_gym.WorkerDied

    monkeypatch.setattr(environment._worker, "_line", dies)
    assert answer(environment, "1")[1] == 0.0
    with pytest.raises(ServiceError, match="dies"):
        environment.reset(1)
    environment.close()


def test_the_process_ends_with_its_last_session():
    first, second = made(), made()
    first.reset(0)
    process = reasoning_gym._SHARED._process
    first.close()
    assert process.poll() is None
    second.close()
    assert process.poll() is not None and reasoning_gym._SHARED.users == 0


@pytest.mark.parametrize(
    ("options", "said", "fix"),
    [
        ({"dataset": "chain_sums"}, "no dataset 'chain_sums'", "did you mean 'chain_sum'"),
        ({"options": "[1]"}, "options is '\\[1\\]'", "a JSON object"),
        ({"options": "[" * 200_000}, "options is '\\[\\[", "a JSON object"),
        ({"options": '{"min_term": 2}'}, "chain_sum: there is no option 'min_term'", "did you mean 'min_terms'"),
        ({"options": '{"min_terms": 9}'}, "options: max_terms must be >= min_terms", "max_terms (by default 6)"),
    ],
)
def test_wrong_options_are_named(options, said, fix):
    with pytest.raises(BadEnvironment, match=said) as caught:
        environment = made(**options)
        try:
            environment.reset(0)
        finally:
            environment.close()
    assert fix in caught.value.fix
    with pytest.raises(BadEnvironment, match="no compact rendering"):
        make_environment("reasoning_gym")


def test_a_plan_refuses_an_unknown_dataset_and_a_rendering_that_is_not_there(tmp_path):
    for line, said, fix in (
        ("task.env.dataset: chain_sums", "no dataset 'chain_sums'", "did you mean 'chain_sum'"),
        ("train.rendering: compact", "reasoning_gym has no compact rendering", "model.path=DIR train.rendering=chat"),
    ):
        file = tmp_path / "gym.yaml"
        chat = f"model.path: {tmp_path / 'model'}, train.rendering: chat, " if "dataset" in line else ""
        (tmp_path / "model").mkdir(exist_ok=True)
        (tmp_path / "model" / "config.json").write_text("{}")
        (tmp_path / "model" / "model.safetensors").touch()
        file.write_text(
            f"title: gym\nbase: {{task: reasoning_gym, scale: smoke, {chat}{line}}}\nmatrix: {{seed: [0]}}\n"
        )
        command = [sys.executable, "-m", "plat", "plan", str(file), "--home", str(tmp_path / "home")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 2 and said in done.stderr and fix in done.stderr, done.stdout + done.stderr


def test_the_version_is_part_of_the_identity():
    spec = find_environment("reasoning_gym")
    assert spec.fingerprint(configure(spec, {})) == {"reasoning-gym": "0.1.25"}


@pytest.mark.chaos  # all datasets: two minutes
def test_all_datasets_but_one_make_items_by_default_and_score_their_own_answer():
    from reasoning_gym.factory import DATASETS

    failed, environments = set(), {}
    for name in sorted(DATASETS):
        environment = made(dataset=name)
        try:
            environment.reset(1)
            environments[name] = environment
        except BadEnvironment:
            failed.add(name)
            environment.close()
    answers = own_answers([environment._item for environment in environments.values()])
    below = set()
    for (name, environment), right in zip(environments.items(), answers, strict=True):
        if right is not None and answer(environment, right)[1] < 1:
            below.add(name)
        environment.close()
    assert failed == NO_DEFAULT and below == set()
