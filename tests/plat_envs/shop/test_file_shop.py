"""`data: file`: the published formats in small files of our own, converted once; bad files are one message each."""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from plat_envs.api import configure, find_environment, make_environment
from plat_envs.environment_errors import BadEnvironment
from plat_envs.instances import split_of
from plat_envs.lucene import build
from plat_envs.policies import response
from plat_envs.shop.file_shop import file_shop
from plat_envs.shop.product import WebShopConfig
from plat_envs.shop.published import title_nouns


def row(number, **fields):
    """A product as published: a lamp, or a jar, with two colours and three sizes."""
    kind = "lamp" if number % 2 else "jar"
    made = {
        "asin": f"B{number:09d}",
        "name": f"Brand{number} {kind.title()} for the Desk, Non Slip",
        "full_description": f"A {kind} that lasts.",
        "small_description": [f"{kind} no {number}", "easy clean"],
        "pricing": f"${number + 1}.50",
        "customization_options": {
            "Color": [{"value": " Dark Red ", "image": None}, {"value": "blue/green"}],
            "Size": [{"value": "small"}, {"value": "large"}, {"value": "x-large"}],
            "Style": None,
        },
        "category": "home",
        "query": f" {kind.title()}s ",
        "product_category": f"Home › Light › {kind}",
        "images": ["url"],
        "average_rating": 4.1,
    }
    return {**made, **fields}


def write(folder, rows, attributes=None, people=None, size="_1000"):
    """Write the three files of a shop; return the path of the products."""
    folder.mkdir(exist_ok=True)
    names = [one["asin"] for one in rows if "asin" in one]
    if attributes is None:
        entry = {"attributes": ["non slip", "easy clean"], "instruction": "Find me non slip lamps"}
        attributes = {name: {**entry, "instruction_attributes": ["non slip"]} for name in names}
    if people is None:
        one = {
            "instruction": "i want a lamp.",
            "instruction_attributes": ["easy clean"],
            "instruction_options": ["blue"],
        }
        people = {name: [one, {**one, "instruction_attributes": []}] for name in names[:20]}
    (folder / f"items_shuffle{size}.json").write_text(json.dumps(rows))
    (folder / f"items_ins_v2{size}.json").write_text(json.dumps(attributes))
    (folder / "items_human_ins.json").write_text(json.dumps(people))
    return folder / f"items_shuffle{size}.json"


@pytest.fixture
def published(tmp_path):
    return write(tmp_path / "data", [row(number) for number in range(60)])


def shop_of(path, **options):
    return file_shop(WebShopConfig(data="file", path=str(path), **options))


def play(environment, policy, seed):
    """An episode: its observations and rewards."""
    history = [environment.reset(seed)]
    while not environment.done:
        observation, reward, *_ = environment.step(response(environment, policy, random.Random(seed)))
        history.append((observation, reward))
    return history


def test_fields_are_read_as_released(published):
    shop = shop_of(published)
    product = shop.product("B000000003")
    assert product.options == {"color": ("dark red", "blue | green"), "size": ("small", "large", "x-large")}
    assert (product.price, product.price_tag, product.query) == (4.5, "$4.5", "lamps")
    assert product.path == ("Home", "Light", "lamp") and product.bullets == ("lamp no 3", "easy clean")
    assert product.attributes == ("non slip", "easy clean") and product.nouns == (
        "brand",
        "lamp",
        "desk",
        "non",
        "slip",
    )
    goals = [shop.goal(goal) for goal in shop.goals if goal.startswith("B000000003/")]
    assert [goal.options for goal in goals] == [
        *(("dark red", "small"), ("dark red", "large"), ("dark red", "x-large")),
        *(("blue | green", "small"), ("blue | green", "large"), ("blue | green", "x-large")),
    ]
    assert goals[1].text.startswith(
        "Find me non slip lamps with color: dark red, and size: large, and price lower than "
    )
    assert {goal.limit for goal in goals} <= {20.0, 30.0, 40.0} and all(goal.limit > 4.5 for goal in goals)


def test_instructions_of_people(published):
    shop = shop_of(published, goals="human")
    assert len(shop.goals) == 20, "those without attributes are left out, as released"
    goal = shop.goal(shop.goals[0])
    assert goal.options == ("blue",) and goal.text.startswith("i want a lamp, and price lower than ")


def test_prices_and_odd_rows_as_released(tmp_path):
    rows = [
        row(1, pricing=""),
        row(
            2, pricing="$10.00 to $1,020.00", full_description=None, customization_options=None, small_description="one"
        ),
        row(3, asin="nan"),
        row(4, asin="B00000000000"),
        row(2, name="again"),
        row(5, nouns=["Lamp", "desk"]),
    ]
    shop = shop_of(write(tmp_path / "d", rows))
    assert shop.product("B000000001").price == 100.0
    ranged = shop.product("B000000002")
    assert 10 < ranged.price < 1020 and ranged.price_tag == "$10.0 to $1020.0" and ranged.title.startswith("Brand2")
    assert ranged.bullets == ("one",) and ranged.description == "" and ranged.options == {}
    assert shop.product("B000000005").nouns == ("lamp", "desk")
    assert {goal.partition("/")[0] for goal in shop.goals} == {"B000000001", "B000000002", "B000000005"}
    again = shop_of(write(tmp_path / "copy", rows))
    assert again.product("B000000002").price == ranged.price, "drawn from its id"
    assert [again.goal(goal) for goal in again.goals] == [shop.goal(goal) for goal in shop.goals]


