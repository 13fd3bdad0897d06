"""`llms.txt` of the site: what plat is, and a line for each page, for language models that read the site."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def llms_text(description: str, nav: Sequence[Any], text_of: Callable[[str], str]) -> str:
    """Return the file: a heading for each section of the navigation, below it a link and a sentence for each page.

    text_of  returns the Markdown of a page, "" where it has none
    """
    lines = [
        "# plat",
        "",
        f"> {description}",
        "",
        "Agents: `plat skill` prints how to use plat; `plat mcp` offers it as tools.",
    ]
    for entry in nav:
        for title, content in entry.items():
            pages = [{title: content}] if isinstance(content, str) else content
            lines += ["", f"## {title}", ""]
            lines += [_line(name, path, text_of(path)) for page in pages for name, path in page.items()]
    return "\n".join(lines) + "\n"


def _line(title: str, path: str, text: str) -> str:
    paragraphs = [part for part in text.split("\n\n")[1:] if part[:1].isalpha() or part.startswith("`")]
    first = " ".join(paragraphs[0].split()).partition(". ")[0].rstrip(".:") if paragraphs else ""
    return f"- [{title}]({path})" + (f": {first}" if first else "")
