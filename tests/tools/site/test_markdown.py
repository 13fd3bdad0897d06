"""Pages and docstrings as the site needs them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.site.markdown import PAGES, docstring_for_site, page_for_site


def shown(text: str, page: str = "paper.md") -> str:
    return page_for_site(text, page, lambda path: f"files/{path}")


@pytest.mark.parametrize(
    ("page", "link", "leads_to"),
    [
        ("index.md", "docs/ray.md#which-ray", "ray.md#which-ray"),
        ("index.md", "CONTRIBUTING.md", "contributing.md"),
        ("index.md", "docs/images/a.png", "images/a.png"),
        ("changes.md", "docs/ray.md", "ray.md"),
        ("paper.md", "ray.md", "ray.md"),
        ("paper.md", "../README.md#start", "index.md#start"),
        ("paper.md", "../experiments/table4.yaml", "files/experiments/table4.yaml"),
        ("python-api.md", "../../docs/notebook.md", "notebook.md"),
        ("paper.md", "#here", "#here"),
        ("paper.md", "https://optuna.org/docs/", "https://optuna.org/docs/"),
    ],
)
def test_a_link_leads_to_the_page_or_the_file_of_the_site(page: str, link: str, leads_to: str):
    assert shown(f"See [it]({link}).", page) == f"See [it]({leads_to})."
    assert shown(f'<a href="{link}">', page) == f'<a href="{leads_to}">'


def test_badges_are_left_out_and_code_stays():
    assert shown("[![tests](https://a/b.svg)](https://a/b) text") == "text"
    code = "```\n  - [a](docs/b.md)\n```\n`[a](docs/b.md)`"
    assert shown(code, "index.md") == code


def test_a_list_in_a_list_gets_the_spaces_that_it_needs():
    assert shown("- a\n  - b\n  goes on\n") == "- a\n    - b\n  goes on\n"


def test_fields_of_a_docstring_become_a_list_and_examples_become_code():
    text = "Do it.\n\njobs   runs at once;\n       None: all\nhome   a folder\n\nThe end.\n\n>>> do(1)\n2"
    assert docstring_for_site(text) == (
        "Do it.\n\n- `jobs`: runs at once;\n    None: all\n- `home`: a folder\n\n"
        "The end.\n\n```pycon\n>>> do(1)\n2\n```"
    )


def test_text_after_an_example_is_text():
    assert docstring_for_site(">>> a\n1\n\nMore words.").splitlines()[-3:] == ["```", "", "More words."]


def test_a_page_elsewhere_that_a_page_links_to_is_on_the_site() -> None:
    """mkdocs ends with an assertion, without a name, if a page is added as a file."""
    root = Path(__file__).parents[3]
    for page in (root / "docs").glob("*.md"):
        for link in re.findall(r"\]\(\.\./([\w/.-]+\.md)", page.read_text(encoding="utf-8")):
            assert link in PAGES, f"{page.name} links to {link}"
