"""Families: count, add up and compare the numbers of a list."""

from __future__ import annotations

from plat_envs.programs.families.values import Family, number, numbers

A = {"a": ("ints", numbers(-20, 20))}
POSITIVE = {"a": ("ints", numbers(0, 40))}

FAMILIES = (
    Family(
        "count_between",
        A,
        "int",
        "Count the numbers of `a` that are at least $low and at most $high.",
        "return sum($low <= x <= $high for x in a)",
        (
            "$low <= x => $low < x",
            "<= $high => < $high",
            "$low <= x <= $high => x <= $high",
            "sum($low <= x <= $high for x in a) => len(a)",
        ),
        {"low": range(-12, 0), "high": range(1, 13)},
    ),
    Family(
        "count_remainder",
        {"a": ("ints", numbers(0, 15))},
        "int",
        "Count the numbers of `a` that leave the remainder $rest when they are divided by $by.",
        "return sum(x % $by == $rest % $by for x in a)",
        (
            "== $rest => != $rest",
            "x % $by == => x // $by ==",
            "sum( => 2 * sum(",
            "for x in a => for x in set(a)",
        ),
        {"by": range(2, 12), "rest": range(2)},
    ),
    Family(
        "weighted_sum",
        A,
        "int",
        "Multiply the first number of `a` by $first, the next by $step more, and so on. Return the sum.",
        "return sum(x * ($first + $step * i) for i, x in enumerate(a))",
        (
            "$first + => $first -",
            "enumerate(a) => enumerate(a, 1)",
            "$step * i => $step",
            "enumerate(a) => enumerate(a[:-1])",
        ),
        {"first": range(1, 9), "step": range(1, 9)},
    ),
    Family(
        "capped_total",
        POSITIVE,
        "int",
        """Add up the numbers of `a`, but count a number above $cap as $cap, and add $bonus for each
        number that is 0.""",
        "return sum(min(x, $cap) + $bonus * (x == 0) for x in a)",
        (
            "min(x, $cap) => max(x, $cap)",
            "min(x, $cap) => x",
            "(x == 0) => (x > 0)",
            "for x in a) => for x in a[1:])",
        ),
        {"cap": range(5, 30), "bonus": range(2, 9)},
    ),
    Family(
        "largest_gap",
        A,
        "int",
        """Return $factor times the largest difference, without its sign, between two neighbours of `a`, plus $more;
        $more if `a` has no neighbours.""",
        "return $factor * max((abs(x - y) for x, y in zip(a, a[1:])), default=0) + $more",
        ("abs(x - y) => x - y", "a[1:] => a[2:]", "max( => min(", "+ $more => - $more"),
        {"factor": range(1, 8), "more": range(1, 9)},
    ),
    Family(
        "longest_run_above",
        A,
        "int",
        """Return the length of the longest row of neighbours in `a` that are all greater than $limit, times
        $factor.""",
        """
best = run = 0
for x in a:
    run = run + 1 if x > $limit else 0
    best = max(best, run)
return best * $factor
""",
        (
            "else 0 => else run",
            "x > $limit => x < $limit",
            "return best => return run",
            "max(best, run) => max(best, 1)",
        ),
        {"limit": range(-9, 4), "factor": range(1, 9)},
    ),
    Family(
        "second_largest",
        A,
        "int",
        "Return the second largest of the different numbers of `a`, or $missing if there is none.",
        """
different = sorted(set(a))
return different[-2] if len(different) > 1 else $missing
""",
        (
            "sorted(set(a)) => sorted(a)",
            "different[-2] => different[-1]",
            "> 1 => > 2",
            "different[-2] => different[1]",
        ),
        {"missing": range(100, 220)},
    ),
    Family(
        "pairs_with_sum",
        {"a": ("ints", numbers(0, 12, most=10))},
        "int",
        "Count the pairs of places i < j with a[i] + a[j] at least $low and at most $high.",
        "return sum($low <= a[i] + a[j] <= $high for i in range(len(a)) for j in range(i + 1, len(a)))",
        ("i + 1 => i", "$low <= => $low <", "<= $high => < $high", "range(i + 1, len(a)) => range(len(a))"),
        {"low": range(3, 11), "high": range(11, 19)},
    ),
    Family(
        "balance_point",
        {"a": ("ints", numbers(0, 3, 1, 8)), "extra": ("int", number(0, 3))},
        "int",
        """Return the first place i, counted from $origin, at which the numbers before i, together with `extra`, add up
        to at least the numbers after i; -$missing if there is none.""",
        """
for i in range(len(a)):
    if sum(a[:i]) + extra >= sum(a[i + 1 :]):
        return i + $origin
return -$missing
""",
        (">= sum => > sum", "+ extra => - extra", "a[i + 1 :] => a[i:]", "i + $origin => len(a) - i + $origin"),
        {"origin": range(10), "missing": range(1, 12)},
    ),
    Family(
        "majority",
        {"a": ("ints", numbers(0, 2, 1, 8))},
        "int",
        """Return the number that is more than half of the numbers of `a`. If there is none, return $missing plus the
        sum of `a` times $factor.""",
        """
for x in set(a):
    if 2 * a.count(x) > len(a):
        return x
return $missing + $factor * sum(a)
""",
        ("> len(a) => >= len(a)", "return x => return a[0]", "2 * a.count => 3 * a.count", "* sum(a) => * len(a)"),
        {"missing": range(50, 70), "factor": range(1, 6)},
    ),
    Family(
        "turning_points",
        {"a": ("ints", numbers(-5, 5, most=10))},
        "int",
        """Add up $peak for each number of `a` that is greater than both neighbours, and $valley for each
        smaller one.""",
        """
total = 0
for left, x, right in zip(a, a[1:], a[2:]):
    total += $peak * (left < x > right) + $valley * (left > x < right)
return total
""",
        (
            "left < x > right => left < x",
            "left > x < right => x < right",
            "x > right) => x >= right)",
            "total += => total =",
        ),
        {"peak": range(2, 14), "valley": range(1, 10)},
    ),
)
