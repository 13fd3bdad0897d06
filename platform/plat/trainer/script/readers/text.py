"""Read the lines that people print: `step 100: train loss 1.234, val loss 1.3`, `epoch 3 | acc 0.91`, bars, dicts.

A line counts if it has a step, or if it follows a line that has nothing else, such as `Epoch 3/10`. A line that is only
`val_bpb: 0.9979` counts at the newest step, or is counted if no line has a step and it names no argument such as the
seed. Names get underscores for blanks.
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Iterator
from typing import Any

from plat.trainer.script.readers.objects import (
    LONGEST_MESSAGE,
    STEPS,
    Logged,
    Look,
    Objects,
    Refuse,
    objects_in,
    step_names,
)

WORDS = (*STEPS, "iter", "episode", "update", "round")  # what counts steps in a text
LONGEST = 4096  # characters of a line
NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|NaN|inf|Inf|Infinity)"
UNIT = r"\s?(?:%|(?:ms|us|s|sec|seconds|min|h|it/s|s/it|[KMG]i?B|tok(?:ens)?/s|m?s/step)\b)"
WORD = r"(?!(?:nan|NaN|inf|Inf|Infinity)\b)[A-Za-z_][\w./@^()-]*"
PAIR = re.compile(rf"({WORD}(?: +{WORD}){{0,3}}?)(?:\s*[:=]\s*|\s+)({NUMBER})(?:{UNIT})?(?=$|\s)")
SERIES = re.compile(rf"(?:{PAIR.pattern}\s*)+")
ALONE = re.compile(rf"\s*({WORD})\s*[:=]\s*({NUMBER})\s*")
OF = re.compile(rf"(?i)\b({'|'.join(WORDS)})(\s*[:=#]?\s*)[\[(]?\s*(\d+)\s*/\s*\d+\s*[\])]?")  # `Epoch [3/10]`
TITLE = re.compile(r"^\W*(?P<word>[A-Za-z_]+)\s*[:#=]?\s*[\[(]?\s*(?P<step>\d+)\s*(?:(?:/|of)\s*\d+)?\s*[\])]?\W*$")
COLOURS = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))|.?\x08")
STAMP = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ,]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?|\b\d\d:\d\d:\d\d(?:[.,]\d+)?"
)
LEVEL = re.compile(r"\b(?:DEBUG|INFO|WARNING|ERROR)\b(?::[\w.]+(?=:))?:?")  # `INFO`, `INFO:root:`
BETWEEN = re.compile(
    r"[|;\t\[\]{}<>]|(?<!\d),|,(?!\d)|\s-\s|:\s+(?!(?:nan|NaN|inf|Inf|Infinity)\b)(?=[A-Za-z])|(?<=\s)[()]|[()](?=\s|$)"
)
AFTER_NUMBER = re.compile(r"(?<![\w.])([\d.]+)\s*:\s")  # `epoch 3: loss 0.5`, and not `f1: 0.5`
METRIC = re.compile(rf"(?i)(?<![a-z])(loss|acc(uracy)?|score|reward|return|perplexity|bleu|f1)(\s*[:=]\s*|\s+){NUMBER}")
BARE = re.compile(r"(?<![\w'\"])([-+]?)(nan|NaN|inf|Infinity)(?![\w'\"])")
WRAPPED = re.compile(r"\b(?:np|numpy|torch)?\.?(?:float|int|bfloat|uint)\d*\(([^()]*)\)|\btensor\(([^(),]*)[^()]*\)")


ROW = re.compile(rf"\|(\s*)({WORD})\s*\|\s*({NUMBER})?\s*\|")  # of a table of Stable-Baselines3 or Spinning Up
BAR = re.compile(r"\s*(\d+)/(\d+)\s")  # of Keras
DASHED = re.compile(
    r"^(?:\([^()]*\)\s*)?step:(\d+) - (?=\S+?:)"
)  # `step:3 - actor/entropy:0.5 - val/acc:np.float64(0.7) - ...`
PAIR_OF_DASHED = re.compile(rf"(.+?):\s*(?:np\.\w+\(|tensor\()?({NUMBER})")
ROUND = re.compile(r"^\[(\d+)\](?=\s)")  # of XGBoost and LightGBM
ARGUMENT = re.compile(r"(?i)(^|_)(seed|epochs|batch_size|lr|learning_rate|rank|world_size|port|pid|workers|version)$")


def plain(line: str) -> str:
    """Return a line without colours and the like."""
    return COLOURS.sub("", line.rstrip("\x08")) if "\x1b" in line or "\x08" in line else line


class Text:
    """The metrics in lines of text. `step`: the word that counts steps; "": the first of WORDS that a line has."""

    def __init__(self, step: str, refuse: Refuse, first: int = 1) -> None:
        self._words, self._refuse = step_names(step) if step else WORDS, refuse
        self._left_out = self._early = ""  # the first line with a metric and no step; one that waits for lines with it
        self._dicts = Objects(step, refuse, "the output", first=first, fraction=True)
        self._alone = Objects("\n", refuse, "the output", first=first)  # lines without a step, until there is one
        self._newest: tuple[str, int] | None = None
        self._title: tuple[str, int] | None = None
        self._group, self._rows = "", list[str]()  # of a table
        self._is_cut = False  # a line that was too long was said
        self._bars: tuple[tuple[str, int] | None, str] = None, ""  # the title, and how many steps its bars have

    def read(self, line: str, at: float | None = None, look: Look = "first") -> Iterator[Logged]:
        """Yield the metrics of a line without its end. `look`: "changed" for a piece of a progress bar."""
        whole = plain(line)
        if "step" in self._words and (dashed := DASHED.search(whole)):
            yield Logged(int(dashed[1]), _dashed(whole[dashed.end() :]), at or time.time(), "step", look)
            self._newest = "step", int(dashed[1])
            return
        if len(whole) > LONGEST and not self._is_cut and METRIC.search(whole, LONGEST):
            self._is_cut = True
            what = f"a line of {len(whole):,} characters is read up to {LONGEST:,}: {whole[:LONGEST_MESSAGE]!r}"
            self._refuse(what, "the output", "print shorter lines, or JSON with script.metrics")
        text = whole[:LONGEST]
        if "{" in text and (found_dicts := _dicts(text)):
            for values in found_dicts:
                if self._newest is not None and not self._dicts.has_step(values):
                    self._left_out = self._left_out or text  # the result of an evaluation
                else:
                    yield from self._dicts.of_values(values, at)
            return
        if row := ROW.fullmatch(text):
            is_step, self._group = row[2] in ("total_timesteps", self._words[0]), self._group if row[3] else row[2]
            name = self._words[0] if is_step else (self._group if len(row[1]) > 1 else "") + row[2]
            self._rows += [f"{name}={row[3]}"] if row[3] else []
            return
        if self._rows and not text.strip("- "):
            text, self._rows = "; ".join(self._rows), []
        text = ROUND.sub(r"iteration \1;", LEVEL.sub(" ", STAMP.sub(" ", text)).strip()).replace("'s ", "_")
        if (title := TITLE.match(text)) and (word := self._word(title["word"])):
            self._title = self._newest = word, int(title["step"])
            return
        if self._title and (bar := BAR.match(text)):
            if self._bars[0] != self._title:
                self._bars = self._title, bar[2]
            if self._bars[1] != bar[2]:  # of an evaluation after the training
                self._left_out = self._left_out or text
                return
        found: dict[str, float] = {}
        for name, value in pairs(text):
            found[name] = found.get(name, value) if self._word(name) else value  # of several steps the first
        exact = {name.lower(): name for name in reversed(found) if name.lower() in self._words}
        steps = exact or {word: name for name in reversed(found) if (word := self._word(name))}
        word = next((word for word in self._words if word in steps), "")
        if word and float(found[steps[word]]).is_integer() and found[steps[word]] >= 0:
            self._newest = word, int(found.pop(steps[word]))
            counted = self._newest
        elif self._title and found:
            counted = self._title
        elif not ALONE.fullmatch(text) or not found:
            self._left_out = self._left_out or (text if METRIC.search(text) else "")
            return
        elif self._newest is None:
            self._early = self._early or (text if METRIC.search(text) else "")
            yield from self._alone.of_values({name: found[name] for name in found if not ARGUMENT.search(name)}, at)
            return
        else:
            counted = self._newest
        if found:
            yield Logged(counted[1], found, at or time.time(), counted[0], look)

    def end(self) -> Iterator[Logged]:
        """Yield what waited for a line with a step, if there was none."""
        yield from self._dicts.end(others_have_steps=self._newest is not None)
        if self._newest is None:
            yield from self._alone.end()
        if line := self._left_out or (self._early if self._newest else ""):
            what = f"a line with a metric has no step and is left out: {line[:LONGEST_MESSAGE]!r}"
            self._refuse(what, "the output", "print the step in each such line, or use script.patterns")

    def _word(self, name: str) -> str:
        """Return the word of a name that counts steps, such as `epoch` of `Train_Epoch`, "" without one."""
        low = name.lower()
        return low if low in self._words else next((word for word in self._words if low.endswith(f"_{word}")), "")


def pairs(text: str) -> Iterator[tuple[str, float]]:
    """Yield the names and numbers of a line; parts of it that are no pairs of these are left out."""
    for piece in BETWEEN.split(AFTER_NUMBER.sub(r"\1;", OF.sub(r"\1\2\3", text))):
        part = piece.strip().strip(".*#=- ")
        if SERIES.fullmatch(part) and not part.startswith("ETA:"):  # of Keras
            for name, number in PAIR.findall(part):
                yield re.sub(r"\s+", "_", name), float(number.replace(",", ""))


def _dashed(text: str) -> dict[str, float]:
    """Return the pairs of a line of verl's console logger; a progress bar may follow the last one at once."""
    found = filter(None, map(PAIR_OF_DASHED.match, text.split(" - ")))
    return {match[1].strip(): float(match[2].replace(",", "")) for match in found}


def _dicts(text: str) -> list[dict[str, Any]]:
    """Return the dict of Python, or those of JSON, in a line."""
    body = WRAPPED.sub(lambda match: match[1] or match[2] or "", text[text.index("{") : text.rfind("}") + 1])
    if found := objects_in(body):
        return found
    try:
        value = ast.literal_eval(BARE.sub(r"'\1\2'", body))
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return []
    return [value] if isinstance(value, dict) else []
