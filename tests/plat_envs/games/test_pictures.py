"""Pictures of boards: cells show the symbols of the text, with equal bytes each time; puzzles are as without them."""

from __future__ import annotations

import random
from dataclasses import replace
from hashlib import sha256
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plat_envs.api import (
    IMAGE,
    PICTURE_RENDERINGS,
    RENDERINGS,
    Observation,
    configure,
    find_environment,
    make_environment,
)
from plat_envs.environment_errors import BadEnvironment
from plat_envs.games.frozenlake import lake
from plat_envs.games.pictures import COLOURS, HUE_SHIFT, SYMBOLS, board, palette_of
from plat_envs.games.sokoban import puzzle
from plat_envs.policies import fixed_instances, successes
from plat_envs.stand_in import IDS, MAX_NUMBER, Mix, demonstrations

GAMES = ("sokoban", "frozenlake")
OTHERS = ("countdown", "metamathqa", "searchqa", "webshop", "deepcoder", "bandit", "reasoning_gym")
every_game = pytest.mark.parametrize("game", GAMES)
both_pictures = pytest.mark.parametrize("rendering", PICTURE_RENDERINGS)
MOVES = st.lists(st.sampled_from(("up", "down", "left", "right", "jump")), min_size=1, max_size=6)
PALETTES = 200
SIDES = {("sokoban", "own"): 28, ("frozenlake", "own"): 28, ("sokoban", "vagen"): 16, ("frozenlake", "vagen"): 64}


def turn(move):
    return f"x </think> <answer> {move} </answer>"


def played(game, rendering, options, seed, moves):
    """Observations and all else of an episode that ends after these moves, or before."""
    environment = make_environment(game, options, "train", rendering)
    seen, rest = [environment.reset(seed, noise=3)], []
    for move in moves:
        if environment.done:
            break
        observation, *others = environment.step(turn(move))
        seen.append(observation)
        rest.append((others, environment.problem))
    return seen, rest


def symbols_of(chat):
    """The rows of symbols in an observation of the chat rendering."""
    lines = chat.partition("Grid:\n")[2].split("\n")
    return [line for line in lines if len(line) == len(lines[0])][: len(lines[0])]


def tiles(game, px, palette):
    """Symbol -> its picture."""
    return {symbol: board(game, [symbol], px, palette) for symbol in SYMBOLS[game]}


def assert_shows(picture, rows, of):
    """Every cell of the picture is the tile of its symbol."""
    px = len(of["P"])
    assert picture.dtype == np.uint8 and picture.shape == (len(rows) * px, len(rows) * px, 3)
    for y, row in enumerate(rows):
        for x, symbol in enumerate(row):
            assert (picture[y * px : (y + 1) * px, x * px : (x + 1) * px] == of[symbol]).all()


@every_game
@pytest.mark.parametrize("sprites", ["own", "vagen"])
@pytest.mark.parametrize("jitter", [True, False])
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 200), moves=MOVES)
def test_every_cell_is_the_tile_of_its_symbol_in_the_text(game, sprites, jitter, seed, moves):
    options = {"sprites": sprites, "jitter": jitter}
    texts, outcomes = played(game, "chat", {}, seed, moves)
    palette = palette_of(game, f"train/{seed}" if jitter else None)
    for rendering, px in (("compact_image", 8), ("chat_image", SIDES[game, sprites])):
        seen, rest = played(game, rendering, options, seed, moves)
        assert rest == outcomes and len(seen) == len(texts)
        for observation, text in zip(seen, texts, strict=True):
            (picture,) = observation.images
            assert_shows(picture, symbols_of(text), tiles(game, px, palette))


@every_game
@settings(max_examples=30, deadline=None)
@given(texts=st.lists(st.text(max_size=40), min_size=5, max_size=5), seed=st.integers(0, 50))
def test_every_observation_has_one_place_for_one_picture(game, texts, seed):
    for rendering in PICTURE_RENDERINGS:
        environment = make_environment(game, rendering=rendering)
        seen = [environment.reset(seed), *(environment.step(text)[0] for text in texts)]
        for observation in seen:
            assert isinstance(observation, Observation) and observation.text.count(IMAGE) == 1
            assert len(observation.images) == 1
        assert environment.done


