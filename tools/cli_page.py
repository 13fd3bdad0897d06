"""Write docs/cli.md: every verb with its help text and the JSON that it prints.

python -m tools.cli_page
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from plat.cli.json_schema import schema_of
from plat.cli.verb_list import EPILOG, VERBS, functions_of, load, plugin_verbs

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
OF_EVERY_VERB = ("--json", "-v", "-h", "--help")
HEAD = """# The command line

This page is made of the help texts (`python -m tools.cli_page`). Every verb but `plat mcp` takes `--json`, which prints
one JSON document. Verbs that take long print JSON lines; the last one has the event `result`. `plat schema VERB` prints
the whole JSON Schema. With `--json`, stdout has JSON alone, and the rest goes to stderr. `-v` prints more, and
tracebacks; `-h` prints the help.

An error is one line on stdout, the same for every verb:

```
{"event": "error", "error": {"code": "bad-input", "what": "no such file", "where": "a.yaml", "fix": ""}, "exit_code": 2}
```

`code` does not change between versions: {codes}.

"""


def page() -> str:
    """Return the text of the page: a section for each verb, in the order of `plat --help`."""
    parts = [HEAD.replace("{codes}", ", ".join(f"`{code}`" for code in codes())) + EPILOG]
    for verb in [*VERBS, *sorted(plugin_verbs())]:
        command, functions = load(verb), functions_of(verb)
        for name, function in functions.items():
            part = command.commands[name.partition(" ")[2]] if " " in name else command
            parts += [_section(f"plat {name}", part), _json_of(name, function)]
    return "\n\n".join(parts) + "\n"


def _section(name: str, command: Any) -> str:
    """Return how a verb is called, its help, and a table of its arguments and options."""
    context = command.make_context(name, [], resilient_parsing=True)
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    own = [record for record in records if record and record[0].split(",")[0] not in OF_EVERY_VERB]
    rows = [f"| {_code(code)} | {_escaped(text)} |" for code, text in own]
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    table = ["\n".join(["| argument or option | what it does |", "|---|---|", *rows])] if rows else []
    return "\n\n".join([f"## {name}", f"```text\n{usage}\n```", (command.help or "").replace("\b", ""), *table])


def _code(text: str) -> str:
    """Return code for a cell of a table, in which a bar would open a further cell."""
    return f"<code>{text.replace('|', '&#124;')}</code>" if "|" in text else f"`{text}`"


def _escaped(text: str) -> str:
    """Return the text so that Markdown shows it as it is, in one cell of a table."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("\n", " ")


def codes() -> list[str]:
    """Return the codes of all errors."""
    from plat import errors
    from plat.cli.screen.failure_words import UsageError

    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.PlatError)]
    return [*dict.fromkeys(kind.code for kind in (*kinds, UsageError)), "internal", "interrupted"]


def _json_of(name: str, function: Any) -> str:
    if function.gives is None:
        return "No JSON: it speaks the protocol of its clients."
    schema = schema_of(function.gives, name, is_lines=function.lines)["anyOf"][0]
    keys = [
        f"- `{key}` ({_type(value)})" + (f": {_brief(value['description'])}" if value.get("description") else "")
        for key, value in schema.get("properties", {}).items()
        if key != "event"
    ]
    head = "JSON lines; the last one:" if function.lines else "JSON:"
    return "\n".join([head, "", *keys]) if keys else "JSON: a JSON Schema."


def _type(value: dict[str, Any]) -> str:
    """Return a type of JSON Schema in words: `list of Run`, `text or null`."""
    words = {"string": "text", "integer": "integer", "number": "number", "boolean": "true or false", "null": "null"}
    if "anyOf" in value:
        return " or ".join(dict.fromkeys(map(_type, value["anyOf"])))
    if "$ref" in value:
        return value["$ref"].rpartition("/")[2]
    if value.get("type") == "array":
        return f"list of {_type(value['items'])}" if value.get("items") else "list"
    return words.get(value.get("type", ""), "object" if value.get("type") == "object" else "any")


def _brief(text: str) -> str:
    return re.sub(r"\s+", " ", text).rstrip(".")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
