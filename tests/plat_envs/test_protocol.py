"""What holds for every environment: determinism, disjoint splits, closed vocabulary, solvable puzzles."""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plat_envs.api import LEVELS, RENDERINGS, configure, find_environment, make_environment
from plat_envs.environment_errors import BadEnvironment
from plat_envs.instances import SPLITS, evaluation_tries
from plat_envs.stand_in import IDS, MAX_NUMBER, WORDS, Mix, demonstrations
from plat_envs.turns.episode import answer_of

TASKS = ("sokoban", "frozenlake", "countdown", "metamathqa", "searchqa", "webshop", "deepcoder", "bandit")
LENGTHS = {"sokoban": 25, "frozenlake": 23, "countdown": 8, "metamathqa": 26, "searchqa": 45, "webshop": 27}
LENGTHS |= {"deepcoder": 33, "bandit": 10}
MOST_WORDS = {"deepcoder": 32}  # of a response; 24 in other tasks
FURTHER = {"constant_reward", "tricks"}  # what an environment may say beside what all say
LOWEST, HIGHEST = -0.1 - 2 * 1.1, 11.0  # of one turn: format penalty and two bad pushes; a solved Sokoban

every_task = pytest.mark.parametrize("task", TASKS)
SEVERAL_TURNS = {"deepcoder": {"reward": "all"}}  # options without which a task has one turn
# The success of a bandit is chance, even with the best arm.
winnable = pytest.mark.parametrize("task", [task for task in TASKS if task != "bandit"])
# A program of `deepcoder` in chat runs in the sandbox, which takes a fifth of a second.
SLOW = ("deepcoder", "chat")
both_renderings = pytest.mark.parametrize("rendering", ["compact", "chat"])


def play(environment, seed, responses):
    """Every observation, reward and info of an episode."""
    history, done = [environment.reset(seed)], False
    while not done:
        observation, reward, done, info = environment.step(responses(environment))
        history.append((observation, reward, done, tuple(info.items())))
    return history


def instance(environment, seed):
    """What tells an instance from another: its first prompt, or its problem if the prompt does not show all of it."""
    prompt = environment.reset(seed)
    return environment.problem if environment.task in ("searchqa", "deepcoder") else prompt


def with_facts(environment):
    return environment.demonstrate(random.Random(0), "several_facts")


MIX = Mix(grounded=0.4, wrong=0.2, usefulness=0.5)


@every_task
@both_renderings
def test_same_seed_same_episode(task, rendering):
    first, second = (make_environment(task, split="validation", rendering=rendering) for _ in range(2))
    rng = random.Random(0)
    for seed in range(4 if (task, rendering) == SLOW else 20):
        script = [first.demonstrate(rng, "template", good=False) for _ in range(10) if first.reset(seed)]
        histories = []
        for environment in (first, second):
            responses = iter(script)
            histories.append(play(environment, seed, lambda _, responses=responses: next(responses)))
        assert histories[0] == histories[1]


@every_task
@pytest.mark.parametrize("split", SPLITS)
def test_a_task_has_as_many_different_problems_as_it_says(task, split):
    spec = find_environment(task)
    environment = make_environment(task, split=split)
    wanted, problems = max(spec.plenty, 512), set()
    for seed in evaluation_tries(3, wanted):
        environment.reset(seed)
        problems.add(environment.problem)
        if len(problems) == wanted:
            break
    assert len(problems) == wanted and spec.plenty > 0


@every_task
def test_instances_do_not_depend_on_what_was_asked_before(task):
    forward = make_environment(task)
    backward = make_environment(task)
    first = [instance(forward, seed) for seed in range(50)]
    assert first == [instance(backward, seed) for seed in reversed(range(50))][::-1]
    assert len(set(first)) > 30


