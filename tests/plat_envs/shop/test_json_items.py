"""A list is read item by item, wherever its parts are cut; a list that is not JSON is refused with the place."""

from __future__ import annotations

import json

import pytest

from plat_envs.environment_errors import BadEnvironment
from plat_envs.shop.published import read_items


@pytest.mark.parametrize("chunk", [*range(1, 40), 1 << 16])
def test_a_list_is_read_item_by_item(tmp_path, chunk):
    items = [{"a": "x]}, {" * n, "b": [n, {"c": "ü"}]} for n in range(9)]
    (tmp_path / "list.json").write_text("  " + json.dumps(items, indent=2, ensure_ascii=False) + " \n")
    assert list(read_items(tmp_path / "list.json", chunk)) == items
    (tmp_path / "empty.json").write_text("[ ]")
    assert list(read_items(tmp_path / "empty.json", chunk)) == []


@pytest.mark.parametrize("chunk", [1, 4, 1 << 16])
@pytest.mark.parametrize(
    ("text", "said"),
    {
        '[{"a": 1} {"a": 2}]': "item 2 .*no comma",
        '[{"a": 1},, {"a": 2}]': "item 2 ",
        '[, {"a": 1}]': "item 1 ",
        ',[{"a": 1}]': "not a list",
        '[{"a": 1}, ]': "item 2 .*last comma",
        '[{"a": 1}': "item 2 .*no end",
        "[": "item 1 ",
        '[{"a": 1}]garbage': "item 2 .*more text follows: 'g",
        '[{"a": 1}]\n\n[{"a": 2}]': "item 2 .*more text follows",
        "[] ]": "item 1 .*more text follows",
    }.items(),
)
def test_a_wrong_list_is_refused_with_the_place(tmp_path, text, said, chunk):
    (tmp_path / "list.json").write_text(text)
    with pytest.raises(BadEnvironment, match=said) as caught:
        list(read_items(tmp_path / "list.json", chunk))
    assert caught.value.where == str(tmp_path / "list.json") and caught.value.fix
