"""Make and score items of reasoning-gym: a JSON request on each line of stdin, its answer on a line of stdout.

{"do": "make", "dataset": "chain_sum", "options": "", "number": 5}   ->  {"value": "What is 3 + 4?"}
{"do": "score", ..., "answer": "7"}                                  ->  {"value": 1.0}
a dataset that is not there                                          ->  {"kind": "dataset", "what": ..., "known": []}
wrong options                                                        ->  {"kind": "options", "what": ..., "fix": ...}
"""

from __future__ import annotations

import json
import os
import random
import sys
from functools import lru_cache
from typing import Any

from plat_envs.doors.dataset_options import problem_of, refusal


@lru_cache(maxsize=256)
def item(name: str, options: str, number: int) -> tuple[Any, dict[str, Any]]:
    """Return a dataset of one item whose seed is this number, and the item. Raises the package's errors.

    What it draws from Python's own generator is a function of the number too.
    """
    import reasoning_gym

    random.seed(f"{name}/{number}")
    # One item: some datasets draw all their items when they are made.
    dataset = reasoning_gym.create_dataset(name, seed=number, size=1, **json.loads(options or "{}"))
    return dataset, dataset[0]


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request; errors of the package are answers too."""
    try:
        from reasoning_gym.factory import DATASETS
    except ImportError as error:
        return {"kind": "package", "what": str(error)}
    name, options, number = request["dataset"], request["options"], request["number"]
    if name not in DATASETS:
        return {"kind": "dataset", "what": name, "known": sorted(DATASETS)}
    config_type = DATASETS[name][1]
    if problem := problem_of(config_type, json.loads(options or "{}")):
        return {"kind": "options", **problem._asdict()}
    try:
        dataset, made = item(name, options, number)
        if request["do"] == "make":
            return {"value": made["question"]}
        random.seed(f"{name}/{number}/score")
        return {"value": float(dataset.score_answer(request["answer"], made))}
    except Exception as error:  # the package raises errors of many classes
        if request["do"] == "score":
            return {"value": 0.0}
        return {"kind": "options", **refusal(config_type, error)._asdict()}


def main() -> None:
    """Answer requests until stdin ends. What the package prints goes to stderr."""
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        for line in sys.stdin.buffer:
            out.write(json.dumps(answer(json.loads(line))).encode() + b"\n")
            out.flush()


if __name__ == "__main__":
    main()