@every_task
def test_splits_are_disjoint(task):
    seen = {}
    for split in SPLITS:
        environment = make_environment(task, split=split)
        seen[split] = {instance(environment, seed) for seed in range(2000)}
    for split, other in combinations(SPLITS, 2):
        assert not seen[split] & seen[other]


@pytest.mark.parametrize("task", [task for task in TASKS if task not in ("searchqa", "deepcoder")])
def test_positions_of_different_splits_are_disjoint(task):
    """A base model has seen no position, first or later, of the instances that it is trained and judged on.

    A position of `searchqa` is what was found so far, which other worlds say too. One of `deepcoder` has two examples,
    which other programs fit too.
    """
    seen = {}
    for split in SPLITS:
        environment = make_environment(task, split=split)
        seen[split] = set()
        for seed in range(600):
            rng = random.Random(seed)
            played = play(environment, seed, lambda e, rng=rng: e.demonstrate(rng, "template", good=False))
            positions = [played[0], *(observation for observation, *_ in played[1:])]
            seen[split] |= {position.rpartition(" <think>")[0] for position in positions}
    for split, other in combinations(SPLITS, 2):
        assert not seen[split] & seen[other]


@every_task
def test_equal_problems_are_equal_whatever_the_order_or_words(task):
    environment = make_environment(task)
    problems = {}
    for seed in range(3000):
        problems.setdefault(environment.reset(seed) and environment.problem, set()).add(environment.reset(seed))
    several = sum(len(prompts) > 1 for prompts in problems.values())
    assert (several > 0) == (task in ("countdown", "metamathqa"))


@every_task
def test_a_shared_pool_draws_validation_from_training_instances(task):
    """As released: the same problems turn up in both, and never those held out."""
    drawn = {}
    for split in SPLITS:
        environment = make_environment(task, {"shared_pool": True}, split)
        drawn[split] = {
            instance(environment, seed) for seed in range(4000 if task in ("countdown", "frozenlake") else 1000)
        }
    separate = make_environment(task, split="validation")
    assert not drawn["validation"] & {instance(separate, seed) for seed in range(500)}
    assert not drawn["heldout"] & (drawn["train"] | drawn["validation"])
    if task in ("countdown", "frozenlake"):  # small enough for a meeting to be certain
        assert drawn["train"] & drawn["validation"]


@every_task
def test_compact_text_is_closed_and_of_constant_length(task):
    environment = make_environment(task)
    rng = random.Random(1)
    for example in demonstrations(environment, rng, 3000, MIX):
        prompt, response = example.prompt.split(" "), example.response.split(" ")
        assert len(prompt) == LENGTHS[task]
        assert prompt[0] == ("try" if task == "bandit" else task) and prompt[-1] == "<think>"
        assert len(response) + 1 <= MOST_WORDS.get(task, 24)  # with the end-of-text token
        assert all(word in IDS for word in prompt + response), example


@every_task
def test_demonstrations_parse(task):
    environment = make_environment(task)
    for example in demonstrations(environment, random.Random(2), 1000, MIX):
        answer = answer_of(example.response)
        assert answer is not None
        assert answer_of(f"<think> {example.response}") == answer


@every_task
def test_other_sentences_do_not_parse(task):
    environment = make_environment(task)
    environment.reset(0)
    for text in ("", "goal", "i should", "at 1 2 goal", "<think>", "the the the the", "1 2 3 4", "so up"):
        assert environment.reasoning_level(text) is None


@winnable
@both_renderings
@pytest.mark.parametrize("split", SPLITS)
def test_who_imitates_demonstrations_with_facts_succeeds(task, rendering, split):
    options = {"success_rate": 1.0} if task == "frozenlake" else {}
    environment = make_environment(task, options, split, rendering)
    for seed in range(8 if (task, rendering) == SLOW else 150):
        *_, (_, reward, done, info) = play(environment, seed, with_facts)
        assert done and dict(info)["success"] and dict(info)["format_valid"] and reward > 0.5


