"""Hooks of mkdocs (`make site`): pages from outside docs/, links that fit the site, and a site that needs no server."""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import join, normpath
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

from tools.site.commands import commands_page

ROOT = Path(__file__).parent.parent.parent
HERE = "tools/site"
# File of the repository -> its page. All pages lie in one folder, as they do in docs/.
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    f"{HERE}/python-api.md": "python-api.md",
}
MARKS = re.compile(
    r"(?: (?=<!-- given))?<!--.*?-->"
)  # those of `make results`: at the start of a line they would end a paragraph
NESTED = re.compile(r"^  (?=[-*] )", flags=re.M)  # mkdocs wants four spaces where GitHub takes two
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")
# Code, in which nothing is replaced. A block may be a part of a list.
CODE = re.compile(r"(^ *```.*?^ *```|`+[^`\n]+`+)", flags=re.M | re.S)
ELSEWHERE = re.compile(r"<(?:script|link|img)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//[^\s>]*")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made here, and the script with which the search works without a server."""
    texts = {page: (ROOT / source).read_text(encoding="utf-8") for source, page in PAGES.items()}
    for name, text in {**texts, "commands.md": commands_page()}.items():
        files.append(File.generated(config, name, content=text))
    files.append(File.generated(config, "iframe-worker.js", abs_src_path=str(ROOT / HERE / "iframe-worker.js")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Remove the marks of `make results`, and lead links to pages and files of the site."""
    sources = {name: source for source, name in PAGES.items()}
    folder = str(Path(sources.get(page.file.src_uri, f"docs/{page.file.src_uri}")).parent)

    def lead(link: re.Match[str]) -> str:
        target = normpath(join(folder, link[1]))
        if target in PAGES or target.startswith("docs/"):
            return PAGES.get(target, target.removeprefix("docs/"))
        if config.repo_url:
            return f"{config.repo_url.rstrip('/')}/blob/main/{target}"
        if (ROOT / target).is_file() and not files.get_file_from_path(f"files/{target}"):
            files.append(File.generated(config, f"files/{target}", abs_src_path=str(ROOT / target)))
        return f"files/{target}"

    parts = CODE.split(markdown)
    parts[::2] = [LINK.sub(lead, NESTED.sub("    ", MARKS.sub("", text))) for text in parts[::2]]
    return "".join(parts)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Raise PluginError for a page that loads anything from another server."""
    if found := ELSEWHERE.search(output):
        raise PluginError(f"{page.file.src_uri} loads from another server: {found[0]}")
    return output