def test_the_files_are_converted_once_and_again_when_they_change(published, tmp_path):
    cache = tmp_path / "cache"
    first = shop_of(published, cache=str(cache))
    assert {path.suffix for path in cache.iterdir()} == {".sqlite", ".npz"} and len(
        list(published.parent.iterdir())
    ) == 3
    made = first.database.stat().st_mtime_ns
    assert shop_of(published, cache=str(cache)).database.stat().st_mtime_ns == made
    write(published.parent, [row(number) for number in range(61)])
    assert shop_of(published, cache=str(cache)).database != first.database


def test_the_database_that_is_looked_for_appears_last(published, monkeypatch):
    moved, replace = [], Path.replace
    monkeypatch.setattr(Path, "replace", lambda path, to: (moved.append(to.suffix), replace(path, to))[1])
    shop_of(published)
    assert moved == [".npz", ".sqlite"]


def test_an_episode_on_published_files(published):
    options = {"data": "file", "path": str(published), "turns": 9}
    for split in ("train", "validation"):
        environment = make_environment("webshop", options, split, "chat")
        for seed in range(12):
            history = play(environment, "optimal", seed)
            assert environment.success and history[-1][1] == 1, history
            assert play(environment, "greedy", seed) == play(environment, "greedy", seed)
    found = environment.shop.search("brand7 lamp")
    assert found[0] == "B000000007"


@pytest.mark.parametrize("by", ["product", "goal"])
def test_splits_of_published_goals_are_disjoint(published, by):
    options = {"data": "file", "path": str(published), "split": by}
    goals = {split: make_environment("webshop", options, split, "chat")._goals for split in ("train", "validation")}
    assert not set(goals["train"]) & set(goals["validation"])
    shared = {goal.partition("/")[0] for goal in goals["train"]} & {
        goal.partition("/")[0] for goal in goals["validation"]
    }
    assert bool(shared) == (by == "goal")
    if by == "product":
        assert {split_of(goal.partition("/")[0]) for goal in goals["train"]} == {"train", "base"}


def test_the_fingerprint_is_the_content_of_the_files(published, tmp_path):
    spec = find_environment("webshop")

    def fingerprint(path, **options):
        return spec.fingerprint(configure(spec, {"data": "file", "path": str(path), **options}))

    first = fingerprint(published)
    assert set(first) == {"products_sha256", "attributes_sha256"} and spec.fingerprint(WebShopConfig()) == {}
    assert fingerprint(write(tmp_path / "copy", [row(number) for number in range(60)])) == first
    assert fingerprint(write(tmp_path / "other", [row(number) for number in range(59)])) != first
    assert set(fingerprint(published, goals="human")) == {*first, "human_sha256"}


def broken(published, name, content):
    (published.parent / name).write_text(content)


def with_row(published, **fields):
    write(published.parent, [row(7, **fields)])


def with_entry(published, **fields):
    entry = {"attributes": ["a"], "instruction": "x", "instruction_attributes": ["a"], **fields}
    write(published.parent, [row(7)], {"B000000007": entry})


BREAKS = {
    "a missing file": (lambda p: (p.parent / "items_ins_v2_1000.json").unlink(), "no file items_ins_v2_1000.json"),
    "no products": (lambda p: p.unlink(), "no file items_shuffle_1000.json"),
    "no list": (lambda p: broken(p, p.name, '{"a": 1}'), "not a list"),
    "cut short": (lambda p: broken(p, p.name, p.read_text()[:-900]), "cannot read item"),
    "no objects": (lambda p: broken(p, p.name, "[1, 2]"), "item 1"),
    "empty": (lambda p: broken(p, p.name, ""), "not a list"),
    "bytes": (lambda p: p.write_bytes(b"\xff\xfe["), "cannot read item 1"),
    "no attributes": (lambda p: broken(p, "items_ins_v2_1000.json", "[]"), "not an object"),
    "wrong attributes": (lambda p: broken(p, "items_ins_v2_1000.json", json.dumps({row(0)["asin"]: 7})), "wrong type"),
    "a missing field": (lambda p: write(p.parent, [{"asin": "B1", "name": "x"}]), "no field 'full_description'"),
    "a wrong price": (lambda p: write(p.parent, [row(1, pricing="$1.2.3")]), "wrong type"),
    "wrong options": (lambda p: write(p.parent, [row(1, customization_options={"size": [{"x": 1}]})]), "wrong type"),
    **{
        f"{name} is {value!r}": (partial(with_entry, **{name: value}), f"{name}.* is no list of texts")
        for name in ("attributes", "instruction_attributes")
        for value in ([1, 2], [None], [["a"]], "cotton", {"a": 1})
    },
    **{
        f"nouns is {value!r}": (partial(with_row, nouns=value), "product B000000007 .*nouns is no list of texts")
        for value in ("lamp", 5, [None])
    },
    **{
        f"the id is {name!r}": (partial(with_row, asin=name), "has the id ")
        for name in ("", "\ud800", "A\nB", "A/B.1", "ü", "B1\n")
    },
}


