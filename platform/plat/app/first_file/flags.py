"""Read the options of a script from its help text, as argparse, click, typer and tyro print it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from plat.spec.composition.pieces import OF_FILES
from plat.trainer.script.config import TO_FILL_IN, ScriptRunConfig

DEEPEST = 10  # columns: a line that is indented further belongs to the help of the option above it
NOT_OF_A_RUN = ("help", "version", "install-completion", "show-completion")
NO_DEFAULT = ("", "None", "null", "==SUPPRESS==")

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_BOX = re.compile("[│┃|](?=\\s*$)|^\\s*[│┃|]")
_RULE = re.compile("\\s*[─━╭╰╮╯┌└┐┘]")
_ENTRY = re.compile(r"(\s*)(?:\*\s+)?(-{1,2}[A-Za-z].*)")  # typer marks a required option with an asterisk
_NAME = re.compile(r"(?:(?<=[\s,/])|^)(--?)([A-Za-z][\w.:-]*)")
_CHOICES = re.compile(r"\{([^{}]*)\}|\[([^\[\]]*\|[^\[\]]*)\]")
_TYPE = re.compile(
    r"(INTEGER|FLOAT|TEXT|PATH|FILE|FILENAME|UUID|BOOLEAN|DIRECTORY)( RANGE)?|\[[^\[\]]*\|[^\[\]]*\]|<.*>"
)
_DEFAULT = re.compile(r"[(\[](?:[^()\[\]]*?[,;] )?default: ?")
_REQUIRED = re.compile(r"[(\[;,] ?required[)\]]")


@dataclass(frozen=True)
class Flag:
    """An option of a script.

    name      without dashes, as the script spells it: `batch-size`; of Hydra the key: `optim.lr`
    opening   what stands before its value in the command: `--batch-size `, `optim.lr=`, "" for its place alone
    default   its value as text; None if it is unknown
    choices   its valid values, () for any
    says      its help text
    is_switch     it takes no value: `--verbose`
    negation      of a switch, its option that switches off: `--no-verbose`
    has_several   it takes several values: `--sizes 1 2 3`
    is_required   the script refuses to start without it
    spellings     all its names, with dashes: `-b`, `--batch-size`
    """

    name: str
    opening: str
    default: str | None = None
    choices: tuple[str, ...] = ()
    says: str = ""
    is_switch: bool = False
    negation: str = ""
    has_several: bool = False
    is_required: bool = False
    spellings: tuple[str, ...] = field(default=(), compare=False)


def flags_of_help(text: str) -> list[Flag]:
    """Return the arguments without a name and the long options of a help text, without `--help` and the like."""
    lines = [_COLOUR.sub("", line).expandtabs() for line in text.splitlines()]
    usage = _usage(lines)
    found = {name: Flag(name, "", is_required=True) for name in _positional(lines, usage)}
    for head, says in _entries(lines):
        flag = _flag(head, says, usage)
        if flag is not None and flag.name not in NOT_OF_A_RUN:
            found.setdefault(flag.name, flag)
    for name in [name for name in found if name[:3] in ("no-", "no_")]:  # a negation that is an option of its own
        switch = found.get(name[3:])
        if switch and switch.is_switch and not switch.negation and found[name].is_switch:
            found[switch.name] = replace(switch, negation=found.pop(name).opening.strip())
    return list(found.values())


def _usage(lines: list[str]) -> str:
    """Return the part of a help text that argparse begins with `usage:`, on one line; "" without one."""
    usage: list[str] = []
    for line in lines:
        if usage and not line.strip():
            break
        if usage or line.lower().lstrip().startswith("usage:"):
            usage.append(line)
    return " ".join(usage)


def _positional(lines: list[str], usage: str) -> list[str]:
    """Return the names of required arguments without dashes, as argparse lists them or click's usage ends with them."""
    names = re.findall(r"(?<= )[A-Z][A-Z_]*(?= |$)", usage.partition("[OPTIONS]")[2])
    begin = next((at for at, line in enumerate(lines) if line.strip() == "positional arguments:"), len(lines))
    for line in lines[begin + 1 :]:
        if not line.strip():
            break
        entry = re.match(r"  ([A-Za-z_]\w*)(  |$)", line)
        names += [entry[1]] if entry and f"[{entry[1]}" not in usage else []
    return [name.lower() if name.isupper() else name for name in names]


