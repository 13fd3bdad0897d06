"""The chat rendering on a generated shop: products, goals and splits, pages as released, policies of every skill."""

from __future__ import annotations

import random
from itertools import pairwise
from statistics import mean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plat_envs.api import LEVELS, make_environment
from plat_envs.environment_errors import BadEnvironment
from plat_envs.instances import SPLITS, split_of
from plat_envs.policies import POLICIES, response
from plat_envs.shop.catalogue import (
    DEPARTMENTS,
    GeneratedShop,
    generated_shop,
    goals_of_split,
    make_goal,
    make_product,
    price_limit,
    product_ids,
)
from plat_envs.shop.product import WebShopConfig, score, type_factor
from plat_envs.shop.spec import SPEC


def chat(split="train", **options):
    return make_environment("webshop", {"turns": 9, **options}, split, "chat")


def answered(environment, *answers):
    for answer in answers:
        result = environment.step(f"x </think> <answer> {answer} </answer>")
    return result


def test_the_shop_is_as_large_as_it_says():
    assert len(DEPARTMENTS) == 5 and sum(len(one.types) for one in DEPARTMENTS) == 40
    assert len({attribute for one in DEPARTMENTS for attribute in one.attributes}) == 60
    shop = generated_shop(0, 1000)
    products = [shop.product(name) for name in product_ids(0, 1000)]
    assert len(products) == 1000 and len(shop.goals) == 2000
    assert {len(product.options) for product in products} == {0, 1, 2, 3}
    assert len({product.query for product in products}) == 40
    assert 2 < min(product.price for product in products) and max(product.price for product in products) < 1000


def test_a_product_is_drawn_from_seed_and_id_alone():
    ids = product_ids(3, 200)
    assert ids[:100] == product_ids(3, 100) and len(set(ids)) == 200 and not set(ids) & set(product_ids(4, 200))
    shop = GeneratedShop(3, 100)
    for name in ids[:100:7]:
        assert shop.product(name) == make_product(3, name) != make_product(4, name)
        assert shop.goal(f"{name}/1") == make_goal(3, make_product(3, name), 1)


def test_titles_name_their_nouns_and_types_differ():
    shop = generated_shop(0, 1000)
    products = [shop.product(name) for name in product_ids(0, 300)]
    for product in products:
        assert set(product.nouns) <= set(product.title.lower().replace(",", "").split())
    rng, factors = random.Random(0), []
    for _ in range(3000):
        product, other = rng.sample(products, 2)
        factor = type_factor(product, make_goal(0, other, 0))
        assert factor == 1 or product.query != other.query
        factors.append(factor)
    assert 0.8 < factors.count(0.0) / len(factors) < 0.99


def test_every_goal_can_be_reached_with_the_product_it_was_made_from():
    shop = generated_shop(0, 1000)
    for goal_id in shop.goals[:600]:
        goal = shop.goal(goal_id)
        assert score(shop.product(goal.product), goal.options, goal) == 1
        assert all(text in goal.text for text in (*goal.attributes, *goal.options, f"{goal.limit:.2f}"))


def test_price_limits_are_drawn_from_the_goals_id():
    assert len({price_limit(12.0, f"a/{number}") for number in range(50)}) == 3
    assert {price_limit(12.0, f"a/{number}") for number in range(50)} == {30.0, 40.0, 50.0}
    assert price_limit(12.0, "a") == price_limit(12.0, "a")
    assert price_limit(985.0, "a") == 1_000_000


def test_each_split_has_as_many_problems_as_the_specification_says():
    for split in SPLITS:
        environment = make_environment("webshop", {}, split, "chat")
        seeds = range(len(environment._goals))
        assert len({environment.reset(seed) and environment.problem for seed in seeds}) >= SPEC.plenty


@pytest.mark.parametrize("by", ["product", "goal"])
def test_splits_are_disjoint(by):
    shop, config = generated_shop(0, 1000), WebShopConfig(split=by)
    chosen = {split: set(goals_of_split(shop, config, split)) for split in SPLITS}
    assert sum(map(len, chosen.values())) == 2000 == len(set().union(*chosen.values()))
    products = {split: {goal.partition("/")[0] for goal in chosen[split]} for split in SPLITS}
    shared = products["train"] & products["validation"]
    assert bool(shared) == (by == "goal")


def test_a_shared_pool_validates_on_training_goals():
    shop = generated_shop(0, 1000)
    shared = goals_of_split(shop, WebShopConfig(shared_pool=True), "validation")
    assert shared == goals_of_split(shop, WebShopConfig(), "train")


