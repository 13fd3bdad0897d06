"""What runs of webshop need: the published files. A damaged one is one message before a run starts."""

from __future__ import annotations

import json

import pytest

from plat_envs.api import find_environment
from plat_envs.environment_errors import BadEnvironment
from plat_envs.shop.product import WebShopConfig
from plat_envs.shop.spec import QUICKLY, needs

PRODUCT = {
    **dict.fromkeys(("name", "full_description", "small_description", "query", "product_category"), "lamp"),
    "customization_options": {},
}
NAMES = {"products": "items_shuffle.json", "attributes": "items_ins_v2.json", "human": "items_human_ins.json"}


@pytest.fixture
def config(tmp_path):
    entry = {"instruction": "x", "instruction_attributes": ["lasting"], "attributes": ["lasting"]}
    people = {"instruction": "x", "instruction_attributes": ["lasting"], "instruction_options": ["blue"]}
    asins = [f"B{number}" for number in range(50)]
    contents = [{"asin": asin, **PRODUCT} for asin in asins], dict.fromkeys(asins, entry), {"B1": [people]}
    for name, content in zip(NAMES.values(), contents, strict=True):
        (tmp_path / name).write_text(json.dumps(content) + "\n")
    return WebShopConfig(data="file", path=str(tmp_path / "items_shuffle.json"), goals="human")


@pytest.mark.parametrize("whole", [QUICKLY, 0])
def test_files_that_are_here(config, tmp_path, whole):
    found = needs(config, whole)
    assert [need.what for need in found] == [
        f"the {name} of WebShop in {tmp_path / file}" for name, file in NAMES.items()
    ]
    assert not any(need.absent for need in found) and len(list(tmp_path.iterdir())) == 3, "nothing is converted"
    spec = find_environment("webshop")
    assert list(spec.needs(config)) == found and list(spec.needs(WebShopConfig())) == []


@pytest.mark.parametrize("whole", [QUICKLY, 0])
@pytest.mark.parametrize("name", NAMES.values())
@pytest.mark.parametrize("change", ["cut", "removed", "empty", "another form"])
def test_a_damaged_file_is_one_message(config, tmp_path, whole, name, change):
    file = tmp_path / name
    if change == "removed":
        file.unlink()
    else:
        file.write_text({"cut": file.read_text()[:-9], "empty": "", "another form": "7"}[change])
    with pytest.raises(BadEnvironment) as caught:
        needs(config, whole)
    assert caught.value.where == str(file) and "get the file again" in caught.value.fix


def test_rows_are_read_where_that_is_quick(config, tmp_path):
    rows = [{"asin": "B1", **PRODUCT}, {"asin": "B2"}]
    (tmp_path / "items_shuffle.json").write_text(json.dumps(rows))
    assert needs(config, 0)
    with pytest.raises(BadEnvironment, match="no field") as caught:
        needs(config)
    assert caught.value.where.endswith("items_shuffle.json: item 2")
