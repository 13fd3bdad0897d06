"""Pages and docstrings of plat as Markdown that mkdocs reads. GitHub and mkdocs differ in a few points."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePosixPath
from posixpath import normpath

# File of the repository -> its page. All pages lie in one folder, as they do in docs/.
PAGES = {
    "README.md": "index.md",
    "examples/README.md": "examples.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    "tools/site/python-api.md": "python-api.md",
}
# Code, in which nothing is replaced. A block may be a part of a list.
CODE = re.compile(r"(^ *```.*?^ *```|`+[^`\n]+`+)", flags=re.M | re.S)
BADGE = re.compile(r"\[?!\[[^]]*\]\(https?:[^)]*\)(?:\]\([^)]*\))?\s?")  # a picture of another server
NESTED = re.compile(r"^  (?=[-*] )", flags=re.M)  # mkdocs wants four spaces where GitHub takes two
LINK = re.compile(r"(?:(?<=\]\()|(?<=(?:src|ref|set)=\"))(?!\w+:|#)([^)\"#\s]+)")
FIELD = re.compile(r"^(\w[\w., ]*?) {2,}(\S.*)")  # in a docstring: `jobs   number of runs at once`


def page_for_site(text: str, page: str, address: Callable[[str], str]) -> str:
    """Return a page without badges, with links that lead to pages and files of the site.

    page     its name on the site
    address  path in the repository of a file that is no page -> its address
    """
    sources = {name: source for source, name in PAGES.items()}
    folder = PurePosixPath(sources.get(page, f"docs/{page}")).parent

    def lead(link: re.Match[str]) -> str:
        target = normpath(folder / link[1])
        known = target in PAGES or target.startswith("docs/")
        return PAGES.get(target, target.removeprefix("docs/")) if known else address(target)

    parts = CODE.split(text)
    for number in range(0, len(parts), 2):
        parts[number] = LINK.sub(lead, NESTED.sub("    ", BADGE.sub("", parts[number])))
    return "".join(parts)


def docstring_for_site(text: str) -> str:
    """Return a docstring with its fields as a list and its examples as code.

    Lines below a field that stand further right continue it.
    """
    lines: list[str] = []
    in_list = in_example = False
    for line in text.splitlines():
        field = FIELD.match(line)
        if line.startswith(">>>") and not in_example:
            lines, in_example = [*lines, "```pycon"], True
        elif in_example and not line:
            lines, in_example = [*lines, "```"], False
        elif field and not in_example:
            lines += [] if in_list or not lines or not lines[-1] else [""]
            line, in_list = f"- `{field[1]}`: {field[2]}", True
        elif in_list and line.startswith("    "):
            line = f"    {line.strip()}"
        else:
            in_list = False
        lines.append(line)
    return "\n".join([*lines, "```"] if in_example else lines)
