"""Hooks of mkdocs (`make site`): pages from outside docs/, links that fit the site, and a site that needs no server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

from tools.site.llms import llms_text
from tools.site.markdown import PAGES, page_for_site
from tools.site.reports import report_pages

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
REPORTS: dict[str, str] = {}  # experiment file -> the page of its report
ELSEWHERE = re.compile(r"<(?:script|link|img)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//[^\s>]*")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made here, and the script with which the search works without a server."""
    texts = {page: (ROOT / source).read_text(encoding="utf-8") for source, page in PAGES.items()}
    llms = llms_text(config.site_description, config.nav, lambda path: texts.get(path) or _text(path))
    for name, text in {**texts, "llms.txt": llms}.items():
        files.append(File.generated(config, name, content=text))
    for name, source, content in report_pages(ROOT):
        files.append(File.generated(config, name, content=content.decode() if name.endswith(".md") else content))
        if source:
            REPORTS[source] = name
    for name in ("iframe-worker.js", "site.css"):
        files.append(File.generated(config, name, abs_src_path=str(HERE / name)))
    return files


def _text(path: str) -> str:
    """Return the Markdown of a page in docs/; "" for a page that is made here."""
    file = ROOT / "docs" / path
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return the page as mkdocs needs it. A file that it links to is on the site, too, or on the repository's."""
    if page.file.src_uri.startswith("reports/"):
        return markdown

    def address(path: str) -> str:
        if path in REPORTS:
            return REPORTS[path]
        if config.repo_url:
            return f"{config.repo_url.rstrip('/')}/blob/main/{path}"
        if (ROOT / path).is_dir():
            return "architecture.md"  # which says what is in each folder
        if (ROOT / path).is_file() and not files.get_file_from_path(f"files/{path}"):
            files.append(File.generated(config, f"files/{path}", abs_src_path=str(ROOT / path)))
        return f"files/{path}"

    return page_for_site(markdown, page.file.src_uri, address)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Return the page. Raises PluginError if it loads anything from another server."""
    if found := ELSEWHERE.search(output):
        raise PluginError(f"{page.file.src_uri} loads from another server: {found[0]}")
    return output