@pytest.mark.parametrize("case", BREAKS)
def test_bad_files_are_one_message_with_where_and_fix(published, case):
    spoil, said = BREAKS[case]
    spoil(published)
    with pytest.raises(BadEnvironment, match=said) as caught:
        make_environment("webshop", {"data": "file", "path": str(published)}, "train", "chat")
    assert str(published.parent) in caught.value.where and caught.value.fix
    assert not list(published.parent.glob("webshop-*")), "nothing is left half done"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "KeyError"),
        *(({"instruction_attributes": value}, "instruction_attributes is no list of texts") for value in ([1], "red")),
        *(({"instruction_options": value}, "instruction_options is no list of texts") for value in ([8], "red", None)),
    ],
)
def test_wrong_instructions_of_people(published, fields, said):
    lists = {"instruction_attributes": ["red"], "instruction_options": []} if fields else {}
    entries = [{"instruction": "x", **lists, **fields}]
    broken(published, "items_human_ins.json", json.dumps({row(1)["asin"]: entries}))
    with pytest.raises(BadEnvironment, match=said) as caught:
        shop_of(published, goals="human")
    assert caught.value.where == f"{published.with_name('items_human_ins.json')}: B000000001" and caught.value.fix


def test_a_wrong_name_of_the_file(published, tmp_path):
    other = published.rename(tmp_path / "products.json")
    with pytest.raises(BadEnvironment, match="items_shuffle"):
        shop_of(other)


def test_a_cache_that_cannot_be_used(published, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadEnvironment, match="cannot write") as caught:
        shop_of(published, cache=str(tmp_path / "file"))
    assert "cache" in caught.value.fix


def test_a_full_disk(published):
    before, limits = set(published.parent.iterdir()), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, limits[1]))  # fails as a full disk does, in the database first
    try:
        with pytest.raises(BadEnvironment, match="cannot write the converted shop") as caught:
            shop_of(published)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "disk with space" in caught.value.fix and set(published.parent.iterdir()) == before


def test_the_next_conversion_removes_what_a_killed_one_has_left(published):
    code = """if 1:
        import os, signal, sys
        from plat_envs.shop import file_shop
        from plat_envs.shop.product import WebShopConfig
        file_shop.searched_text = lambda product: os.kill(os.getpid(), signal.SIGKILL)
        file_shop.file_shop(WebShopConfig(data="file", path=sys.argv[1]))"""
    subprocess.run([sys.executable, "-c", code, str(published)], check=False)
    (left,) = published.parent.glob("converting-*")
    assert list(left.glob("*.sqlite*"))
    host = left.name.rsplit("-", 2)[0]
    kept = {left.with_name(f"{host}-{os.getpid()}-a"), left.with_name("converting-another.host-1-a")}
    for folder in kept:
        folder.mkdir()
    shop_of(published)
    assert set(published.parent.glob("converting-*")) == kept, "of a process that lives, and of another host"


def test_a_lost_index_is_made_again(published):
    index = shop_of(published).database.with_suffix(".npz")
    index.unlink()
    assert shop_of(published).search("brand7 lamp")[0] == "B000000007" and index.is_file()


@pytest.mark.parametrize("ids", [["B000000001"], [f"C{number:09d}" for number in range(60)]])
def test_an_index_of_another_shop(published, ids):
    index = shop_of(published).database.with_suffix(".npz")
    build((name, "lamp") for name in ids).save(index)
    with pytest.raises(BadEnvironment, match="other products") as caught:
        shop_of(published).search("lamp")
    assert caught.value.where == str(index) and "remove this file" in caught.value.fix


@pytest.mark.parametrize("suffix", [".sqlite", ".npz"])
def test_a_damaged_conversion_is_named_and_its_fix_helps(tmp_path, suffix):
    path = write(tmp_path / suffix[1:], [row(number) for number in range(30)])
    damaged = shop_of(path).database.with_suffix(suffix)
    damaged.write_bytes(b"no database, no index" * 40)
    shop = type(shop_of(path))(shop_of(path).database)  # as a process that starts now
    with pytest.raises(BadEnvironment, match="cannot be read") as caught:
        shop.product(shop.goals[0].partition("/")[0]), shop.search("lamp")
    assert caught.value.where == str(damaged) and "remove this file" in caught.value.fix
    damaged.unlink()
    again = type(shop)(shop_of(path).database)
    assert again.product(again.goals[0].partition("/")[0]) and again.search("lamp")


def test_words_of_a_title_stand_for_nouns():
    assert title_nouns("Set of 3 Oak-Wood Lamps, 5W (for the Desk)") == ("set", "oak", "wood", "lamps", "desk")
