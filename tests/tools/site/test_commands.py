"""The page of the command line has every verb with its options."""

from __future__ import annotations

import re

from tools.site.commands import commands_page

from plat.cli.verb_list import VERBS, plugin_verbs


def test_every_verb_and_every_verb_of_a_group_has_a_section():
    page = commands_page()
    sections = re.findall(r"^## plat (.+)$", page, flags=re.M)
    assert set(sections) >= {*VERBS, *plugin_verbs(), "base list", "base build", "base verify"}
    assert len(sections) == len(set(sections))
    for name, summary in VERBS.items():
        assert summary in page.partition(f"## plat {name}\n")[2].partition("\n## ")[0]


def test_options_are_rows_of_a_table():
    sweep = commands_page().partition("## plat sweep\n")[2].partition("\n## ")[0]
    assert re.search(r"^\| `-j, --jobs N` \| Runs at once .* \|$", sweep, flags=re.M)
    cells = [
        len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", line))) for line in sweep.splitlines() if line[:1] == "|"
    ]
    assert set(cells) == {3}  # no bar in a text opens a further cell