def test_pages_are_pieces_joined_as_released():
    environment = chat()
    first = environment.reset(0)
    text, goal = environment.goal.text, environment.goal
    assert f"WebShop [SEP] Instruction: [SEP] {text} [SEP] Search\nActions: search[<content>]\n" in first
    product = environment.shop.product(goal.product)
    page = answered(environment, f"search[{product.title}]")[0]
    assert f"Instruction: [SEP] {text} [SEP] Back to Search [SEP] Page 1 (Total results: 50) [SEP] Next > [SEP]" in page
    assert f"[SEP] {product.id} [SEP] {product.title} [SEP] ${product.price}" in page
    assert f"Actions: click[back to search], click[next >], click[{product.id.lower()}], click[" in page
    page = answered(environment, f"Click[{product.id}]")[0]
    options = "".join(f"{name} [SEP] {' [SEP] '.join(values)} [SEP] " for name, values in product.options.items())
    assert (
        f"[SEP] Back to Search [SEP] < Prev [SEP] {options}{product.title} [SEP] Price: ${product.price} "
        "[SEP] Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now\n" in page
    )
    page = answered(environment, "click[features]")[0]
    assert page.count("[SEP]") == 3 + len(product.bullets) and product.bullets[-1] in page
    assert product.description in answered(environment, "click[< prev]", "click[description]")[0]
    _, reward, done, info = answered(environment, "click[< prev]", "click[buy now]")
    assert done and info["success"] == (not goal.options) and reward == float(info["success"])


def test_chosen_options_stand_on_the_page():
    environment = chat()
    seed = next(seed for seed in range(50) if environment.reset(seed) and environment.goal.options)
    environment.reset(seed)
    product = environment.shop.product(environment.goal.product)
    name, values = next(iter(product.options.items()))
    page = answered(environment, f"search[{product.title}]", f"click[{product.id}]", f"click[{values[-1]}]")[0]
    assert f"[SEP] Chosen {name}: {values[-1]} [SEP]" in page


ODD = ["search[<c>]", "search[<a> x]", "search[<q> lamp]", "search[<r>]", "search[!!!]", "search[]]", "search[ ]"]
ODD += [
    "search[]",
    "click[]",
    "click[search]",
    "click[buy now]",
    "click[b000000000]",
    "buy",
    "search",
    "[",
    "search[\0]",
]


@pytest.mark.parametrize("answer", ODD)
def test_odd_actions_are_free_and_never_raise(answer):
    environment = chat()
    environment.reset(1)
    _, reward, done, info = answered(environment, answer)
    assert reward == 0 and not done and info["format_valid"] and info["actions"] == 1


ACTIONS = st.one_of(
    st.text(max_size=30),
    st.text(max_size=20).map(lambda text: f"search[{text}]"),
    st.sampled_from(["click[next >]", "click[< prev]", "click[back to search]", "search[lamp]", "click[reviews]"]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ACTIONS, min_size=9, max_size=9))
def test_no_action_breaks_an_episode(answers):
    environment = chat(format_penalty=-1)
    environment.reset(1)
    for answer in answers:
        _, reward, done, info = answered(environment, answer)
        assert reward in (0.0, -1.0) and info["moves"] <= info["actions"] <= 1
    assert done


def played(environment, seed):
    """An episode of a beginner as a generator of its observations."""
    rng = random.Random(seed)
    yield environment.reset(seed)
    while not environment.done:
        yield environment.step(environment.demonstrate(rng, "template", rng.random() < 0.6))


@pytest.mark.parametrize("rendering", ["compact", "chat"])
def test_two_environments_in_turns_play_as_each_alone(rendering):
    first, second = (make_environment("webshop", {}, "train", rendering) for _ in range(2))
    for seed in range(15):
        alone = [list(played(first, seed)), list(played(first, seed + 1))]
        both = [[], []]
        games = [(both[0], played(first, seed)), (both[1], played(second, seed + 1))]
        while games:
            for game in list(games):
                if (turn := next(game[1], None)) is None:
                    games.remove(game)
                else:
                    game[0].append(turn)
        assert both == alone


def outcomes(environment, policy, seeds):
    """Mean success and mean total reward of a policy."""
    solved, rewards = [], []
    for seed in seeds:
        environment.reset(seed)
        rng, total = random.Random(seed), 0.0
        while not environment.done:
            total += environment.step(response(environment, policy, rng))[1]
        solved.append(environment.success)
        rewards.append(total)
    return mean(solved), mean(rewards)


@pytest.mark.parametrize("rendering", ["compact", "chat"])
@pytest.mark.parametrize("split", ["train", "validation"])
def test_policies_of_each_skill_order_as_they_should(rendering, split):
    environment = make_environment("webshop", {"reward": "dense", "turns": 9}, split, rendering)
    values = [outcomes(environment, policy, range(180)) for policy in POLICIES]
    for lower, higher in pairwise(values):
        assert lower[0] < higher[0] and lower[1] < higher[1], values
    assert values[-1] == (1, 1) and values[0][0] < 0.05


def test_levels_of_reasoning_are_recognised():
    environment, rng = chat(), random.Random(4)
    for seed in range(60):
        environment.reset(seed)
        while not environment.done:
            for level in LEVELS:
                reasoning = environment.demonstrate(rng, level).partition(" </think>")[0]
                assert environment.reasoning_level(reasoning) == level, reasoning
            environment.step(environment.demonstrate(rng, "template", rng.random() < 0.7))
    for text in ("", "a lamp is wanted", "so click[x]", "the limit is high; so click[x]"):
        assert environment.reasoning_level(text) is None


def test_a_shop_too_small_for_a_split_says_so():
    shop = GeneratedShop(0, 1)
    other = next(split for split in SPLITS if split != split_of(shop.goals[0].partition("/")[0]))
    with pytest.raises(BadEnvironment, match="no goal"):
        goals_of_split(shop, WebShopConfig(), other)
