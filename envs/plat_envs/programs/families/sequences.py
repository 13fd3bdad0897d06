"""Families: make a new list from a list."""

from __future__ import annotations

from plat_envs.programs.families.values import Family, number, numbers

A = {"a": ("ints", numbers(-15, 15))}
POSITIVE = {"a": ("ints", numbers(0, 30))}

FAMILIES = (
    Family(
        "running_totals",
        A,
        "ints",
        """Return the sums of the first number, the first two, the first three, and so on. Start again from 0 whenever a
        sum is greater than $limit in size, after it is written. Add $more to each written sum.""",
        """
sums, total = [], 0
for x in a:
    total += x
    sums.append(total + $more)
    if abs(total) > $limit:
        total = 0
return sums
""",
        ("abs(total) => total", "> $limit => >= 0", "total += x => total = x", "total + $more => total"),
        {"limit": range(6, 25), "more": range(1, 7)},
    ),
    Family(
        "rotated",
        {"a": ("ints", numbers(0, 9, 1)), "k": ("int", number(0, 12))},
        "ints",
        """Move the first number of `a` to its end, $times times `k` times, and then add $more to the number that is
        first.""",
        """
k = $times * k % len(a)
a = a[k:] + a[:k]
return [a[0] + $more, *a[1:]]
""",
        ("$times * k => k + 1", "a[k:] + a[:k] => a[-k:] + a[:-k]", "a[0] + $more => a[0] - $more", "% len(a) => % 7"),
        {"times": range(2, 8), "more": range(1, 20)},
    ),
    Family(
        "without_repeats",
        {"a": ("ints", numbers(0, 6, most=11))},
        "ints",
        "Keep the first $times of each number of `a`, in their order, and multiply what is kept by $factor.",
        """
kept = []
for i, x in enumerate(a):
    if a[:i].count(x) < $times:
        kept.append(x * $factor)
return kept
""",
        ("< $times => <= $times", "a[:i] => a[i + 1 :]", "x * $factor => x", "< $times => < 1"),
        {"times": range(2, 4), "factor": range(2, 60)},
    ),
    Family(
        "smoothed",
        POSITIVE,
        "ints",
        """Replace each number of `a` by the sum of itself, times $weight, and its neighbours, where it has them; leave
        the remainder that this sum has when it is divided by $by.""",
        """
n = len(a)
return [($weight * a[i] + sum(a[j] for j in (i - 1, i + 1) if 0 <= j < n)) % $by for i in range(n)]
""",
        ("0 <= j < n => j < n", "$weight * a[i] => a[i]", "% $by => // $by", "(i - 1, i + 1) => (i + 1,)"),
        {"weight": range(2, 9), "by": range(13, 40)},
    ),
    Family(
        "sorted_by_remainder",
        POSITIVE,
        "ints",
        """Sort `a` by the remainders of the division by $by; of numbers with equal remainders the larger one comes
        first. Then leave out the first $out.""",
        "return sorted(a, key=lambda x: (x % $by, -x))[$out:]",
        ("-x => x", "x % $by => x // $by", "[$out:] => ", "(x % $by, -x) => -x"),
        {"by": range(2, 13), "out": range(1, 4)},
    ),
    Family(
        "every_other",
        A,
        "ints",
        """Return every number of `a` whose place, counted from 0, leaves the remainder $start when it is divided by
        $step, from the last to the first, with $more added to each.""",
        "return [x + $more for x in a[$start::$step][::-1]]",
        ("[::-1] => ", "$start::$step => $step::$step", "x + $more => x", "$start::$step => $start:"),
        {"start": range(2), "step": range(2, 4), "more": range(1, 40)},
    ),
    Family(
        "differences",
        A,
        "ints",
        """Return the difference of each number of `a` and the number $back places before it, times $factor. Numbers
        without such a number before them are left out.""",
        "return [$factor * (a[i] - a[i - $back]) for i in range($back, len(a))]",
        (
            "a[i] - a[i - $back] => a[i - $back] - a[i]",
            "range($back, len(a)) => range(len(a))",
            "i - $back => i - 1",
            "$factor * (a[i] - => $factor * (a[i] +",
        ),
        {"back": range(2, 4), "factor": range(2, 60)},
    ),
    Family(
        "clipped",
        A,
        "ints",
        """Replace numbers of `a` below $low by $low, and numbers above $high by $high. Then leave out each number that
        is equal to the number before it.""",
        """
a = [max($low, min($high, x)) for x in a]
return [x for i, x in enumerate(a) if i == 0 or x != a[i - 1]]
""",
        ("max($low, => max(-99,", "min($high, => min(99,", " if i == 0 or x != a[i - 1] => ", "i == 0 or x => i and x"),
        {"low": range(-9, -1), "high": range(2, 10)},
    ),
    Family(
        "interleaved",
        {"a": ("ints", numbers(0, 9)), "b": ("ints", numbers(0, 9))},
        "ints",
        """Take $of_a numbers of `a`, then $of_b numbers of `b`, then again of `a`, and so on, until both lists are used
        up; what is left of the longer one follows in the same way. Add $more to those of `b`.""",
        """
mixed = []
while a or b:
    mixed += a[:$of_a] + [x + $more for x in b[:$of_b]]
    a, b = a[$of_a:], b[$of_b:]
return mixed
""",
        ("a or b => a and b", "a[:$of_a] + [ => a[:1] + [", "x + $more => x", "mixed += a[:$of_a] + => mixed +="),
        {"of_a": range(2, 4), "of_b": range(1, 4), "more": range(1, 25)},
    ),
    Family(
        "top_numbers",
        A,
        "ints",
        """Return the $count largest numbers of `a`, the largest first, or all if there are fewer; add $more to
        each.""",
        "return [x + $more for x in sorted(a, reverse=True)[:$count]]",
        (", reverse=True => ", ":$count => $count:", "x + $more => x", "sorted(a, => sorted(set(a),"),
        {"count": range(2, 6), "more": range(1, 35)},
    ),
    Family(
        "waves",
        A,
        "ints",
        """Keep a number of `a` if it is at least $step greater or smaller than the number that was kept last. The first
        number is always kept. Multiply what is kept by $factor.""",
        """
kept = a[:1]
for x in a[1:]:
    if abs(x - kept[-1]) >= $step:
        kept.append(x)
return [x * $factor for x in kept]
""",
        (
            ">= $step => > $step",
            "abs(x - kept[-1]) => x - kept[-1]",
            "kept[-1] => kept[0]",
            "kept = a[:1] => kept = [0]",
        ),
        {"step": range(3, 12), "factor": range(1, 14)},
    ),
)
