"""Failures of single parts of a report; the other parts are still made."""

from __future__ import annotations

from dataclasses import dataclass

from plat.errors import PlatError
from plat.user_code import in_words, place_of
from plat_analysis.shown_text import printable


@dataclass(frozen=True)
class Failure:
    """Hold a failed part, where the experiment file asks for it (file:line:column), and how to fix it."""

    what: str
    where: str
    fix: str = ""

    @classmethod
    def of(cls, subject: str, error: Exception, where: str) -> Failure:
        """Return a failure of `subject` (such as `the figure 'curves'`) from the exception that it raised."""
        if isinstance(error, PlatError):
            return cls(printable(f"{subject} could not be made: {error.what}"), error.where or where, error.fix or "")
        place = place_of(error)
        return cls(
            printable(f"{subject} could not be made: {in_words(error)}"),
            f"{place} (asked for at {where})" if place else where,
            "the rest of the report was made; remove this entry, or report the message to the author of its builder",
        )

    def render(self) -> str:
        """Return the lines shown to the user."""
        return PlatError(self.what, where=self.where, fix=self.fix or None).render()
