"""Real questions: rows with `question` and `answer`, as in HotpotQA, from files or the hub."""

from __future__ import annotations

from functools import lru_cache

from plat_envs.data import Row, of_split, rows_of
from plat_envs.environment_errors import BadEnvironment
from plat_envs.instances import source_split, split_of
from plat_envs.searchqa.config import HOTPOTQA, SearchQAConfig
from plat_envs.searchqa.questions import Question

CONFIGURATION = "distractor"  # of HotpotQA: the other one has the same questions for training


def question_of_row(config: SearchQAConfig, split: str, seed: int) -> Question:
    """Return the question of a seed: seed 0 gives the first of the split, and so on; after the last, the first again.

    Raises BadEnvironment if the rows cannot be read, have no question or answer, or none is in the split.
    """
    pool = _pool(config, split)
    return pool[seed % len(pool)]


@lru_cache(maxsize=16)
def _pool(config: SearchQAConfig, split: str) -> list[Question]:
    """Return the questions of a split.

    With `validation_path`, validation and held-out questions are of that file; those of the hub are of the dataset's
    own part for validation.
    """
    wanted = source_split(split, config.shared_pool)
    if config.data == "file" and not config.validation_path:
        return of_split("searchqa", _questions(config, "train"), _text, split, config.shared_pool)
    if wanted in ("train", "base"):
        return _questions(config, "train")
    own = _questions(config, "validation")
    chosen = [question for question in own if _is_held_out(question) == (wanted == "heldout")]
    if not chosen:
        where = config.validation_path if config.data == "file" else f"hub:{config.dataset}"
        raise BadEnvironment(f"searchqa: no question for split {split!r}", where=where, fix="more rows")
    return chosen


def _is_held_out(question: Question) -> bool:
    return split_of(question.text) in ("validation", "heldout")  # a fifth


def _text(question: Question) -> str:
    return question.text


def _questions(config: SearchQAConfig, part: str) -> list[Question]:
    """Return the questions of a part, train or validation: a file, or a part of the dataset."""
    path = config.path if part == "train" else config.validation_path
    name = CONFIGURATION if config.dataset == HOTPOTQA else ""
    rows = rows_of(config.data, path, config.dataset, config.revision, name, part)
    where = path if config.data == "file" else f"hub:{config.dataset}"
    return [_question(row, where) for row in rows]


def _question(row: Row, where: str) -> Question:
    question, answer = row.get("question"), row.get("answer")
    if not isinstance(question, str) or not isinstance(answer, str) or not answer.strip():
        raise BadEnvironment(
            f"not a row of HotpotQA: {str(row)[:80]}", where=where, fix="columns question and answer, both texts"
        )
    return Question(" ".join(question.split()), answer)
