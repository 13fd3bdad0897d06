"""Families: tables of numbers, and pairs such as spans of time."""

from __future__ import annotations

from plat_envs.programs.families.values import Family, number, spans, table, text

T = {"t": ("table", table(0, 9))}
SPANS = {"p": ("pairs", spans(0, 24))}

FAMILIES = (
    Family(
        "row_scores",
        T,
        "ints",
        "Return for each row of `t` its sum, plus $bonus if the row has a number that is at least $limit.",
        "return [sum(row) + $bonus * (max(row) >= $limit) for row in t]",
        (
            ">= $limit => > $limit",
            "max(row) => row[0]",
            "sum(row) + => sum(row) -",
            "for row in t => for row in zip(*t)",
        ),
        {"bonus": range(10, 50), "limit": range(5, 9)},
    ),
    Family(
        "column_sums",
        T,
        "ints",
        """Return the sum of each column of `t`, in which the numbers of every row whose place, counted from 0, can be
        divided by $every count $worth times.""",
        "return [sum(x * ($worth if i % $every == 0 else 1) for i, x in enumerate(column)) for column in zip(*t)]",
        (
            "zip(*t) => t",
            "i % $every == 0 => i % $every",
            "$worth if => 1 if",
            "enumerate(column) => enumerate(column[::-1])",
        ),
        {"every": range(2, 4), "worth": range(2, 40)},
    ),
    Family(
        "turned",
        T,
        "ints",
        """Turn `t` a quarter to the $side, and return the numbers of its row $row (counted from 0; of the last one if
        there are fewer rows), with $more added to each.""",
        """
turned = list(zip(*t))[::-1] if "$side" == "left" else list(zip(*t[::-1]))
return [x + $more for x in turned[min($row, len(turned) - 1)]]
""",
        (
            '== "left" => != "left"',
            "x + $more => x",
            "min($row, len(turned) - 1) => -1",
            "turned = list(zip(*t))[::-1] if => turned = t if",
        ),
        {"side": ("left",), "row": range(1, 3), "more": range(1, 40)},
    ),
    Family(
        "heavy_cells",
        T,
        "int",
        """Count the numbers of `t` that are greater than the mean of their row plus $more tenths, times $worth where
        their place in the row, counted from 0, is $parity.""",
        """
total = 0
for row in t:
    for i, x in enumerate(row):
        if 10 * len(row) * x > 10 * sum(row) + $more * len(row):
            total += $worth if i % 2 == ("$parity" == "odd") else 1
return total
""",
        (
            "> 10 * sum(row) => >= 10 * sum(row) - 99",
            "$worth if => 1 if",
            "i % 2 == ( => i % 2 != (",
            "+ $more * len(row) => + 40 * len(row)",
        ),
        {"more": range(1, 9), "worth": range(3, 20), "parity": ("odd", "even")},
    ),
    Family(
        "robot",
        {"s": ("text", text("LRFFF", 1, 14)), "x": ("int", number(0, 9))},
        "ints",
        """A robot stands at (`x`, 0) and looks to larger x. L turns it left (towards larger y), R turns it right, and F
        moves it $step forward. It does not move if x or y would be greater than $wall in size. Return its last x and
        y.""",
        """
y, dx, dy = 0, 1, 0
for c in s:
    if c == "F":
        there = (x + $step * dx, y + $step * dy)
        if max(map(abs, there)) <= $wall:
            x, y = there
    else:
        dx, dy = (-dy, dx) if c == "L" else (dy, -dx)
return [x, y]
""",
        ('if c == "L" => if c == "R"', "<= $wall => <= 99", "$step * dx => dx", "return [x, y] => return [y, x]"),
        {"step": range(2, 5), "wall": range(10, 18)},
    ),
    Family(
        "merged_spans",
        SPANS,
        "ints",
        """Each pair of `p` is a span of time from its first to its second number. Spans that touch, or are at most $gap
        apart, become one. Return the lengths of the spans that this leaves, in the order of time, times $factor.""",
        """
merged = []
for start, end in sorted(p):
    if merged and start - merged[-1][1] <= $gap:
        merged[-1][1] = max(merged[-1][1], end)
    else:
        merged.append([start, end])
return [$factor * (end - start) for start, end in merged]
""",
        ("<= $gap => < 0", "max(merged[-1][1], end) => end", "$factor * (end => (end", "sorted(p) => p"),
        {"gap": range(1, 4), "factor": range(2, 40)},
    ),
    Family(
        "busiest",
        SPANS,
        "int",
        """Each pair of `p` is a visit from hour `a` to hour `b`, which has left at `b`. Return the largest number of
        visits at one time times $factor, plus the first hour with that number, and $empty if there are none.""",
        """
if not p:
    return $empty
counts = [sum(a <= hour < b for a, b in p) for hour in range(25)]
return max(counts) * $factor + counts.index(max(counts))
""",
        (
            "hour < b => hour <= b",
            "+ counts.index(max(counts)) => ",
            "return $empty => return 0",
            "a <= hour => a < hour",
        ),
        {"factor": range(30, 60), "empty": range(1, 9)},
    ),
    Family(
        "free_time",
        {"p": ("pairs", spans(0, 24)), "need": ("int", number(1, 5))},
        "int",
        """Return the first hour h from $open on so that no span of `p` overlaps the hours from h to h + `need`, which
        must not end after hour $close; -$missing if there is none. Spans that only touch them do not overlap.""",
        """
for hour in range($open, $close - need + 1):
    if all(end <= hour or start >= hour + need for start, end in p):
        return hour
return -$missing
""",
        (
            "end <= hour => end < hour",
            ">= hour + need => > hour + need",
            "$close - need + 1 => 99",
            "range($open, => range(0,",
        ),
        {"open": range(2, 9), "close": range(14, 20), "missing": range(1, 4)},
    ),
    Family(
        "chosen_spans",
        SPANS,
        "int",
        """Choose as many spans of `p` as possible that do not overlap, and have at least $pause hours between the end
        of one and the start of the next. Return their number times $factor.""",
        """
count, free = 0, -99
for start, end in sorted(p, key=lambda span: span[1]):
    if start >= free:
        count, free = count + 1, end + $pause
return count * $factor
""",
        (
            "key=lambda span: span[1] => key=lambda span: span[0]",
            "end + $pause => end",
            ">= free => > free",
            "end + $pause => start + 1",
        ),
        {"pause": range(1, 3), "factor": range(2, 60)},
    ),
)
