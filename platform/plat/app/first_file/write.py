"""Write the text of a first experiment file, with a comment beside each value."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence

from plat.app.first_file.asking import as_written, passes_seed
from plat.app.first_file.flags import FOLDER, Flag, Placed, can_be_written
from plat.app.first_file.user_script import UserScript
from plat.characters import is_too_large
from plat.spec.reading.yaml_scalar import scalar
from plat.trainer.script.trial import Trial

WIDE = 110  # characters: a longer command gets a line for each option
LONGEST = 150  # characters of a comment
_SIMPLE = re.compile(r"[A-Za-z_/.][\w/.+-]*( [\w/.+][\w/.+-]*)*")  # a text that needs no quotes in YAML
_LIKELY = re.compile(r"(.*[._])?(lr|learning_rate|batch_size|alpha|beta|gamma|temperature|dropout|weight_decay)")

_HEADLINES = [
    re.compile(pattern)
    for pattern in ("(val|eval|test).*loss", "(val|eval|test).*(acc|score|return|reward)", "loss", "acc|return|reward")
]


def file_text(
    script: UserScript,
    folder: str,
    used: list[Placed],
    left: list[Flag],
    python: str = "",
    trial: Trial | None = None,
) -> str:
    """Return an experiment file for a script.

    folder  the script's folder as the file names it, "" if it is the file's own folder
    python  the Python that runs it, "" for that of plat
    used, left  the options that the command passes, and the others (`placeholders.placed`)
    trial   what reads the script's metrics, None if that is unknown
    """
    name = _comment(script.path.name)
    lines = [
        "# A first experiment file, to be changed. Lines that begin with # do nothing.",
        f"title: {_text(f'Runs of {script.path.name}')}",
        "base:",
        "  trainer: script",
        *_command(script, used),
        *([f"  script.folder: {_text(folder)}  # the command runs here"] if folder else []),
        *([f"  script.python: {_text(python)}"] if python else []),
        *(_metrics_read(trial) if trial else _metrics(script)),
        *_values(used),
        *_others(left),
    ]
    if not (used or left):
        lines += [
            f"  # No options of {name} are known. Write a placeholder where a value belongs, and its value here:",
            "  #   script.command: "
            + _comment(" ".join(map(as_written, script.words)))
            + " --lr {lr}"
            + ("" if passes_seed(script.given) else " --seed {seed}"),
            "  #   lr: 0.01",
        ]
    return "\n".join([*lines, *_matrix(used, script), *_claim(used, headline(trial.names) if trial else "loss"), ""])


def _command(script: UserScript, used: list[Placed]) -> Iterator[str]:
    """Yield the command, on several lines if it is long. The names of the script are quoted as for a shell."""
    first = " ".join(map(as_written, script.words))
    options = [one.word for one in used]
    if script.is_hydra and not any(word.startswith("hydra.run.dir=") for word in script.given):
        options.append("hydra.run.dir={plat.run_dir}")
    whole = " ".join([first, *options])
    if not first.isascii() or not re.fullmatch(r"[\w./={} -]+", first) or re.search(r":( |$)| #", whole):
        yield f"  script.command: {json.dumps(whole, ensure_ascii=False)}"
    elif len(whole) <= WIDE:
        yield f"  script.command: {whole}"
    else:
        yield "  script.command: >-"
        yield from (f"    {part}" for part in [first, *options])


def _metrics(script: UserScript) -> Iterator[str]:
    if script.writes_events:
        yield "  # Read TensorBoard's event files, which the script must write below the folder in PLAT_RUN_DIR:"
        yield "  # script.metrics: tensorboard"


def _metrics_read(trial: Trial) -> Iterator[str]:
    reads = _comment(f"reads {', '.join(trial.names)}")
    yield f"  script.metrics: {_text(trial.metrics)}  # {reads}" if trial.metrics else f"  # plat {reads}"
    if trial.own_folder:
        yield "  script.own_folder: true  # each run writes into a folder of its own"


def headline(names: Sequence[str]) -> str:
    """Return the metric that most likely says how well a run did: a loss of validation before one of training."""
    found = (name for pattern in _HEADLINES for name in names if pattern.search(name.lower()))
    return next(found, names[0] if names else "loss")


def _values(used: list[Placed]) -> Iterator[str]:
    """Yield a line for the value of each option that the command passes."""
    for one in used:
        notes = _notes(one.flag)
        if one.in_base:
            filled = ["required: write its value here"] if one.must_be_filled_in else []
            end = "; ".join([*filled, *notes])
            yield f"  {one.placeholder}: {_value(one)}" + (f"  # {_comment(end)}" if end else "")
        elif one.placeholder != "seed":
            meaning = "a folder of the run" if one.placeholder == FOLDER else "a folder that a resumed run gets back"
            own = f", in place of {one.flag.default}" if one.flag.default else ""
            yield f"  # {_comment(f'{one.flag.opening.strip()}: plat passes {meaning}{own}')}"


def _others(left: list[Flag]) -> Iterator[str]:
    """Yield comments on the options that the command does not pass."""
    if left:
        yield "  # The command does not pass these. Add one to the command with a placeholder, and its value here."
    for flag in left:
        several = f"takes several values: {flag.opening}{{name...}}, and a list as the value of name"
        kind = ["takes no value"] if flag.is_switch else [several] if flag.has_several else []
        end = "; ".join([*_notes(flag), *kind])
        yield f"  # {_comment(flag.opening.strip(' =') + (f': {end}' if end else ''))}"


def _notes(flag: Flag) -> list[str]:
    return [*([flag.says] if flag.says else []), *([f"one of: {', '.join(flag.choices)}"] if flag.choices else [])]


def _matrix(used: list[Placed], script: UserScript) -> Iterator[str]:
    axis = _example(used)
    has_seed = any(one.placeholder == "seed" for one in used) or passes_seed(script.given)
    yield "matrix:  # every combination of these values is a run"
    if has_seed:
        yield "  seed: range(5)  # a verdict needs five"
    else:
        yield "  # seed: range(5)  # plat passes it in the environment, as PLAT_SEED: the script must read it"
    if axis:
        yield f"  # {axis[0]}: [{', '.join(axis[1])}]  # then remove {axis[0]} from base"
    else:
        yield "  # lr: [0.01, 0.001]  # the command must have {lr}"


def _example(used: list[Placed]) -> tuple[str, list[str]] | None:
    """Return an axis to begin with, and its values: a likely hyperparameter, else a number, else a choice."""
    numbers = [one for one in used if one.in_base and one.is_number and not one.flag.choices]
    likely = [one for one in numbers if _LIKELY.fullmatch(one.placeholder)]
    for one in [*likely, *numbers]:
        value = scalar(one.value)
        other = value * 2 if isinstance(value, int) else value / 10
        if value != other and math.isfinite(other):
            return one.placeholder, [_value(one), json.dumps(other)]
    for one in used:
        if one.in_base and len(one.flag.choices) > 1 and all(map(can_be_written, one.flag.choices)):
            return one.placeholder, [_text(choice, of_number=True) for choice in one.flag.choices]
    return None


def _claim(used: list[Placed], metric: str) -> Iterator[str]:
    axis = _example(used)
    what = f"The second {axis[0]}" if axis else "The second value"
    yield "# What you expect, which plat judges from five seeds on:"
    yield "# claims:"
    yield "#   - id: second-is-higher"
    yield f"#     says: {what} ends with a higher {metric} than the first."
    yield "#     check: mean_delta_positive"
    yield f"#     measure: {{metric: {_text(metric)}}}"
    yield "#     smallest: 0.1  # the smallest difference of interest"


def _value(one: Placed) -> str:
    return _text(one.value, of_number=True)


def _text(text: str, of_number: bool = False) -> str:
    """Return YAML that is read as this text, in quotes where it would be read as something else.

    With `of_number`, a number and `true` stay without quotes, so that they can be varied. A number that a command would
    get in another spelling, such as 3.10, is quoted.
    """
    try:
        value = scalar(text)
    except ValueError:  # thousands of digits
        value = text
    if of_number and isinstance(value, bool):
        return text if text == json.dumps(value) else json.dumps(text)  # a command gets `true` for a true value
    if of_number and isinstance(value, int | float) and math.isfinite(value) and not is_too_large(int(value)):
        # the command would get 3.1 for 3.10, and 1200000.0 for the hash 12e5; 1e-3 can be no other text than a number
        is_kept = json.dumps(value) == text or re.fullmatch(r"-?[1-9](\.[0-9]+)?e-[0-9]+", text.lower())
        return text if is_kept else json.dumps(text)
    if isinstance(value, str) and _SIMPLE.fullmatch(text):
        return text
    return json.dumps(text, ensure_ascii=False)


def _comment(text: str) -> str:
    """Return a text on one line, shortened."""
    line = "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
