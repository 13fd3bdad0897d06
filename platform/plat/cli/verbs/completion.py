"""`plat completion`: print the script that makes a shell complete the commands of plat."""

from __future__ import annotations

from typing import Annotated

import typer

from plat.cli.common import verb
from plat.cli.result import Result
from plat.cli.schemas.others import CompletionData
from plat.errors import SpecError
from plat.suggest import suggest

SHELLS = ("bash", "zsh", "fish")


@verb(CompletionData)
def completion(
    shell: Annotated[
        str, typer.Argument(metavar="bash|zsh|fish", help="Your shell.", autocompletion=lambda: [*SHELLS])
    ],
) -> Result:
    """Print a script with which a shell completes commands.

    Add a line to the shell's start file. ~/.bashrc: eval "$(plat completion bash)"; ~/.zshrc, below compinit: eval
    "$(plat completion zsh)"; ~/.config/fish/config.fish: plat completion fish | source
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    from plat.cli.verb_list import COMPLETES

    if shell not in SHELLS:
        raise SpecError(f"no completion for {shell!r}", where="the command line", fix=suggest(shell, SHELLS, "shells"))
    script = get_completion_script(prog_name="plat", complete_var=COMPLETES, shell=shell)
    return Result({"shell": shell, "script": script}, script)
