"""The scripts that make bash, zsh and fish ask plat, and the answers in the form that each of them reads."""

from __future__ import annotations

import re

from plat.cli.completion.candidates import Candidates

ASK = "__complete"  # `plat __complete SHELL LINE` prints the answers

BASH = f"""\
_plat() {{
    mapfile -t COMPREPLY < <("${{COMP_WORDS[0]}}" {ASK} bash "${{COMP_LINE:0:COMP_POINT}}" 2>/dev/null)
    if [[ ${{#COMPREPLY[@]}} == 1 && ${{COMPREPLY[0]}} == *[=/] ]]; then compopt -o nospace; fi
}}
complete -F _plat plat
"""

ZSH = f"""\
#compdef plat
(( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit }}
_plat() {{
    local line
    local -a closed open
    for line in "${{(@f)$("${{words[1]}}" {ASK} zsh "${{words[1,CURRENT-1]}} $PREFIX" 2>/dev/null)}}"; do
        case $line in
            (open:*) open+=("${{line#open:}}") ;;
            (closed:*) closed+=("${{line#closed:}}") ;;
        esac
    done
    (( $#closed )) && _describe plat closed
    (( $#open )) && _describe plat open -S ''
}}
compdef _plat plat
"""

FISH = f"""\
function __plat_complete
    set -l words (commandline -opc)
    $words[1] {ASK} fish (commandline -cp | string collect) 2>/dev/null
end
complete -c plat -f -a '(__plat_complete)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def answers(shell: str, unfinished: str, quoted: bool, found: Candidates) -> list[str]:
    """Return the lines that a shell reads.

    unfinished  the word that is completed; bash replaces only what follows its last `=` or `:`, unless it is `quoted`
    """
    printable = {name: says for name, says in found.items() if name.isprintable()}
    if shell == "fish":
        return [f"{name}\t{says}" if says else name for name, says in printable.items()]
    if shell == "zsh":
        return [_of_zsh(name, says) for name, says in printable.items()]
    if quoted:
        return list(printable)
    start = max(unfinished.rfind("="), unfinished.rfind(":")) + 1
    return [re.sub(r"([^\w@%+=:,./~-])", r"\\\1", name[start:]) for name in printable]


def _of_zsh(name: str, says: str) -> str:
    """Return `open:` if more follows the name, else `closed:`, the name with its colons escaped, and its meaning."""
    state = "open" if name.endswith(("=", "/")) else "closed"
    return f"{state}:" + name.replace(":", "\\:") + (f":{says}" if says else "")
