"""Something of a report that could not be made. The rest of the report is made all the same."""

from __future__ import annotations

from dataclasses import dataclass

from plat.errors import PlatError
from plat.user_code import in_words, place_of
from plat_analysis.text import printable


@dataclass(frozen=True)
class Failure:
    """What failed, where the experiment file asks for it (file:line:column), and how to mend it."""

    what: str
    where: str
    mend: str = ""

    @classmethod
    def of(cls, subject: str, error: Exception, where: str) -> Failure:
        """A failure of `subject` (such as `the figure 'curves'`) from the exception that it raised."""
        if isinstance(error, PlatError):
            return cls(printable(f"{subject} could not be made: {error.what}"), error.where or where, error.mend or "")
        place = place_of(error)
        return cls(
            printable(f"{subject} could not be made: {in_words(error)}"),
            f"{place} (asked for at {where})" if place else where,
            "the rest of the report was made; take this entry out, or report the message as a mistake of its builder",
        )

    def render(self) -> str:
        """The lines shown to the user."""
        return PlatError(self.what, where=self.where, mend=self.mend or None).render()