def _entries(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield (names and metavar, help text) of every option."""
    head, says, indent = "", [""], 0
    for line in [*(_BOX.sub(" ", line) for line in lines), "end"]:
        entry = _ENTRY.fullmatch(line.rstrip())
        is_entry = entry is not None and len(entry[1]) <= DEEPEST
        depth = len(line) - len(line.lstrip())
        if head and (is_entry or _RULE.match(line) or (line.strip() and depth <= indent)):
            yield head, " ".join(filter(None, says))
            head = ""
        if is_entry and entry is not None:
            indent = len(entry[1])
            head, *says = _columns(entry[2])
        elif head:
            says.append(" ".join(line.split()))


def _columns(line: str) -> list[str]:
    """Return the names with the metavar, and the help text; typer puts each name and the metavar in a column."""
    head, *rest = re.split(r"\s{2,}", line)
    while rest and (_NAME.match(rest[0]) or (_TYPE.fullmatch(rest[0]) and _without_names(head) == "")):
        head = f"{head} {rest.pop(0)}"
    return [head, " ".join(rest)]


def _without_names(head: str) -> str:
    return _NAME.split(head)[-1].strip(" =,/")


def _flag(head: str, says: str, usage: str) -> Flag | None:
    """Return the option of an entry, None if it has no long name."""
    listed = _CHOICES.search(head)
    names = [dashes + name for dashes, name in _NAME.findall(_CHOICES.sub("", head))]
    name = next((name for name in names if name.startswith("--")), None)
    if name is None:
        return None
    metavar = _without_names(head[: listed.start()] if listed else head)
    default, says = _default(says)
    is_switch = not listed and not metavar
    negations = (f"--no-{name[2:]}", f"--no_{name[2:]}", f"--no{name[2:]}")
    return Flag(
        name=name[2:],
        opening=f"{name} ",
        default=None if default in NO_DEFAULT else default,
        choices=tuple(re.split(r"[,|]\s*", listed[1] or listed[2])) if listed else (),
        says=_REQUIRED.sub("", says).strip(" *"),
        is_switch=is_switch,
        negation=next((other for other in names if is_switch and other in negations), ""),
        has_several="..." in head or len(metavar.replace(" RANGE", "").split()) > 1,
        is_required=bool(_REQUIRED.search(says)) or any(_is_bare(name, usage) for name in names),
        spellings=tuple(names),
    )


def _is_bare(name: str, usage: str) -> bool:
    """Return True if the usage has an option without brackets and not as one of alternatives."""
    return re.search(rf"(?<![\[(|])(?<!\| ) {re.escape(name)} (?!\|)", usage) is not None


def _default(says: str) -> tuple[str | None, str]:
    """Return the default that a help text names in brackets, None without one, and the text without these brackets."""
    begin = _DEFAULT.search(says)
    if begin is None:
        return None, says
    depth, end = 1, begin.end()
    while end < len(says) and depth:
        depth += (says[end] in "([") - (says[end] in ")]")
        end += 1
    inside = says[begin.end() : end - 1 if not depth else end]
    default = inside.split("; ")[0].strip()  # click appends the limits: `[default: 3; x>=1]`
    if len(default) > 1 and default[0] == default[-1] and default[0] in "'\"":
        default = default[1:-1]
    return default, f"{says[: begin.start()].strip()} {says[end:].strip()}".strip()


# Name the placeholder of each option, and sort the options into those of the command and the others.

# The first part of a name that plat itself understands.
TAKEN = {*OF_FILES, "plat", *(field.name for field in dataclasses.fields(ScriptRunConfig))}
FOLDER, CHECKPOINTS = "plat.run_dir", "plat.checkpoint_dir"
_TRUE = ("True", "true")
SEEDS = ("seed", "random_seed", "rng_seed")
_FOLDER = re.compile(r"(out|output|outputs|save|log|logs|logging|result|results|work|run|experiment)_?(dir|folder)")
_CHECKPOINTS = re.compile(r"(checkpoint|checkpoints|ckpt|ckpts)_?(dir|folder)")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


@dataclass(frozen=True)
class Placed:
    """An option in the command. `placeholder` is the name in braces; `in_base`: its value stands in the file."""

    flag: Flag
    placeholder: str
    in_base: bool = True

    @property
    def value(self) -> str:
        """Its default as text, the first choice or TO_FILL_IN of a required option without one; of a switch a bool."""
        if self.flag.is_switch:
            return "true" if self.flag.default in (*_TRUE, self.flag.name) else "false"
        return self.flag.default if self.flag.default is not None else (*self.flag.choices, TO_FILL_IN)[0]

    @property
    def word(self) -> str:
        """What the command has for it."""
        if not self.flag.is_switch:
            return f"{self.flag.opening}{{{self.placeholder}}}"
        off = f" {{!{self.placeholder}?{self.flag.negation}}}" if self.flag.negation else ""
        return f"{{{self.placeholder}?{self.flag.opening.strip()}}}{off}"

    @property
    def is_number(self) -> bool:
        return _NUMBER.fullmatch(self.value) is not None

    @property
    def must_be_filled_in(self) -> bool:
        return self.in_base and self.flag.default is None and not self.flag.is_switch


def placed(flags: Iterable[Flag]) -> tuple[list[Placed], list[Flag]]:
    """Return the options that the command passes, and those that it does not.

    It passes every option with a default or a value that plat knows: the seed, and the folders of a run. It also passes
    the required ones.
    """
    used: list[Placed] = []
    left: list[Flag] = []
    for flag in flags:
        name = re.sub(r"[^\w.]", "_", flag.name).strip(".")
        last = name.rpartition(".")[2].lower()
        own = "" if flag.is_switch else _own_placeholder(last)
        if own == "seed" and any(other.placeholder == own for other in used):
            own = ""
        new = Placed(flag, own or _free(name, {other.placeholder for other in used}), in_base=not own)
        # without its default, a switch with a negation has a value that no one knows
        is_known = flag.default is not None or flag.is_required or own or (flag.is_switch and not flag.negation)
        if is_known and not flag.has_several and can_be_written(new.value):
            used.append(new)
        else:
            left.append(flag)
    return used, left


def _own_placeholder(name: str) -> str:
    """Return the placeholder that plat itself fills in for an option of this name, "" for none."""
    if name in SEEDS:
        return "seed"
    return CHECKPOINTS if _CHECKPOINTS.fullmatch(name) else FOLDER if _FOLDER.fullmatch(name) else ""


def can_be_written(value: str) -> bool:
    """Return False for a value that a file or a command cannot spell simply.

    These are interpolations, very long texts, and texts that a parser would take for an option.
    """
    is_option = value.startswith("-") and not _NUMBER.fullmatch(value)
    return not is_option and "${" not in value and value.isprintable() and len(value) <= 200


def _free(name: str, used: set[str]) -> str:
    """Return the name, changed until no other key contains it: `a` and `a.b` cannot both be keys."""
    top, dot, rest = name.partition(".")
    while top in TAKEN or not re.match(r"[A-Za-z_]", top) or any(_clash(f"{top}{dot}{rest}", one) for one in used):
        top += "_"
    return f"{top}{dot}{rest}"


def _clash(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")
