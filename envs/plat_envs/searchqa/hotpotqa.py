"""Real questions: rows with `question` and `answer`, as in HotpotQA, from files or the hub."""

from __future__ import annotations

from functools import lru_cache

from plat_envs.data import Row, of_split, rows_of
from plat_envs.environment_errors import BadEnvironment
from plat_envs.instances import source_split, split_of
from plat_envs.searchqa.config import SearchQAConfig
from plat_envs.searchqa.questions import Question


def question_of_row(config: SearchQAConfig, split: str, seed: int) -> Question:
    """Return the question of a seed: seed 0 gives the first of the split, and so on; after the last, the first again.

    Raises BadEnvironment if the rows cannot be read, have no question or answer, or none is in the split.
    """
    pool = _pool(config, split)
    return pool[seed % len(pool)]


@lru_cache(maxsize=16)
def _pool(config: SearchQAConfig, split: str) -> list[Question]:
    """Return the questions of a split. With `validation_path`, validation and held-out questions are of that file."""
    wanted = source_split(split, config.shared_pool)
    if not config.validation_path or config.data == "hub":
        return of_split("searchqa", _questions(config, config.path), _text, split, config.shared_pool)
    if wanted in ("train", "base"):
        return _questions(config, config.path)
    held_out = [question for question in _questions(config, config.validation_path) if _is_held_out(question)]
    others = [question for question in _questions(config, config.validation_path) if not _is_held_out(question)]
    chosen = held_out if wanted == "heldout" else others
    if not chosen:
        raise BadEnvironment(
            f"searchqa: no question for split {split!r}", where=config.validation_path, fix="more rows"
        )
    return chosen


def _is_held_out(question: Question) -> bool:
    return split_of(question.text) in ("validation", "heldout")  # a fifth


def _text(question: Question) -> str:
    return question.text


def _questions(config: SearchQAConfig, path: str) -> list[Question]:
    rows = rows_of(config.data, path, config.dataset, config.revision)
    return [_question(row, path or config.dataset) for row in rows]


def _question(row: Row, where: str) -> Question:
    question, answer = row.get("question"), row.get("answer")
    if not isinstance(question, str) or not isinstance(answer, str) or not answer.strip():
        raise BadEnvironment(
            f"not a row of HotpotQA: {str(row)[:80]}", where=where, fix="columns question and answer, both texts"
        )
    return Question(" ".join(question.split()), answer)
