"""Wrong options of a dataset are named with what is accepted. The package itself is not needed for that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Optional

import pytest

from plat_envs.questions.reasoning_gym_worker import problem_of, refusal


@dataclass
class Config:
    least: int = 2
    share: float = 0.5
    negative: bool = False
    style: Literal["plain", "odd"] = "plain"
    most: Optional[int] = None  # noqa: UP045  # as the package writes it
    words: list[str] = field(default_factory=list)
    seed: Optional[int] = None  # noqa: UP045
    size: int = 500


@pytest.mark.parametrize(
    "options",
    [{}, {"least": 3, "share": 1, "negative": True}, {"style": "odd", "most": None}, {"most": 3, "words": ["a"]}],
)
def test_right_options_have_no_problem(options):
    assert problem_of(Config, options) is None


@pytest.mark.parametrize(
    ("options", "what", "fix"),
    [
        ({"leest": 3}, "there is no option 'leest'", "did you mean 'least'? one of: least, share, negative"),
        ({"size": 3}, "the option 'size' is plat's own", "leave it out; one of: least"),
        ({"least": "two"}, "the option 'least' is \"two\"", "a whole number (by default 2)"),
        ({"least": True}, "the option 'least' is true", "a whole number (by default 2)"),
        ({"share": "x"}, "the option 'share' is \"x\"", "a number (by default 0.5)"),
        ({"negative": 0}, "the option 'negative' is 0", "true or false (by default false)"),
        ({"style": "od"}, "the option 'style' is \"od\"", "did you mean 'odd'? one of: plain, odd"),
        ({"most": 2.5}, "the option 'most' is 2.5", "a whole number or null (by default null)"),
    ],
)
def test_a_wrong_option_is_named_with_what_is_accepted(options, what, fix):
    problem = problem_of(Config, {"least": 2, **options})
    assert problem.what == what and problem.fix.startswith(fix)


@pytest.mark.parametrize(
    ("error", "said"),
    [(AssertionError("least must be positive\nmore"), "least must be positive"), (KeyError("a"), "KeyError: 'a'")],
)
def test_what_the_package_refuses_is_said_with_all_options(error, said):
    problem = refusal(Config, error)
    assert problem.what.endswith(f"options: {said}")
    assert "least (by default 2), share (by default 0.5)" in problem.fix and "size" not in problem.fix
