"""The page of the command line, written from the verbs: it says what `plat VERB --help` says."""

from __future__ import annotations

from typing import Any

from plat.cli.verb_list import EPILOG, VERBS, load, plugin_verbs


def commands_page() -> str:
    """Return the page as Markdown, with one section for each verb, in the order of `plat --help`."""
    commands = {f"plat {name}": load(name) for name in [*VERBS, *plugin_verbs()]}
    for group in list(commands):
        commands |= {f"{group} {name}": command for name, command in getattr(commands[group], "commands", {}).items()}
    return "\n\n".join(["# The command line", EPILOG, *(section(*item) for item in commands.items())]) + "\n"


def section(name: str, command: Any) -> str:
    """Return the section of one verb: its help, how it is called, and a table of its arguments and options."""
    context = command.make_context(name, [], resilient_parsing=True)
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    rows = [f"| `{code}` | {escaped(text)} |" for code, text in filter(None, records)]
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    table = "\n".join(["| argument or option | what it does |", "|---|---|", *rows])
    return "\n\n".join([f"## {name}", f"```\n{usage}\n```", (command.help or "").replace("\b", ""), table])


def escaped(text: str) -> str:
    """Return the text so that Markdown shows it as it is, in one cell of a table."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("\n", " ")
