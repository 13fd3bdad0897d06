"""An extension of griffe, which reads the docstrings for the page of the Python API."""

from __future__ import annotations

from typing import Any

from griffe import Extension

from tools.site.markdown import docstring_for_site


class Docstrings(Extension):
    """Rewrite every docstring that is read."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring and not obj.is_alias:
            obj.docstring.value = docstring_for_site(obj.docstring.value)
