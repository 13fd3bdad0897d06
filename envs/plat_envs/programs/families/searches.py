"""Families: searches, choices and simulations over lists."""

from __future__ import annotations

from plat_envs.programs.families.values import Family, number, numbers, spans

A = {"a": ("ints", numbers(-9, 9))}
POSITIVE = {"a": ("ints", numbers(1, 9))}

FAMILIES = (
    Family(
        "best_window",
        A,
        "int",
        "Return the largest sum of $size neighbours in `a`, plus $more; $missing if `a` has fewer numbers.",
        """
if len(a) < $size:
    return $missing
return max(sum(a[i : i + $size]) for i in range(len(a) - $size + 1)) + $more
""",
        ("max(sum => min(sum", "- $size + 1 => - $size + (len(a) == $size)", "+ $more => ", "i + $size] => i + 2]"),
        {"size": range(3, 5), "more": range(1, 9), "missing": range(50, 60)},
    ),
    Family(
        "best_part",
        A,
        "int",
        """Return the largest sum of neighbours in `a`, where each number that is used costs $cost tenths; the sum is in
        tenths, and it is 0 if no number is used.""",
        """
best = now = 0
for x in a:
    now = max(0, now + 10 * x - $cost)
    best = max(best, now)
return best
""",
        (
            "- $cost => ",
            "max(0, now + => max(-999, now +",
            "return best => return now",
            "best = max(best, now) => best += now",
        ),
        {"cost": range(1, 60)},
    ),
    Family(
        "stairs",
        {"n": ("int", number(0, 18))},
        "int",
        """Count the ways to climb `n` steps, $small or $large steps at a time, in every order. Return the remainder of
        the division by $by.""",
        """
ways = [1] + [0] * n
for i in range(1, n + 1):
    ways[i] = sum(ways[i - step] for step in ($small, $large) if step <= i)
return ways[n] % $by
""",
        ("step <= i => step < i", "($small, $large) => ($small,)", "[1] + => [0] +", "% $by => // $by"),
        {"small": (1,), "large": range(2, 4), "by": range(23, 80)},
    ),
    Family(
        "fewest_coins",
        {"amount": ("int", number(0, 60))},
        "int",
        """Return the smallest number of coins of $a, $b and $c that make `amount`, or -$missing if there is no way.""",
        """
fewest = [0] + [999] * amount
for i in range(1, amount + 1):
    fewest[i] = min([fewest[i - coin] + 1 for coin in ($a, $b, $c) if coin <= i], default=999)
return fewest[amount] if fewest[amount] < 999 else -$missing
""",
        (
            "coin <= i => coin < i",
            "($a, $b, $c) => ($b, $c)",
            "else -$missing => else 0",
            "fewest[i - coin] + 1 => fewest[i - coin]",
        ),
        {"a": range(3, 6), "b": range(6, 9), "c": range(9, 13), "missing": range(1, 4)},
    ),
    Family(
        "robber",
        POSITIVE,
        "int",
        """Choose numbers of `a` so that there are at least $apart others between two chosen ones. Return the largest
        sum plus $more.""",
        """
best = [0] * (len(a) + $apart + 1)
for i, x in enumerate(a):
    best[i + $apart + 1] = max(best[i + $apart], best[i] + x)
return best[-1] + $more
""",
        (
            "best[i] + x => best[i + $apart] + x",
            "best[-1] + $more => best[-1]",
            "max(best[i + $apart], => max(0,",
            "best[i] + x => best[i] + 1",
        ),
        {"apart": range(1, 3), "more": range(1, 60)},
    ),
    Family(
        "rising_part",
        A,
        "int",
        """Return the length of the longest row of numbers that is left when numbers of `a` are taken away, so that each
        is at least $step greater than the one before it. Multiply it by $factor.""",
        """
best = []
for i, x in enumerate(a):
    best.append(1 + max((best[j] for j in range(i) if x - a[j] >= $step), default=0))
return max(best, default=0) * $factor
""",
        (
            ">= $step => > $step",
            "range(i) if => range(i - 1, i) if j >= 0 and",
            "* $factor => + $factor",
            "x - a[j] => a[j] - x",
        ),
        {"step": range(1, 6), "factor": range(2, 20)},
    ),
    Family(
        "water",
        {"a": ("ints", numbers(0, 6, 1, 9))},
        "int",
        """The numbers of `a` are the heights of walls that are $wide wide and stand side by side. Return how much rain
        stays between them, plus $more.""",
        """
total = 0
for i, height in enumerate(a):
    level = min(max(a[: i + 1]), max(a[i:]))
    total += $wide * (level - height)
return total + $more
""",
        ("min(max => max(max", "- height => - 0", "max(a[i:]) => a[-1]", "total + $more => total"),
        {"wide": range(2, 8), "more": range(1, 9)},
    ),
    Family(
        "elimination",
        {"n": ("int", number(1, 60))},
        "int",
        """The people 1 to `n` stand in a ring. Beginning with the first, every person number $every leaves until one is
        left; return this person's number plus $more.""",
        """
people, place = list(range(1, n + 1)), 0
while len(people) > 1:
    place = (place + $every - 1) % len(people)
    people.pop(place)
return people[0] + $more
""",
        (
            "+ $every - 1 => + $every",
            "people[0] + $more => people[0]",
            "place = (place + => place = (0 +",
            "> 1 => > 2",
        ),
        {"every": range(2, 9), "more": range(1, 20)},
    ),
    Family(
        "queue_time",
        {"a": ("ints", numbers(1, 9)), "tills": ("int", number(1, 3))},
        "int",
        """The customers of a shop need `a` minutes each. They stand in one queue, and go to the first of `tills` tills
        that is free. A till needs $pause minutes more after each customer. Return when the last till is free, times
        $factor.""",
        """
free = [0] * tills
for minutes in a:
    free.sort()
    free[0] += minutes + $pause
return max(free) * $factor
""",
        ("minutes + $pause => minutes", "max(free) => min(free)", "free.sort() => pass", "* $factor => + $factor"),
        {"pause": range(1, 6), "factor": range(2, 20)},
    ),
    Family(
        "stack_machine",
        {"a": ("ints", numbers(0, 12, 1, 9))},
        "int",
        """Read `a` from the left onto a stack. A number below $limit is put on it. Any other number takes the two
        uppermost numbers off and puts on their sum if it is even, and their difference (the lower one minus the
        upper one) if it is odd; it does nothing if there are not two. Return the uppermost number plus $more; $more
        if there is none.""",
        """
stack = []
for x in a:
    if x < $limit:
        stack.append(x)
    elif len(stack) > 1:
        upper, lower = stack.pop(), stack.pop()
        stack.append(lower + upper if x % 2 == 0 else lower - upper)
return (stack[-1] if stack else 0) + $more
""",
        (
            "lower - upper => upper - lower",
            "lower + upper if => lower * upper if",
            "x < $limit => x <= $limit",
            "stack[-1] if => stack[0] if",
        ),
        {"limit": range(5, 10), "more": range(1, 20)},
    ),
    Family(
        "connected",
        {"n": ("int", number(10, 14)), "roads": ("pairs", spans(0, 9, 0, 8))},
        "int",
        """The towns 0 to `n` - 1 are joined by `roads`, each between two towns. Return the number of groups of towns
        that cannot be reached from one another, times $factor, plus $more times the number of towns in the largest
        group.""",
        """
group = list(range(n))
for a, b in roads:
    old, new = group[a], group[b]
    group = [new if g == old else g for g in group]
return len(set(group)) * $factor + $more * max(group.count(g) for g in group)
""",
        (
            "new if g == old else g => g",
            "len(set(group)) => n - len(roads)",
            "max(group.count => min(group.count",
            "* $factor + => +",
        ),
        {"factor": range(5, 20), "more": range(1, 5)},
    ),
    Family(
        "first_repeat",
        {"n": ("int", number(0, 200))},
        "int",
        """Begin with `n`, and replace it again and again by the sum of the squares of its digits, plus $more. Return
        after how many replacements a number comes for the second time.""",
        """
seen = []
while n not in seen:
    seen.append(n)
    n = sum(int(digit) ** 2 for digit in str(n)) + $more
return len(seen)
""",
        (
            "** 2 => * 2",
            "+ $more => ",
            "return len(seen) => return len(seen) - seen.index(n)",
            "seen = [] => seen = [0]",
        ),
        {"more": range(1, 80)},
    ),
)
