"""Problems of DeepCoder-Preview from a file or the hub."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from plat_envs.data import of_split
from plat_envs.environment_errors import BadEnvironment
from plat_envs.programs.config import DeepCoderConfig
from plat_envs.programs.problem import Problem
from plat_envs.programs.published_tests import function_and_tests
from plat_envs.programs.rows import Listed, Rows, file_rows
from plat_envs.sandbox.program import unfence

LARGEST_COUNTED = 64 << 20  # bytes of a file whose problems are counted before its runs start


@lru_cache(maxsize=512)
def published_problem(config: DeepCoderConfig, split: str, seed: int) -> Problem:
    """Return the problem of a seed: seed 0 gives the first of the split, and so on; after the last, the first again.

    Raises BadEnvironment if the rows cannot be read, a row has no tests, or none is in the split.
    """
    pool = _pool(config, split)
    number = pool[seed % len(pool)]
    rows = _rows(config)
    where = f"{config.path or config.dataset}: row {number}"
    return problem_of_row(rows.row(number), rows.keys[number], config.tests, where)


def problem_of_row(row: dict[str, Any], key: str, which: str, where: str) -> Problem:
    """Return the problem of a row; `which` is the option `tests`. Raises BadEnvironment for a bad row."""
    function, tests = function_and_tests(row, which, where)
    solutions = row.get("solutions") or []
    reference = solutions[0] if isinstance(solutions, list) else solutions
    kind = (
        f"Write the function `{function}`." if function else "Write a program that reads stdin and prints the answer."
    )
    starter = str(row.get("starter_code") or "").strip()
    return Problem(
        key=key,
        statement="\n\n".join(filter(None, [str(row["problem"]).strip(), kind, starter])),
        function=function,
        example=None,
        hidden=tuple(tests),
        reference=unfence(str(reference)),
        given="the arguments of a function" if function else "the text of stdin",
        gives="its value" if function else "a printed text",
    )


@lru_cache(maxsize=16)
def _pool(config: DeepCoderConfig, split: str) -> list[int]:
    """Return the numbers of the rows of a split, which the hash of a problem decides."""
    shared = config.shared_pool or config.split == "released"
    numbered = list(enumerate(_rows(config).keys))
    return [number for number, _ in of_split("deepcoder", numbered, lambda item: item[1], split, shared)]


def _rows(config: DeepCoderConfig) -> Rows:
    if config.data == "file":
        return file_rows(config.path)
    return _hub_rows(config.dataset, config.subsets, config.revision)


@lru_cache(maxsize=2)
def _hub_rows(dataset: str, subsets: str, revision: str) -> Rows:
    """Return the training rows of parts of a dataset on the hub. Raises BadEnvironment if they cannot be loaded."""
    try:
        from datasets import concatenate_datasets, load_dataset
    except ImportError:
        fix = "pip install 'plat[hub]', or use data: file with path"
        raise BadEnvironment("data: hub needs a package that is not installed: datasets", fix=fix) from None
    try:
        parts = [load_dataset(dataset, name, split="train", revision=revision or None) for name in subsets.split(",")]
        wanted = ("problem", "tests", "solutions", "starter_code", "metadata")
        parts = [part.select_columns([name for name in wanted if name in part.column_names]) for part in parts]
        rows = parts[0] if len(parts) == 1 else concatenate_datasets(parts)
        return Listed(rows, list(rows["problem"]), f"hub:{dataset}")
    except BadEnvironment:
        raise
    except Exception as error:  # network, cache and dataset raise errors of many classes
        fix = "download it once where there is a network (HF_HOME), or use data: file with path"
        what = f"cannot load the dataset: {type(error).__name__}: {error}"
        raise BadEnvironment(what, where=f"hub:{dataset}", fix=fix) from None


def is_countable(config: DeepCoderConfig) -> bool:
    """Return True if planning can count the problems: they are generated, or in a file that is quickly read."""
    if config.data != "file":
        return config.data == "generated"
    path = Path(config.path)
    return not path.is_file() or path.stat().st_size <= LARGEST_COUNTED
