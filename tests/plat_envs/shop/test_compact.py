"""The compact shops: one right item, rewards, renderings that can be read back, and odd answers."""

from __future__ import annotations

import random
import re

import pytest

from plat_envs.api import make_environment
from plat_envs.environment_errors import BadEnvironment
from plat_envs.instances import SPLITS
from plat_envs.shop.product import score
from plat_envs.shop.shopper import TEMPLATES
from plat_envs.shop.small_shop import COLORS, SIZES, THINGS, small_shop
from plat_envs.stand_in import WORDS


def answered(environment, *answers):
    """Play answers; return the last observation, all rewards and the last info."""
    rewards = []
    for answer in answers:
        observation, reward, _, info = environment.step(f"x </think> <answer> {answer} </answer>")
        rewards.append(reward)
    return observation, rewards, info


def purchase(environment, item):
    """The answers that buy an item with the wanted options, if it has them."""
    offered = [value for values in item.options.values() for value in values]
    options = [f"click {value}" for value in environment.goal.options if value in offered]
    return [f"search {environment.size} {environment.color} {item.title}", f"click {item.id}", *options, "buy"]


@pytest.mark.parametrize("split", SPLITS)
def test_exactly_one_item_is_right(split):
    counts = set()
    for seed in range(300):
        shop = small_shop(split, seed, False)
        full = []
        for item in shop.items.values():
            offered = [value for values in item.options.values() for value in values]
            full += [item.id] if score(item, [v for v in shop.goal.options if v in offered], shop.goal) == 1 else []
            assert item.title in THINGS and 1 <= item.price <= 30
        assert full == [shop.right]
        alike = sum(item.title == shop.goal.query for item in shop.items.values())
        assert alike in (3, 4)
        counts.add(len(shop.items))
    assert counts == {6, 7, 8}


def test_the_goal_decides_the_split():
    goals = {split: {small_shop(split, seed, False).goal.text for seed in range(3000)} for split in SPLITS}
    for split in SPLITS:
        others = set().union(*(goals[other] for other in SPLITS if other != split))
        assert len(goals[split]) > 40 and not goals[split] & others


@pytest.mark.parametrize("kind", ["binary", "dense"])
def test_rewards_are_scores_or_full_scores(kind):
    environment = make_environment("webshop", {"reward": kind, "turns": 10})
    seen = set()
    for seed in range(60):
        environment.reset(seed)
        for item in environment.shop.items.values():
            environment.reset(seed)
            offered = [v for values in item.options.values() for v in values if v in environment.goal.options]
            expected = score(item, offered, environment.goal)
            _, rewards, info = answered(environment, *purchase(environment, item))
            paid = expected if kind == "dense" else float(expected == 1)
            if environment.done:  # the item was among the four results
                assert rewards == [*[0.0] * (len(rewards) - 1), paid] and info["success"] == (expected == 1)
                seen.add(paid)
    assert seen == ({0.0, 1.0} if kind == "binary" else {0.0, 1 / 3, 2 / 3, 1.0})


PAGE = re.compile(
    r"webshop buy (\w+) (\w+) (\w+) price (\d+) \. "
    r"(?:(?P<plain>page (?:search|finish)|no result)|(?P<rows>(?:e\d \w+ \d+ [√_] ?)+)|"
    r"item (?P<item>e\d) \w+ price \d+ color (?P<colors>[\w ]+) = (?P<color>\w+) "
    r"size (?P<sizes>[\w ]+) = (?P<size>\w+))"
    r"(?: _)* \. (?P<left>\d+) <think>"
)


def test_the_whole_page_can_be_read_back_from_the_text():
    """What the text says is the state: goal, rows with marks, item, its options, what is chosen, and turns left."""
    pages = set()
    for seed in range(200):
        environment, rng = make_environment("webshop"), random.Random(seed)
        observation = environment.reset(seed)
        while True:
            match, visit = PAGE.fullmatch(observation), environment.visit
            assert match and " ".join([*match.group(1, 2, 3), "price", match.group(4)]) == environment.goal.text
            assert int(match["left"]) == environment.turns_left
            if match["rows"]:
                rows = re.findall(r"(e\d) (\w+) (\d+) ([√_])", match["rows"])
                items = [environment.shop.items[name] for name in visit.shown()]
                marks = ["√" if item.id in visit.seen else "_" for item in items]
                assert rows == [(i.id, i.title, str(i.price), m) for i, m in zip(items, marks, strict=True)]
            elif match["item"]:
                options = environment.shop.items[match["item"]].options
                assert visit.item.id == match["item"]
                assert tuple(match["colors"].replace("_", "").split()) == options["color"]
                assert tuple(match["sizes"].replace("_", "").split()) == options["size"]
                chosen = {"color": match["color"], "size": match["size"]}
                assert {name: value for name, value in chosen.items() if value != "_"} == visit.chosen
            else:
                assert (
                    match["plain"]
                    == {"search": "page search", "done": "page finish", "results": "no result"}[visit.page]
                )
            pages.add(visit.page)
            if environment.done:
                break
            observation, *_ = environment.step(environment.demonstrate(rng, "template", good=rng.random() < 0.7))
    assert pages == {"search", "results", "item", "done"}


