"""The picture of the rooms says what the rules of imports say."""

from __future__ import annotations

from xml.etree import ElementTree

from tools.site.rooms import PICTURE, arrows, drawn, layers, rules

SMALL = {"plat.cli": {"plat.app", "plat.store"}, "plat.app": {"plat.store"}, "plat.store": set[str]()}


def texts(picture: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]


def test_the_picture_of_the_page_is_that_of_the_rules():
    assert PICTURE.read_text(encoding="utf-8") == drawn(*rules()), "python -m tools.site.rooms draws it again"


def test_every_room_has_a_box_and_no_box_is_outside():
    rooms, everywhere = rules()
    picture = drawn(rooms, everywhere)
    assert {room.removeprefix("plat.") for room in rooms} <= set(texts(picture))
    height = int(ElementTree.fromstring(picture).attrib["viewBox"].split()[3])
    for box in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}rect"):
        x, y, width, tall = (int(box.attrib[name]) for name in ("x", "y", "width", "height"))
        assert x + width <= 330 and y + tall <= height


def test_a_room_stands_below_those_that_import_it():
    rooms, _ = rules()
    level = {room: depth for depth, layer in enumerate(layers(rooms)) for room in layer}
    assert set(level) == set(rooms)
    assert all(level[room] < level[target] for room, imports in rooms.items() for target in imports)
    assert max(map(len, layers(rooms))) <= 2  # as many as the picture has columns


def test_an_import_that_a_longer_way_replaces_has_no_arrow():
    assert list(arrows(SMALL)) == [("plat.cli", "plat.app"), ("plat.app", "plat.store")]


def test_a_changed_rule_changes_the_picture():
    more = SMALL | {"plat.store": {"plat.spec"}, "plat.spec": set[str]()}
    assert "spec" in texts(drawn(more, ("plat.errors",))) and "spec" not in texts(drawn(SMALL, ("plat.errors",)))
