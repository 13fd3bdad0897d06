"""What a search shows, what an answer is worth, and that questions have the answers that the pages give."""

from __future__ import annotations

import json
import random

import pytest

from plat_envs.api import configure, find_environment, make_environment
from plat_envs.environment_errors import BadEnvironment
from plat_envs.searchqa.compact import RELATIONS as SMALL_RELATIONS
from plat_envs.searchqa.encyclopaedia import COUNTS, NUMBERS, RELATIONS, encyclopaedia


def answer(environment, text):
    return environment.step(f"i will try this page </think> <answer> {text} </answer>")


def test_every_compact_question_has_the_answer_that_the_shown_facts_give():
    """An oracle that reads the text of prompts alone: it searches the entity that a question comes down to."""
    environment = make_environment("searchqa", split="validation")
    for seed in range(200):
        prompt = environment.reset(seed)
        question = prompt.split(" ?")[0].removeprefix("searchqa ").split()
        (entity,) = (word for word in question if word[0] == "e" and word[1:].isdigit())
        links = {"wrote": "who" in question, "born": "born" in question, "capital": "capital" in question}
        done, reward = False, 0.0
        for relation in (name for name in SMALL_RELATIONS if links[name]):
            prompt = answer(environment, f"search {entity}")[0]
            page = prompt.rpartition(f" {entity} : ")[2].split(" _")[0]
            facts = [fact.split() for fact in page.removesuffix(" <think>").split(" . ")]
            if relation == "born":
                entity = next(fact[3] for fact in facts if fact[0] == entity and fact[1] == "born")
            else:
                entity = next(fact[0] for fact in facts if fact[1] == relation and entity in fact[2:4])
        _, reward, done, info = answer(environment, f"finish {entity}")
        assert done and reward == 1 and info["success"], (seed, prompt)


def test_lures_stand_on_as_many_pages_as_asked_for():
    for distractors in (0, 3, 8):
        environment = make_environment("searchqa", {"distractors": distractors})
        for seed in range(20):
            environment.reset(seed)
            pages = [environment.world.page(f"e{number}") for number in range(8)]
            assert sum(len(page) == 2 for page in pages) == distractors
            assert all(len({fact.relation for fact in page}) == 1 for page in pages)


def test_searches_cost_and_show_what_names_the_entity():
    environment = make_environment("searchqa", {"search_cost": 0.1, "results": 3, "hops": 1})
    environment.reset(1)
    prompt, reward, done, info = answer(environment, "search e3")
    assert reward == -0.1 and not done and info["moves"] == 1
    pages = {f"e{number}": environment.world.page(f"e{number}") for number in range(8)}
    naming = [page for page, facts in pages.items() if any("e3" in (fact.of, fact.value) for fact in facts)]
    shown = [word for word, colon in zip(prompt.split(), prompt.split()[1:], strict=False) if colon == ":"]
    assert shown[-1] == "e3", "the page of the entity is the newest"
    assert set(shown) == {"e3", *[page for page in naming if page != "e3"][:2]} and len(shown) > 1
    before = prompt
    prompt, reward, _, info = answer(environment, "search the answer")
    assert reward == -0.1 and info["format_valid"] and info["moves"] == 0
    assert prompt.rsplit(" ", 2)[0] == before.rsplit(" ", 2)[0]


def test_an_answer_needs_no_finish_and_an_empty_one_is_invalid():
    environment = make_environment("searchqa")
    environment.reset(0)
    assert answer(environment, "")[1:3] == (-0.1, False)
    _, reward, done, info = answer(environment, environment.right)
    assert (reward, done, info["success"]) == (1.0, True, True)


def test_several_entities_are_no_answer_in_the_compact_rendering():
    environment = make_environment("searchqa", {"hops": 1})
    for seed in range(20):
        environment.reset(seed)
        others = [f"e{number}" for number in range(8) if f"e{number}" != environment.right][:4]
        _, reward, done, info = answer(environment, f"finish {environment.right} {' '.join(others)}")
        assert (reward, done, info["success"]) == (0.0, True, False)


def test_f1_pays_part_and_em_only_decides_success():
    for success, expected in (("f1", True), ("em", False)):
        environment = make_environment("searchqa", {"success": success}, rendering="chat")
        for seed in range(100):
            environment.reset(seed)
            if len(environment.right.split()) == 2:
                break
        _, reward, done, info = answer(environment, f"finish[{environment.right.split()[0]}]")
        assert done and reward == pytest.approx(2 / 3) and info["success"] == expected


def test_answers_of_real_text_are_not_cut():
    environment = make_environment("searchqa", rendering="chat")
    environment.reset(0)
    prompt = answer(environment, "search[a || b]")[0]
    assert "Searches so far: a || b\n" in prompt


