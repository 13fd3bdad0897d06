"""Problems of (split, seed) from the families: a family, its parameters, its kind of program, and tests."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from hashlib import sha256
from typing import Any

from plat_envs.instances import SPLIT_SHARES, Candidate, draw, split_of
from plat_envs.programs.families import arithmetic, counting, searches, sequences, tables, texts
from plat_envs.programs.families.values import KINDS, Family, Parameters, as_program, contract, printed, stdin_of
from plat_envs.programs.problem import AnyTest, DeepCoderConfig, Problem
from plat_envs.sandbox.program import Call, Test

FAMILIES: dict[str, Family] = {
    family.name: family
    for module in (counting, sequences, arithmetic, texts, tables, searches)
    for family in module.FAMILIES
}
HIDDEN, EDGES = 10, 4  # tests that decide the reward, and how many of them have a short or an extreme input
LARGEST_CONSTANT = 0.6  # the share of the tests that a constant may pass, at most
TRIES = 30  # draws of tests for a problem
_FAILED = object()


@lru_cache(maxsize=2048)
def _compiled(source: str, name: str) -> Callable[..., Any]:
    """Return the function of a family's own source, which is part of this package."""
    names: dict[str, Any] = {}
    exec(compile(source, f"<{name}>", "exec"), names)
    function: Callable[..., Any] = names[name]
    return function


def value_of(source: str, name: str, arguments: list[Any]) -> Any:
    """Return the value of a family's function, or a mark that equals no value if it raises an error."""
    try:
        return _compiled(source, name)(*json.loads(json.dumps(arguments)))  # it may change its arguments
    except Exception:  # a mutant may raise anything
        return _FAILED


def _inputs(rng: random.Random, family: Family) -> list[list[Any]]:
    """Draw different arguments for all tests: an ordinary one for the example, then extreme and ordinary ones."""
    found: dict[str, list[Any]] = {}
    edges = [False, *[True] * EDGES, *[False] * (HIDDEN - EDGES)]
    for _ in range(4 * HIDDEN):
        if len(found) == len(edges):
            break
        arguments = [spec(rng, edges[len(found)]) for _, spec in family.arguments.values()]
        found.setdefault(json.dumps(arguments), arguments)
    return list(found.values()) if len(found) == len(edges) else []


def _tests(rng: random.Random, family: Family, sources: list[str]) -> tuple[list[list[Any]], list[float]] | None:
    """Draw arguments, and the share of hidden tests that each mutant passes; None if they do not tell all apart."""
    inputs = _inputs(rng, family)
    if not inputs:
        return None
    right, *wrong = [[value_of(source, family.name, arguments) for arguments in inputs[1:]] for source in sources]
    shares = [sum(map(_equal, values, right)) / HIDDEN for values in wrong]
    if max(shares) == 1 or max(map(right.count, right)) > LARGEST_CONSTANT * HIDDEN:
        return None
    return inputs, shares


def _equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def make_problem(number: float, family: Family, parameters: Parameters, function: bool) -> Problem | None:
    """Return a problem of a family, with tests that are drawn by a number; None if no tests tell its mutants apart."""
    rng = random.Random(f"deepcoder/chat/{number}")
    sources = family.sources(parameters)
    drawn = next(filter(None, (_tests(rng, family, sources) for _ in range(TRIES))), None)
    if drawn is None:
        return None
    inputs, shares = drawn
    programs = sources if function else [as_program(family, source) for source in sources]
    example, *hidden = [_test(family, sources[0], arguments, function) for arguments in inputs]
    statement = [family.described(parameters), "", contract(family, function), "", _shown(family, example)]
    return Problem(
        key=ground(family.name, parameters),
        statement="\n".join(statement),
        function=family.name if function else None,
        example=example,
        hidden=tuple(hidden),
        reference=programs[0],
        wrong=tuple(programs[1 + i] for i in sorted(range(len(shares)), key=lambda i: -shares[i])),
        given=" and ".join(KINDS[kind].called for kind, _ in family.arguments.values()),
        gives=KINDS[family.result].called,
    )


def _test(family: Family, source: str, arguments: list[Any], function: bool) -> AnyTest:
    value = value_of(source, family.name, arguments)
    if value is _FAILED:
        raise AssertionError(f"the reference of {family.name} fails for {arguments}")
    return Call(arguments, value) if function else Test(stdin_of(family, arguments), f"{printed(family, value)}\n")


def _shown(family: Family, example: AnyTest) -> str:
    if isinstance(example, Call):
        return f"Example: {family.name}({', '.join(map(repr, example.arguments))}) returns {example.expected!r}."
    return f"Example of stdin:\n{example.stdin}What it prints:\n{example.expected}".rstrip()


def ground(name: str, parameters: Parameters) -> str:
    """Return what decides the split of a problem: its family and parameters, whatever its kind and its tests are."""
    return " ".join([name, *(f"{key}={parameters[key]}" for key in sorted(parameters))])


@lru_cache(maxsize=1)
def _splits() -> dict[str, str]:
    """Return family -> split, for `new_programs`."""
    ordered = sorted(FAMILIES, key=lambda name: sha256(name.encode()).digest())
    return {name: SPLIT_SHARES[number % len(SPLIT_SHARES)] for number, name in enumerate(ordered)}


def _family_split(key: str) -> str:
    return _splits()[key.partition(" ")[0]]


@lru_cache(maxsize=4096)
def generated_problem(config: DeepCoderConfig, split: str, seed: int) -> Problem:
    """Return the problem of (split, seed). Raises BadEnvironment for an unknown split.

    Its family and parameters decide its split; with `config.new_programs`, its family alone does.
    """

    def candidates(rng: random.Random) -> Iterator[Candidate[Problem]]:
        names = sorted(FAMILIES)
        while True:
            family = FAMILIES[rng.choice(names)]
            parameters = {name: rng.choice(values) for name, values in family.parameters.items()}
            made = partial(make_problem, rng.random(), family, parameters, rng.random() < 0.5)
            yield ground(family.name, parameters), made

    assign = _family_split if config.new_programs else split_of
    return draw("deepcoder/chat", split, seed, config.shared_pool, candidates, assign)
