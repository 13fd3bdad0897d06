"""An extension of griffe: docstrings of plat as Markdown, with lists of fields as lists and examples as code."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension

FIELD = re.compile(r"^(\w[\w., ]*?) {2,}(\S.*)")  # `jobs   number of runs at once`


def as_markdown(text: str) -> str:
    """Return a docstring as Markdown. Lines below a field that stand further right continue it."""
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


class Docstrings(Extension):
    """Rewrite every docstring that is read."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring and not obj.is_alias:
            obj.docstring.value = as_markdown(obj.docstring.value)
