"""`plat completion`: print the script that makes a shell complete the commands of plat."""

from __future__ import annotations

from typing import Annotated

import typer

from plat.cli.common import verb
from plat.cli.completion.shells import SCRIPTS
from plat.errors import SpecError
from plat.suggest import suggest


@verb()
def completion(shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish", help="Your shell.")]) -> int:
    """Print a script with which a shell completes commands.

    Add a line to the shell's start file. ~/.bashrc: eval "$(plat completion bash)"; ~/.zshrc: eval "$(plat completion
    zsh)"; ~/.config/fish/config.fish: plat completion fish | source
    """
    if shell not in SCRIPTS:
        raise SpecError(f"no completion for {shell!r}", where="the command line", fix=suggest(shell, SCRIPTS, "shells"))
    print(SCRIPTS[shell], end="")
    return 0