@winnable
def test_templates_with_random_actions_rarely_succeed_but_are_well_formed(task):
    environment, rng, successes = make_environment(task), random.Random(3), 0
    for seed in range(200):
        history = play(environment, seed, lambda e: e.demonstrate(rng, "template", good=False))
        assert all(dict(info)["format_valid"] for _, _, _, info in history[1:])
        successes += dict(history[-1][3])["success"]
    assert successes < 80


WORDS_OR_TEXT = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join),
    st.text(max_size=80),
    st.text(alphabet="0123456789+-*/() |²٣", max_size=40).map(lambda t: f"x </think> <answer> {t} </answer>"),
    st.lists(st.sampled_from(("up", "left", "||", "UP", "jump", "|")), max_size=8).map(
        lambda words: f"x </think> <answer> {' '.join(words)} </answer>"
    ),
)


TEXTS = st.lists(WORDS_OR_TEXT, min_size=7, max_size=7)


@pytest.mark.parametrize(("task", "rendering"), [(t, r) for t in TASKS for r in RENDERINGS if (t, r) != SLOW])
@settings(max_examples=150, deadline=None)
@given(texts=TEXTS, seed=st.integers(0, 50))
def test_no_text_breaks_an_episode(task, rendering, texts, seed):
    answer_anything(task, rendering, texts, seed)


@settings(max_examples=25, deadline=None)
@given(texts=TEXTS, seed=st.integers(0, 50))
def test_no_text_breaks_an_episode_that_runs_programs(texts, seed):
    answer_anything(*SLOW, texts, seed)


def answer_anything(task, rendering, texts, seed):
    environment = make_environment(task, rendering=rendering)
    environment.reset(seed)
    for text in texts:
        observation, reward, done, info = environment.step(text)
        assert isinstance(observation, str) and type(reward) is float and type(done) is bool
        assert LOWEST <= reward <= HIGHEST
        assert set(info) - FURTHER == {"success", "format_valid", "actions", "moves"}
        assert 0 <= info["moves"] <= info["actions"] <= 2
        assert environment.reasoning_level(text) in (None, *LEVELS)
        if done:
            break
    else:
        raise AssertionError("no end after seven turns")
    with pytest.raises(BadEnvironment, match="over"):
        environment.step("again")


@every_task
def test_a_turn_without_an_action_costs_the_format_penalty(task):
    environment = make_environment(task, {"format_penalty": -0.25})
    for text in ("", "no tags", "x </think> <answer>", "x </think> <answer> </answer>", "<answer> up </answer>"):
        environment.reset(1)
        _, reward, _, info = environment.step(text)
        assert reward == -0.25 and not info["format_valid"] and info["actions"] == 0


@pytest.mark.parametrize("task", ["countdown", "metamathqa"])
def test_in_a_text_task_a_valid_answer_is_a_move_and_no_other_text_is(task):
    environment = make_environment(task)
    for text, moves in (
        ("x </think> <answer> 1 </answer>", 1),  # wrong or right
        ("x </think> <answer> </answer>", 0),
        ("no tags", 0),
    ):
        environment.reset(1)
        info = environment.step(text)[3]
        assert (info["actions"], info["moves"]) == (moves, moves)


@every_task
def test_states_are_markov(task):
    """Equal compact observations have equal futures: the number of actions left is part of them."""
    environment = make_environment(task, {"turns": 5, **SEVERAL_TURNS.get(task, {})})
    environment.reset(0)
    left = []
    done = False
    while not done:
        observation, _, done, _ = environment.step("nothing")
        left.append(int(observation.split()[-2]))
    per_turn = environment.config.actions_per_turn
    assert left == [per_turn * turns for turns in (4, 3, 2, 1, 0)]


@every_task
def test_chat_prompts_say_what_to_do(task):
    environment = make_environment(task, rendering="chat")
    first = environment.reset(0)
    assert environment.instructions.startswith("You are a helpful assistant.")
    assert "<think>" in first and "<answer>" in first and "Turn 1" in first and "Reward" not in first
    second, *_ = environment.step("nonsense")
    assert second.startswith("Reward:\n-0.1")