def test_generated_pages_hold_what_questions_ask():
    pages = encyclopaedia(0)
    assert len(pages.entities) == sum(COUNTS.values()) == 2000
    words = [len(entity.text.split()) for entity in pages.entities.values()]
    assert 30 <= min(words) and max(words) <= 60 and len(pages.index.content_hash) == 64
    for entity in pages.entities.values():
        for relation, value in entity.values.items():
            assert value in entity.text and RELATIONS[relation][:2] == (entity.kind, pages.entities[value].kind)
        for year in entity.numbers.values():
            assert str(year) in entity.text
    assert encyclopaedia(1).entities.keys() != pages.entities.keys()
    assert set(NUMBERS) < set(COUNTS)


def test_chat_questions_are_answered_by_their_pages_and_split_by_them():
    paths = {}
    for split in ("train", "validation"):
        environment = make_environment("searchqa", split=split, rendering="chat")
        for seed in range(300):
            environment.reset(seed)
            question = environment.question
            assert len(question.facts) == len(question.path) and question.answer in " ".join(question.facts)
            paths.setdefault(split, set()).add(tuple(sorted(question.path)))
    assert not paths["train"] & paths["validation"]


@pytest.fixture
def real(tmp_path):
    for name, count in (("train", 40), ("validation", 30)):
        rows = [{"question": f"{name} question {n}?", "answer": f"answer {n}"} for n in range(count)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return {
        "data": "file",
        "path": str(tmp_path / "train.jsonl"),
        "validation_path": str(tmp_path / "validation.jsonl"),
        "server": "http://127.0.0.1:9",
    }


def test_real_questions_come_from_their_files(real):
    drawn = {}
    for split in ("train", "validation", "heldout"):
        environment = make_environment("searchqa", real, split, "chat")
        drawn[split] = {environment.reset(seed) and environment.problem for seed in range(40)}
    assert all(text.startswith("train") for text in drawn["train"]) and len(drawn["train"]) == 40
    assert len(drawn["validation"] | drawn["heldout"]) == 30 and not drawn["validation"] & drawn["heldout"]
    shared = make_environment("searchqa", {**real, "shared_pool": True}, "validation", "chat")
    assert {shared.reset(seed) and shared.problem for seed in range(40)} == drawn["train"]
    spec = find_environment("searchqa")
    assert set(spec.fingerprint(configure(spec, real))) == {"data_sha256", "validation_sha256"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"data": "file"}, "path is empty"),
        ({"data": "hub"}, "no server to search"),
        ({"success": "exact"}, "success is 'exact'"),
        ({"hops": 4}, "hops is 4"),
    ],
)
def test_wrong_options(options, said):
    with pytest.raises(BadEnvironment, match=said):
        make_environment("searchqa", options)


@pytest.mark.parametrize(
    ("address", "part", "kept"),
    [
        ("http://h:1/?x=1#y", "a query and a fragment", "http://h:1/"),
        ("http://h:1/a#y", "a fragment", "http://h:1/a"),
        ("http://me:secret@h:1", "a name or password", "http://h:1"),
    ],
)
def test_no_part_of_an_address_is_silently_ignored(address, part, kept):
    with pytest.raises(BadEnvironment, match=f"with {part}, which no request carries") as caught:
        make_environment("searchqa", {"server": address})
    assert caught.value.fix == f"write {kept}"
    assert make_environment("searchqa", {"server": kept}).config.server == kept


def test_rows_without_an_answer_are_named(real, tmp_path):
    (tmp_path / "train.jsonl").write_text('{"question": "who?"}')
    environment = make_environment("searchqa", real, rendering="chat")
    with pytest.raises(BadEnvironment, match="not a row of HotpotQA") as caught:
        environment.reset(0)
    assert caught.value.where == real["path"]


def test_a_comparison_shows_both_pages_and_only_shown_pages_are_facts():
    environment = make_environment("searchqa", {"results": 1}, rendering="chat")
    compared = stated = 0
    for seed in range(150):
        environment.reset(seed)
        rng, done = random.Random(seed), False
        while not done:
            said = environment.demonstrate(rng, "several_facts")
            assert environment.reasoning_level(said.partition(" </think>")[0]) == "several_facts", said
            for fact in environment._found_facts():
                stated += 1
                assert fact.split()[-1] in environment._chat()
            if len(environment.earlier) == 1 and "earlier" in environment.question.text:
                compared += 1
                assert all(f"{page}\n" in environment._chat() for page in environment.question.path)
            done = environment.step(said)[2]
    assert compared > 10 and stated > 100


def test_real_questions_have_no_scripted_look_ahead(real):
    environment = make_environment("searchqa", real, rendering="chat")
    environment.reset(0)
    for policy in (environment.blind, environment.greedy):
        with pytest.raises(BadEnvironment, match="no way to look ahead"):
            policy()


def test_policies_order_in_the_chat_rendering_too():
    from plat_envs.policies import POLICIES, response

    environment = make_environment("searchqa", split="heldout", rendering="chat")
    solved = []
    for policy in POLICIES:
        count = 0
        for seed in range(200):
            rng = random.Random(seed)
            environment.reset(seed)
            while not environment.done:
                environment.step(response(environment, policy, rng))
            count += environment.success
        solved.append(count / 200)
    assert solved == sorted(solved) and len(set(solved)) == 4 and solved[-1] > 0.95
