"""Families: arithmetic with one, two or three whole numbers."""

from __future__ import annotations

from plat_envs.programs.families.values import Family, number, numbers

FAMILIES = (
    Family(
        "digit_sum",
        {"n": ("int", number(0, 10**9))},
        "int",
        "Add up the decimal digits of `n`; a digit $digit counts $worth.",
        "return sum($worth if d == '$digit' else int(d) for d in str(n))",
        ("$worth if => int(d) if", "== '$digit' => != '$digit'", "str(n) => str(n)[1:]", "str(n) => set(str(n))"),
        {"digit": range(1, 10), "worth": range(20, 50)},
    ),
    Family(
        "in_base",
        {"n": ("int", number(0, 10**6))},
        "text",
        "Write `n` in base $base, with the digits 0 to 9 and then a, b, and so on, behind the word $prefix.",
        """
digits = ""
while n:
    n, digit = divmod(n, $base)
    digits = "0123456789abcdefghij"[digit] + digits
return "$prefix" + (digits or "0")
""",
        (
            "[digit] + digits => [digit]",
            'digits = "0123456789abcdefghij"[digit] + digits => digits += "0123456789abcdefghij"[digit]',
            'digits or "0" => digits',
            '"$prefix" + (digits or "0") => (digits or "0")',
        ),
        {"base": (3, 5, 6, 7, 9, 11, 12, 13, 15, 17, 19), "prefix": tuple("bnqrxz")},
    ),
    Family(
        "divisors_between",
        {"n": ("int", number(1, 400))},
        "int",
        "Add up the divisors of `n` that are at least $low, and at most $high.",
        "return sum(d for d in range($low, min(n, $high) + 1) if n % d == 0)",
        (
            "min(n, $high) + 1 => min(n, $high)",
            "range($low, => range(1,",
            "sum(d for => sum(1 for",
            "if n % d == 0 => if d % 2",
        ),
        {"low": range(2, 7), "high": range(20, 60)},
    ),
    Family(
        "common_factor",
        {"a": ("int", number(1, 900)), "b": ("int", number(1, 900))},
        "int",
        "Return the greatest common divisor of $times times `a` and `b`, plus $more.",
        """
a *= $times
while b:
    a, b = b, a % b
return a + $more
""",
        ("a *= $times => a *= 1", "a + $more => a", "a, b = b, a % b => a, b = a % b, 0", "while b => if b"),
        {"times": range(6, 31, 6), "more": range(1, 30)},
    ),
    Family(
        "steps_to_one",
        {"n": ("int", number(1, 300))},
        "int",
        """Halve `n` if it is even; else multiply it by 3 and add 1. Repeat until it is 1, or $most times at most.
        Return the number of repetitions, plus $per_odd for each time that `n` was odd.""",
        """
steps = 0
for _ in range($most):
    if n == 1:
        break
    steps += 1 if n % 2 == 0 else 1 + $per_odd
    n = n // 2 if n % 2 == 0 else 3 * n + 1
return steps
""",
        ("1 + $per_odd => 1", "3 * n + 1 => 3 * n - 1", "range($most) => range(999)", "steps = 0 => steps = 1"),
        {"most": range(12, 40), "per_odd": range(1, 6)},
    ),
    Family(
        "primes_between",
        {"low": ("int", number(0, 9)), "size": ("int", number(0, 60))},
        "int",
        """Count the prime numbers from `low` to `low` + `size`, both included, that leave another remainder than $rest
        when they are divided by $by.""",
        """
count = 0
for n in range(low, low + size + 1):
    prime = n > 1 and all(n % d for d in range(2, n))
    count += prime and n % $by != $rest
return count
""",
        (
            "low + size + 1 => low + size",
            "n > 1 and all => all",
            "!= $rest => == $rest",
            "prime and n % $by => n % $by",
        ),
        {"by": range(3, 20), "rest": range(1, 3)},
    ),
    Family(
        "change",
        {"amount": ("int", number(0, 200))},
        "int",
        """Pay `amount` with coins of $large, $middle and 1, each time with the largest coin that is not too large.
        Return the number of coins.""",
        """
coins = 0
for coin in ($large, $middle, 1):
    coins += amount // coin
    amount %= coin
return coins
""",
        (
            "($large, $middle, 1) => ($middle, 1)",
            "amount %= coin => amount %= $large",
            "coins = 0 => coins = 1",
            "// coin => % coin",
        ),
        {"large": range(15, 40), "middle": range(3, 13)},
    ),
    Family(
        "leap_days",
        {"first": ("int", number(1, 800)), "years": ("int", number(0, 500))},
        "int",
        """A calendar has a long year every $every years, but not every $but years, and yet every $yet years (years that
        can be divided by that number). Count the long years from year `first` on, `years` years in all.""",
        """
def is_long(year):
    return year % $every == 0 and (year % $but != 0 or year % $yet == 0)

return sum(map(is_long, range(first, first + years)))
""",
        (
            " or year % $yet == 0 => ",
            "first + years => first + years + 7",
            "year % $but != 0 => year % $but == 0",
            "year % $every == 0 and => ",
        ),
        {"every": range(2, 5), "but": (12, 24, 36), "yet": (72, 144, 216)},
    ),
    Family(
        "clock",
        {"start": ("int", number(0, 1439)), "minutes": ("int", number(0, 5000))},
        "text",
        """A clock shows minute `start` of the day, and loses $loses minutes in each full hour that passes. Return what
        it shows after `minutes` minutes, as hours and minutes with two digits each, such as 07${colon}05.""",
        """
now = (start + minutes - $loses * (minutes // 60)) % 1440
return f"{now // 60:02}$colon{now % 60:02}"
""",
        (
            "minutes - $loses => minutes + $loses",
            "% 1440 => % 720",
            "// 60:02 => // 60",
            "minutes // 60 => minutes // 30",
        ),
        {"loses": range(1, 15), "colon": (":", "h", ".", "-")},
    ),
    Family(
        "recurrence",
        {"n": ("int", number(0, 40))},
        "int",
        """A row of numbers begins with $first, $second. Each further one is $times times the one before it plus the one
        before that, of which only the remainder of the division by 1009 is kept. Return number `n`, counted from 0.""",
        """
x, y = $first, $second
for _ in range(n):
    x, y = y, ($times * y + x) % 1009
return x
""",
        ("return x => return y", "$times * y + x => $times * x + y", "% 1009 => % 1013", "range(n) => range(1, n)"),
        {"first": range(1, 6), "second": range(6, 12), "times": range(2, 6)},
    ),
    Family(
        "nearest_multiple",
        {"n": ("int", number(0, 500))},
        "int",
        """Return the multiple of $of that is nearest to `n`; of two that are equally near, the smaller one. Add $more
        if it is smaller than `n`.""",
        """
low = n // $of * $of
best = low if 2 * (n - low) <= $of else low + $of
return best + $more if best < n else best
""",
        ("2 * (n - low) => n - low", "best < n => best <= n", "<= $of => > $of", "+ $more if => if"),
        {"of": range(2, 30), "more": range(1, 10)},
    ),
    Family(
        "box_packing",
        {"items": ("int", number(0, 500)), "sizes": ("ints", numbers(1, 20, 1, 5))},
        "int",
        """Fill boxes of the sizes `sizes`, in this order and again from the first, with `items` items, $apiece to a
        unit of size. Return the number of boxes that are used, plus $more if the last one is not full.""",
        """
boxes = 0
while items > 0:
    items -= $apiece * sizes[boxes % len(sizes)]
    boxes += 1
return boxes + $more * (items < 0)
""",
        ("items < 0 => items <= 0", "items > 0 => items >= 0", "$apiece * sizes => sizes", "boxes % len(sizes) => 0"),
        {"apiece": range(2, 9), "more": range(10, 30)},
    ),
)
