"""The page of the command line is what the verbs say, and the site's llms.txt names every page."""

from __future__ import annotations

import yaml
from tools.cli_page import PAGE, codes, page
from tools.site.llms import llms_text

from plat.cli.verb_list import VERBS

ROOT = PAGE.parents[1]


def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tools.cli_page"


def test_every_verb_and_its_json_are_on_the_page():
    text = page()
    assert all(f"\n## plat {verb}\n" in text for verb in VERBS)
    sections = dict(part.split("\n", 1) for part in text.split("\n## ")[1:])
    assert "`--until WHAT`" in sections["plat wait"] and "- `reached` (true or false)" in sections["plat wait"]
    assert "- `runs` (list of EndedRun)" in sections["plat sweep"] and "JSON lines" in sections["plat sweep"]
    assert "bases" in sections["plat base list"]
    assert {"bad-input", "command-line", "internal", "interrupted"} <= set(codes())


def test_llms_txt_has_a_line_for_each_page():
    nav = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader=yaml.BaseLoader)["nav"]
    text = llms_text("What it is.", nav, lambda path: "# Title\n\nFirst sentence. Second.\n")
    assert text.startswith("# plat\n\n> What it is.\n") and "- [Glossary](glossary.md): First sentence\n" in text
    assert text.count("\n- [") == sum(1 if isinstance(v, str) else len(v) for one in nav for v in one.values())


def test_every_page_is_in_the_navigation():
    text = (ROOT / "mkdocs.yml").read_text()
    assert not [path.name for path in (ROOT / "docs").glob("*.md") if f": {path.name}\n" not in text]
