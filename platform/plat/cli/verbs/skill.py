"""`plat skill`: print the page that teaches an agent to use plat."""

from __future__ import annotations

from importlib.resources import files

from plat.cli.common import verb
from plat.cli.result import Result
from plat.cli.schemas.others import SkillData


@verb(SkillData)
def skill() -> Result:
    """Print the page that teaches an agent to use plat.

    Save it where your agent looks for skills, for example: plat skill > .agents/skills/plat/SKILL.md
    """
    text = files("plat.cli").joinpath("skill.md").read_text(encoding="utf-8")
    return Result({"text": text}, text.removesuffix("\n"))