@every_game
def test_the_compact_text_is_task_picture_budget(game):
    environment = make_environment(game, rendering="compact_image")
    assert environment.instructions == "" and environment.reset(3).text == f"{game} <image> 10 <think>"
    assert environment.step("nothing")[0].text == f"{game} <image> 8 <think>"
    assert {word for word in environment.reset(4).text.split(" ") if word not in IDS} == {IMAGE}


@every_game
def test_the_chat_text_is_that_of_chat_with_a_picture_as_state(game):
    texts, _ = played(game, "chat", {}, 7, ["up", "jump", "left", "down", "up"])
    seen, _ = played(game, "chat_image", {}, 7, ["up", "jump", "left", "down", "up"])
    for text, observation in zip(texts, seen, strict=True):
        before, _, after = text.partition("Coordinates: ")
        state = text.partition("Grid:\n")[2]
        rows = "\n".join(symbols_of(text))
        assert state.startswith(rows) and after
        assert observation.text == before + IMAGE + state[len(rows) :]
    assert "The game is over.\nState:\n<image>" in seen[-1].text


@every_game
def test_the_system_message_says_what_tiles_look_like(game):
    words, pictures = (make_environment(game, rendering=r).instructions for r in ("chat", "chat_image"))
    assert "The symbols are" in words and "The symbols are" not in pictures and "√" not in pictures
    assert "The picture shows" in pictures and "Coordinates are (row, column)" in pictures
    before, after = words.partition("The symbols are")[0], words.partition("Coordinates are")[2]
    assert pictures.startswith(before) and pictures.endswith(after)


@every_game
@both_pictures
def test_demonstrations_and_policies_are_those_of_the_text(game, rendering):
    mix = Mix(grounded=0.4, wrong=0.2, usefulness=0.5)
    corpora = [
        list(demonstrations(make_environment(game, rendering=r), random.Random(0), 100, mix))
        for r in ("compact", rendering)
    ]
    assert [(d.response, d.level) for d in corpora[0]] == [(d.response, d.level) for d in corpora[1]]
    assert all(isinstance(example.prompt, Observation) for example in corpora[1])
    for policy in ("blind", "greedy", "optimal"):
        text, pictures = (fixed_instances(game, {}, "heldout", 30, r) for r in ("compact", rendering))
        assert text[1] == pictures[1] and successes(*text, policy) == successes(*pictures, policy)


@every_game
def test_the_options_of_pictures_change_no_text_and_no_instance(game):
    changed = {"sprites": "vagen", "jitter": False, "blank": True}
    moves = ["up", "left", "down", "right"]
    for rendering in RENDERINGS:
        for seed in range(20):
            plain, other = (played(game, rendering, options, seed, moves) for options in ({}, changed))
            assert plain == other
    draw, config = {"sokoban": puzzle, "frozenlake": lake}[game], configure(find_environment(game), changed)
    assert config.without_pictures() == type(config)() and replace(config, size=5).without_pictures().size == 5
    make_environment(game, changed).reset(11)
    drawn = draw.cache_info().misses
    make_environment(game, {"jitter": False}).reset(11)
    assert draw.cache_info().misses == drawn  # all of them share the puzzles


# Tiles and palettes.

# Of the bytes of all tiles in the fixed palette: a change of a drawing changes the results of runs with pictures, so it
# needs a new `version` of the environment.
FROZEN = {"sokoban": "fc8fea03b5a06b85", "frozenlake": "caf2924be8846dde"}


@every_game
def test_tiles_are_the_same_bytes_each_time(game):
    digest = sha256()
    for px in (8, 16, 28, 64):
        for picture in tiles(game, px, palette_of(game)).values():
            digest.update(picture.tobytes())
    assert digest.hexdigest()[:16] == FROZEN[game]


@every_game
@pytest.mark.parametrize("px", [8, 16, 28])
def test_no_palette_makes_tiles_look_alike(game, px):
    """Tiles of two symbols differ in every palette, and each tile is nearest to its own symbol in other palettes."""
    palettes = [palette_of(game), *(palette_of(game, f"train/{seed}") for seed in range(PALETTES))]
    drawn = np.array([list(tiles(game, px, palette).values()) for palette in palettes], dtype=float)
    drawn = drawn.reshape(len(palettes), len(SYMBOLS[game]), -1)
    for one, other in combinations(range(len(SYMBOLS[game])), 2):
        assert np.abs(drawn[:, one] - drawn[:, other]).mean(axis=-1).min() > 15  # of 255, over all pixels
    for one, other in pairwise(drawn):
        distance = np.abs(one[:, None] - other[None]).mean(axis=-1)
        assert (distance.argmin(axis=1) == np.arange(len(one))).all()


