"""Collect what could not be read of a script: once each, in the run's log and in its result."""

from __future__ import annotations

MOST = 20  # notes of one run
LONGEST = 300  # characters


class Notes:
    """The notes of one attempt. `all`: in their order."""

    def __init__(self) -> None:
        self.all: list[str] = []

    def refuse(self, what: str, where: str, fix: str) -> None:
        """Note what cannot be read, where, and how to mend it."""
        self.add(f"{where}: {what}" + (f"; {fix}" if fix else ""))

    def add(self, text: str) -> None:
        """Add a sentence, and print it into the run's log. At most MOST are kept."""
        text = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
        if text not in self.all and len(self.all) < MOST:
            self.all.append(text)
            print(f"[plat: {text}]", flush=True)