def test_the_options_of_a_row_are_found_by_their_words():
    environment = make_environment("webshop")
    for seed in range(50):
        environment.reset(seed)
        answered(environment, environment._good_search())
        assert environment.shop.right in environment.visit.shown() and len(environment.visit.shown()) <= 4
        answered(environment, "search nothing")
        assert environment.visit.page == "results" and environment.visit.shown() == ()


@pytest.mark.parametrize(
    "answer",
    ["buy", "back", "click e0", "click red", "search", "search  ", "click", "up", "<c>", "click back to search"],
)
def test_an_impossible_action_is_free_and_changes_nothing(answer):
    environment = make_environment("webshop")
    first = environment.reset(4)
    observation, reward, done, info = environment.step(f"x </think> <answer> {answer} </answer>")
    assert (reward, done, info) == (0.0, False, {"success": False, "format_valid": True, "actions": 1, "moves": 0})
    assert observation == first.replace(". 7 <", ". 6 <")


def test_an_opened_item_is_marked_among_the_results():
    environment = make_environment("webshop")
    environment.reset(2)
    right = environment.shop.right
    observation, *_ = answered(environment, environment._good_search())
    assert f" {right} " in observation and "√" not in observation
    observation, *_ = answered(environment, f"click {right}", "back")
    assert re.search(rf"{right} \w+ \d+ √", observation)


def test_a_wrong_item_is_left_by_the_way_that_the_demonstration_shows():
    environment, backs = make_environment("webshop"), 0
    for seed in range(100):
        environment.reset(seed)
        answered(environment, environment._good_search())
        wrong = next(name for name in environment.visit.shown() if name != environment.shop.right)
        answered(environment, f"click {wrong}")
        reasoning = environment.demonstrate(random.Random(0), "several_facts")
        backs += "<answer> back </answer>" in reasoning
    assert backs == 100, "the right one is among the results"


CHANGED = {"red": "blue", "blue": "green", "green": "red", "small": "large", "large": "small", "_": "red"}
CHANGED |= {"apples": "books", "books": "coins", "coins": "pens", "pens": "apples"}
CHANGED |= {f"e{n}": f"e{(n + 1) % 8}" for n in range(8)} | {str(n): str(n + 1) for n in range(31)}


@pytest.mark.parametrize("level", ["one_fact", "several_facts"])
def test_a_fact_with_another_word_in_it_is_wrong(level):
    environment, rng, tried = make_environment("webshop"), random.Random(6), 0
    for seed in range(60):
        environment.reset(seed)
        while not environment.done:
            facts, _, action = environment.demonstrate(rng, level).partition(" </think>")[0].partition(" so ")
            words = facts.split()
            for place, word in enumerate(words):
                before = words[place - 1] if place else ""
                if word in CHANGED and before != "no":  # an item may lack another option as well
                    other = "small" if word == "_" and before == "size" else CHANGED[word]
                    said = " ".join([*words[:place], other, *words[place + 1 :], "so", action])
                    assert environment.reasoning_level(said) == "wrong_facts", said
                    tried += 1
            environment.step(environment.demonstrate(rng, "template", rng.random() < 0.7))
    assert tried > 300


def test_templates_are_words_of_the_vocabulary():
    for text in TEMPLATES:
        assert set(text.split()) <= set(WORDS) and 4 <= len(text.split()) <= 8
    assert set(COLORS + SIZES + THINGS) <= set(WORDS)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"reward": "sparse"}, "binary"),
        ({"data": "hub"}, "file"),
        ({"data": "file"}, "items_shuffle"),
        ({"data": "file", "path": "items_shuffle.json"}, "no compact rendering"),
        ({"goals": "human"}, "human goals"),
        ({"split": "item"}, "product"),
        ({"actions_per_turn": 2}, "actions_per_turn"),
        ({"products": 10}, "products"),
    ],
)
def test_wrong_options(options, said):
    with pytest.raises(BadEnvironment, match=said):
        make_environment("webshop", options)


def test_a_fixed_routine_solves_small_shops_without_comparing_items():
    """It reads the prompt alone: the conclusion of fig6.yaml says so."""
    environment = make_environment("webshop", split="heldout")
    solved = 0
    for seed in range(100):
        prompt, done = environment.reset(seed), False
        chosen: list[str] = []
        while not done:
            words = prompt.split()
            color, size, thing, limit = words[2], words[3], words[4], int(words[6])
            if "item" in words[8:]:
                wanted = [value for value in (color, size) if value not in chosen]
                action = f"click {wanted[0]}" if wanted else "buy"
                chosen += wanted[:1]
            else:
                rows = [words[at : at + 4] for at in range(8, 24, 4)]
                rows = [row for row in rows if row[0].startswith("e") and row[0][1:].isdigit()]
                cheap = [row[0] for row in rows if int(row[2]) <= limit]
                action = f"click {cheap[0]}" if cheap else f"search {color} {size} {thing}"
            prompt, _, done, info = environment.step(f"i will try this </think> <answer> {action} </answer>")
        solved += info["success"]
    assert solved >= 95
