"""`plat schema`: the JSON Schema of what a verb prints with `--json`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from plat.cli.common import verb
from plat.cli.json_schema import schema_of
from plat.cli.result import Result
from plat.cli.schemas.others import SchemaData
from plat.cli.verb_list import functions_of
from plat.errors import SpecError
from plat.suggest import suggest


@verb(SchemaData)
def schema(
    words: Annotated[list[str], typer.Argument(metavar="VERB", help="A verb, or two words: base list.")],
) -> Result:
    """Print the JSON Schema of what a verb prints as JSON.

    For example: plat schema runs. Verbs that take long print JSON lines, and the schema is that of each line.
    """
    name = " ".join(words)
    known = functions_of(words[0])
    if name not in known:
        names = list(known) or ["plan", "sweep", "runs", "claims", "judge"]
        raise SpecError(f"there is no verb {name!r}", where="the command line", fix=suggest(name, names, "verbs"))
    function = known[name]
    if (gives := getattr(function, "gives", None)) is None:
        fix = "the package that publishes it would have to name its type: see `plat.cli.common.verb`"
        raise SpecError(f"`plat {name}` prints no JSON", where="the command line", fix=fix)
    made = schema_of(gives, name, is_lines=function.lines)  # type: ignore[attr-defined]
    return Result(made, json.dumps(made, indent=2))
