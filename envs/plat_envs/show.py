"""Show an environment: `python -m plat_envs.show sokoban --seed 3` (options as key=value).

In a rendering with pictures it writes them into a folder: `--rendering compact_image --pictures DIR`.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from plat_envs.api import (
    IMAGE,
    LEVELS,
    PICTURE_RENDERINGS,
    RENDERINGS,
    Demonstrates,
    Seen,
    make_environment,
)
from plat_envs.environment_errors import BadEnvironment
from plat_envs.instances import SPLITS, source_split

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Pictures:
    """A folder for the pictures of an episode, which are numbered in their order: 00.png, 01.png.

    The folder is made for the first one. Raises BadEnvironment if it cannot be made or has files already.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._count = 0

    def text_of(self, observation: Seen) -> str:
        """Return the text of an observation, after its pictures are written; their paths stand at their places."""
        if isinstance(observation, str):
            return observation
        first, *rest = observation.text.split(IMAGE)
        if len(rest) != len(observation.images):
            raise BadEnvironment(
                f"an observation has {len(rest)} places {IMAGE} for {len(observation.images)} pictures",
                fix="write one place for each picture",
            )
        parts = [first]
        for picture, after in zip(observation.images, rest, strict=True):
            parts += [str(self._write(picture)), after]
        return "".join(parts)

    def _write(self, picture: NDArray[np.uint8]) -> Path:
        from PIL import Image

        if self._count == 0:
            self._make()
        path = self.folder / f"{self._count:02}.png"
        try:
            Image.fromarray(picture).save(path)
        except (TypeError, ValueError, AttributeError) as error:  # what a plug-in calls a picture
            raise BadEnvironment(
                f"a picture cannot be written: {error}", fix="an array (height, width, 3) of uint8"
            ) from error
        self._count += 1
        return path

    def _make(self) -> None:
        fix = "--pictures DIR with a new folder"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if any(self.folder.iterdir()):
                raise BadEnvironment(f"{self.folder} has files already", fix=fix)
        except OSError as error:
            raise BadEnvironment(f"{self.folder} cannot be made: {error.strerror}", fix=fix) from error


def show(
    task: str, seed: int, split: str, rendering: str, options: dict[str, object], folder: Path | None = None
) -> str:
    """Return the first prompt as text, and where the task has demonstrations one of each level and an episode.

    folder   for the pictures of a rendering that has them; None: `pictures-of-TASK` in the working directory

    Raises BadEnvironment for a wrong task, option or rendering, and for a folder of pictures that has files already.
    """
    environment = make_environment(task, options, split, rendering)
    pictures = Pictures(folder or Path(f"pictures-of-{task}"))
    rng = random.Random(seed)
    prompt = pictures.text_of(environment.reset(seed))
    lines = [f"--- {task}: first prompt of ({split}, {seed})"]
    if environment.instructions:
        lines += [environment.instructions, ""]
    lines.append(prompt)
    if not isinstance(environment, Demonstrates):
        return "\n".join(lines)
    lines += ["", "--- demonstrations"]
    lines += [f"{level}: {environment.demonstrate(rng, level)}" for level in LEVELS]
    lines += ["", "--- an episode"]
    done = False
    while not done:
        response = environment.demonstrate(rng, "several_facts")
        observation, reward, done, info = environment.step(response)
        lines += [response, f"  reward {reward:g}, {json.dumps(info)}", pictures.text_of(observation)]
    return "\n".join(lines)


def read_option(text: str) -> tuple[str, object]:
    """Parse an option `name=value`; the value is JSON, or else text. Raises BadEnvironment if there is no `=`."""
    name, equals, value = text.partition("=")
    if not equals:
        raise BadEnvironment(f"{text!r} is no option", fix="write key=value, e.g. success_rate=1.0")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m plat_envs.show", description=__doc__)
    parser.add_argument("task")
    parser.add_argument("options", nargs="*", help="options of the environment, key=value")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--split", choices=SPLITS, default="train")
    parser.add_argument("--rendering", choices=RENDERINGS + PICTURE_RENDERINGS, default="compact")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="a new folder for pictures (pictures-of-TASK)")
    parser.add_argument("--check", action="store_true", help="check that no problem is in two splits")
    return answer(parser, _shown, arguments)


def _shown(given: argparse.Namespace) -> str:
    """Return what the arguments ask for. Raises BadEnvironment for a wrong task or option, and for a shared problem."""
    options = dict(read_option(text) for text in given.options)
    if given.pictures and given.rendering not in PICTURE_RENDERINGS:
        what = f"the rendering {given.rendering} has no pictures"
        raise BadEnvironment(what, fix="--rendering compact_image, or leave out --pictures")
    if not given.check:
        return show(given.task, given.seed, given.split, given.rendering, options, given.pictures)
    counts = ", ".join(
        f"{split} {count}" for split, count in check_splits(given.task, options, given.rendering).items()
    )
    return f"no problem is in two splits; different problems of {TRIED} seeds: {counts}"


def answer(
    parser: argparse.ArgumentParser, text_of: Callable[[argparse.Namespace], str], arguments: Sequence[str] | None
) -> int:
    """Print what the arguments of a command ask for, or what is wrong with them; return the exit code."""
    given = parser.parse_intermixed_args(arguments)
    try:
        print(text_of(given))
    except BadEnvironment as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


# Check that no problem of an environment is in two splits: `python -m plat_envs.show NAME --check`.

TRIED = 2000  # seeds of each split


def check_splits(task: str, options: Mapping[str, object], rendering: str, seeds: int = TRIED) -> dict[str, int]:
    """Return split -> number of its different problems among the first `seeds` seeds.

    Raises BadEnvironment, with two of their seeds, if a problem is in two splits. `base` and `train` are not compared,
    because they share the rows of real data. With the option `shared_pool`, validation is not compared with them.
    """
    first_seeds: dict[str, dict[str, int]] = {}  # split -> problem -> its first seed
    for split in SPLITS:
        with closing(make_environment(task, options, split, rendering)) as environment:
            problems = first_seeds.setdefault(split, {})
            for seed in range(seeds):
                environment.reset(seed)
                problems.setdefault(environment.problem, seed)
    shared_pool = bool(options.get("shared_pool"))
    for one, other in combinations(SPLITS, 2):
        both = first_seeds[one].keys() & first_seeds[other].keys()
        if not both or {one, source_split(other, shared_pool)} <= {"base", "train"}:
            continue
        example = min(both, key=lambda problem: first_seeds[one][problem])
        where = f"{one} seed {first_seeds[one][example]}, {other} seed {first_seeds[other][example]}"
        counted = f"{len(both)} of {len(first_seeds[other])} problems of {other} are in {one} too"
        raise BadEnvironment(
            f"{task}: {counted}", where=where, fix="let a hash of the problem decide its split (plat_envs.instances)"
        )
    return {split: len(problems) for split, problems in first_seeds.items()}


if __name__ == "__main__":
    sys.exit(main())