@every_game
def test_hues_of_strong_colours_of_cells_do_not_meet(game):
    what = {"sokoban": ("wall", "target", "box", "player"), "frozenlake": ("hole", "flag", "player")}[game]
    for one, other in combinations(what, 2):
        apart = abs(COLOURS[game][one][0] - COLOURS[game][other][0])
        assert min(apart, 360 - apart) > 2 * HUE_SHIFT


@every_game
@both_pictures
def test_a_palette_belongs_to_task_split_and_seed(game, rendering):
    def first(split, seed, noise=0, **options):
        return make_environment(game, options, split, rendering).reset(seed, noise).images[0]

    assert (first("train", 3) == first("train", 3, noise=5)).all()
    colours = {tuple(first(split, seed)[0, 0]) for split in ("train", "validation") for seed in range(20)}
    assert len(colours) > 30
    assert palette_of("sokoban", "train/3") != palette_of("frozenlake", "train/3")
    of = tiles(game, first("train", 3).shape[0] // (6 if game == "sokoban" else 4), palette_of(game))
    for seed in range(5):
        chat = make_environment(game, {}, "train", "chat").reset(seed)
        assert_shows(first("train", seed, jitter=False), symbols_of(chat), of)


@every_game
@both_pictures
def test_a_palette_lasts_for_an_episode(game, rendering):
    """The top left pixel is one of the colours of the seed, also after another seed was played."""
    environment = make_environment(game, {}, "train", rendering)
    environment.reset(8)
    environment.reset(9)
    for move in ("up", "left"):
        picture = environment.step(turn(move))[0].images[0]
        assert {tuple(map(int, colour)) for colour in picture.reshape(-1, 3)} <= set(palette_of(game, "train/9"))


@every_game
@both_pictures
@pytest.mark.parametrize("sprites", ["own", "vagen"])
def test_blank_hides_the_board_and_nothing_else(game, rendering, sprites):
    moves = ["up", "left", "down"]
    seen, outcomes = played(game, rendering, {"sprites": sprites}, 5, moves)
    hidden, hidden_outcomes = played(game, rendering, {"sprites": sprites, "blank": True}, 5, moves)
    assert outcomes == hidden_outcomes and [o.text for o in seen] == [o.text for o in hidden]
    for shown, blank in zip(seen, hidden, strict=True):
        assert blank.images[0].shape == shown.images[0].shape and blank.images[0].dtype == np.uint8
        assert set(blank.images[0].ravel().tolist()) == {128}


# Errors.


def test_only_environments_with_pictures_have_picture_renderings():
    for game in GAMES:
        assert find_environment(game).renderings == ("compact", "chat", "compact_image", "chat_image")
    for task in OTHERS:
        assert not set(find_environment(task).renderings) & set(PICTURE_RENDERINGS)
        for rendering in PICTURE_RENDERINGS:
            with pytest.raises(BadEnvironment, match=f"^{task} has no {rendering} rendering") as caught:
                make_environment(task, rendering=rendering)
            assert caught.value.fix == f"train.rendering={'chat' if rendering == 'chat_image' else 'compact'}" or (
                task == "reasoning_gym" and caught.value.fix == "train.rendering=chat"
            )


@every_game
def test_wrong_options_of_pictures_name_the_right_ones(game):
    with pytest.raises(BadEnvironment, match=r"sprites is 'vagan' \| did you mean 'vagen'\? one of: own, vagen"):
        make_environment(game, {"sprites": "vagan"})
    for name in ("jitter", "blank"):
        with pytest.raises(BadEnvironment, match=rf"{name} is 1 \| a value of type bool"):
            make_environment(game, {name: 1})
    with pytest.raises(BadEnvironment, match=f"no compact_image rendering .* at most {MAX_NUMBER}, or .*: chat_image"):
        make_environment(game, {"turns": MAX_NUMBER}, rendering="compact_image")
    make_environment(game, {"turns": MAX_NUMBER}, rendering="chat_image")