@every_task
def test_wrong_options_name_the_right_ones(task):
    with pytest.raises(BadEnvironment, match="turns"):
        make_environment(task, {"turn": 3})
    with pytest.raises(BadEnvironment, match="type int"):
        make_environment(task, {"turns": "five"})
    with pytest.raises(BadEnvironment, match="type int"):
        make_environment(task, {"turns": True})
    with pytest.raises(BadEnvironment, match="from 1"):
        make_environment(task, {"turns": 0})
    with pytest.raises(BadEnvironment, match="train"):
        make_environment(task, split="trian")
    with pytest.raises(BadEnvironment, match="compact"):
        make_environment(task, rendering="compat")
    with pytest.raises(BadEnvironment, match="compact rendering"):
        make_environment(task, {"turns": MAX_NUMBER + 1, **SEVERAL_TURNS.get(task, {})})


def test_an_unknown_environment_names_the_known_ones():
    with pytest.raises(BadEnvironment) as caught:
        find_environment("sokobann")
    assert "'sokoban'" in caught.value.fix and "countdown" in caught.value.fix


@every_task
def test_a_whole_number_is_a_float_where_one_is_wanted(task):
    assert configure(find_environment(task), {"format_penalty": -1}).format_penalty == -1.0


@every_task
def test_the_specification_names_its_task(task):
    spec = find_environment(task)
    assert spec.name == task and spec.version
    assert spec.fingerprint(spec.config_type()) == {}


def test_demonstrations_keep_the_share():
    environment = make_environment("sokoban")
    corpus = list(demonstrations(environment, random.Random(0), 4000, MIX))
    assert len(corpus) == 4000
    shares = Counter(example.level for example in corpus)
    for level, share in {"template": 0.4, "one_fact": 0.2, "several_facts": 0.2, "wrong_facts": 0.2}.items():
        assert abs(shares[level] / 4000 - share) < 0.03
    assert corpus == list(demonstrations(environment, random.Random(0), 4000, MIX))


@every_task
def test_a_demonstration_has_the_level_it_is_asked_for(task):
    """Facts are judged by the position they were written for: true ones are true, of the wrong ones at least one is
    not."""
    environment, rng = make_environment(task), random.Random(4)
    for seed in range(200):
        environment.reset(seed)
        done = False
        while not done:
            for level in LEVELS:
                reasoning = environment.demonstrate(rng, level).partition(" </think>")[0]
                assert environment.reasoning_level(reasoning) == level, reasoning
            _, _, done, _ = environment.step(environment.demonstrate(rng, "template", rng.random() < 0.7))


@every_task
def test_facts_of_another_problem_are_wrong_or_true_by_chance(task):
    environment, rng = make_environment(task), random.Random(5)
    said = []
    for seed in range(300):
        environment.reset(seed)
        said.append(environment.demonstrate(rng, "several_facts").partition(" </think>")[0])
    levels = Counter()
    for seed in range(300):
        environment.reset(seed)
        levels[environment.reasoning_level(said[(seed + 1) % 300])] += 1
    assert levels["wrong_facts"] > 250 and set(levels) <= {"wrong_facts", "several_facts"}


@winnable
def test_only_useful_templates_come_with_good_actions(task):
    environment = make_environment(task, {"success_rate": 1.0} if task == "frozenlake" else {})
    for seed in range(50):
        *_, (_, _, _, info) = play(environment, seed, lambda e: e.demonstrate(random.Random(0), "template", good=True))
        assert dict(info)["success"]


def test_an_unknown_level_is_refused():
    environment = make_environment("sokoban")
    environment.reset(0)
    with pytest.raises(BadEnvironment, match="several_facts"):
        environment.demonstrate(random.Random(0), "several_fact")
