"""Families: texts and words."""

from __future__ import annotations

from plat_envs.programs.families.values import Family, brackets, number, text, words

S = {"s": ("text", text("abcde"))}
WORDS = {"w": ("words", words("abcd"))}
LETTERS = tuple("abcde")

FAMILIES = (
    Family(
        "letter_weights",
        S,
        "int",
        """Add up the places of the letters of `s` in the alphabet (a is 1), but count a letter $letter as $worth.""",
        "return sum($worth if c == '$letter' else ord(c) - 96 for c in s)",
        (
            "ord(c) - 96 => ord(c) - 97",
            "== '$letter' => != '$letter'",
            "for c in s => for c in set(s)",
            "$worth if => 0 if",
        ),
        {"letter": LETTERS, "worth": range(10, 50)},
    ),
    Family(
        "shifted",
        {"s": ("text", text("abcxyz mn"))},
        "text",
        """Replace each letter of `s` by the letter $by places later in the alphabet; after z comes a. Every letter at a
        place that can be divided by $every, counted from 0, stays as it is; so do blanks.""",
        """
def moved(i, c):
    return c if c == " " or i % $every == 0 else chr((ord(c) - 97 + $by) % 26 + 97)

return "".join(moved(i, c) for i, c in enumerate(s))
""",
        ("% 26 => % 25", "ord(c) - 97 + => ord(c) - 96 +", "i % $every == 0 => i % $every == 1", 'c == " " or i => i'),
        {"by": range(1, 26), "every": range(2, 6)},
    ),
    Family(
        "encoded_runs",
        {"s": ("text", text("ab", 1, 16))},
        "text",
        """Replace each row of equal letters in `s` by the letter and their number, but leave rows of fewer than $least
        letters as they are. Write $mark between the rows.""",
        """
rows = []
for c in s:
    if rows and rows[-1][0] == c:
        rows[-1] += c
    else:
        rows.append(c)
return "$mark".join(row[0] + str(len(row)) if len(row) >= $least else row for row in rows)
""",
        (
            ">= $least => > $least",
            "row[0] + str(len(row)) => str(len(row)) + row[0]",
            "$mark => ",
            "rows[-1] += c => rows[-1] = c",
        ),
        {"least": range(2, 4), "mark": tuple("-+.,:;/_=~*^")},
    ),
    Family(
        "brackets",
        {"s": ("text", brackets())},
        "int",
        """Return the depth of the deepest bracket in `s` times $factor if all brackets are closed in the right order by
        their own kind. Else return the place of the first wrong bracket, counted from 0, minus $minus; if only
        closing ones are missing at the end, that place is the length of `s`.""",
        """
stack, deepest = [], 0
for i, c in enumerate(s):
    if c in "([":
        stack.append(c)
        deepest = max(deepest, len(stack))
    elif not stack or stack.pop() + c not in ("()", "[]"):
        return i - $minus
return len(s) - $minus if stack else deepest * $factor
""",
        (
            "len(s) - $minus if stack => -$minus if stack",
            "i - $minus => i",
            'c not in ("()", "[]") => c == ""',
            "deepest * $factor => len(s) * $factor",
        ),
        {"factor": range(1, 9), "minus": range(20, 35)},
    ),
    Family(
        "palindrome_centre",
        {"s": ("text", text("ab", 1, 12))},
        "int",
        """Return the length of the longest part of `s` that reads the same from both sides, times $factor, plus the
        place of the first such part, counted from $origin.""",
        """
for length in range(len(s), 0, -1):
    for i in range(len(s) - length + 1):
        part = s[i : i + length]
        if part == part[::-1]:
            return length * $factor + i + $origin
""",
        (
            "range(len(s), 0, -1) => range(1, len(s) + 1)",
            "+ i + $origin => + $origin",
            "- length + 1 => - length + (length < 4)",
            "part == part[::-1] => part[0] == part[-1]",
        ),
        {"factor": range(2, 30), "origin": range(5)},
    ),
    Family(
        "most_common_letter",
        S,
        "text",
        """Return the letter that is most often in `s`, of several the first in the alphabet, and behind it their number
        plus $more.""",
        """
best = min(set(s), key=lambda c: (-s.count(c), c))
return best + str(s.count(best) + $more)
""",
        ("-s.count(c), c => -s.count(c), -ord(c)", "+ $more => ", "(-s.count(c), c) => c", "-s.count(c) => s.count(c)"),
        {"more": range(1, 120)},
    ),
    Family(
        "same_letters",
        {"s": ("text", text("abc", 1, 5)), "t": ("text", text("abc", 1, 5))},
        "int",
        """Return how many letters must be taken away from `s` and from `t` so that both have the same letters, in
        whatever order. A letter $letter that is taken away counts $worth.""",
        """
def cost(c):
    return abs(s.count(c) - t.count(c)) * ($worth if c == "$letter" else 1)

return sum(map(cost, "abc"))
""",
        (
            "abs(s.count(c) - t.count(c)) => max(0, s.count(c) - t.count(c))",
            "$worth if => 1 if",
            '"abc" => "ab"',
            "s.count(c) - t.count(c) => s.count(c) + t.count(c)",
        ),
        {"letter": tuple("abc"), "worth": range(2, 40)},
    ),
    Family(
        "longest_words",
        WORDS,
        "words",
        """Return the words of `w` with at least $least letters, the longest first, and equally long ones in the order
        of the alphabet. Write $mark in front of each.""",
        'return ["$mark" + x for x in sorted(w, key=lambda x: (-len(x), x)) if len(x) >= $least]',
        (">= $least => > $least", "-len(x), x => len(x), x", "-len(x), x => -len(x),", '"$mark" + x => x'),
        {"least": range(2, 4), "mark": tuple("-+.,:;/_=~*^#%&@")},
    ),
    Family(
        "abbreviations",
        {"w": ("words", words("abcdefgh", 1, 6, 8))},
        "words",
        """Shorten each word of `w` with more than $keep letters: keep its first and its last letter, and write the
        number of letters between them, times $factor, in their place.""",
        """
def short(x):
    return x if len(x) <= $keep else x[0] + str((len(x) - 2) * $factor) + x[-1]

return list(map(short, w))
""",
        ("<= $keep => < $keep", "len(x) - 2 => len(x) - 1", "+ x[-1] => + x[1]", "* $factor => + $factor"),
        {"keep": range(3, 6), "factor": range(2, 40)},
    ),
    Family(
        "words_with",
        {"w": ("words", words("abc", 1, 8, 4)), "k": ("int", number(0, 3))},
        "int",
        """Count the words of `w` that have the letter $letter more than `k` times or begin with it; a word that also
        ends with it counts $worth.""",
        """
total = 0
for x in w:
    if x.count("$letter") > k or x[0] == "$letter":
        total += $worth if x[-1] == "$letter" else 1
return total
""",
        ("> k => >= k", ' or x[0] == "$letter" => ', "total += $worth if => total += 1 if", "x[-1] => x[0]"),
        {"letter": tuple("abc"), "worth": range(2, 40)},
    ),
    Family(
        "rule_check",
        {"s": ("text", text("aab_", 1, 12))},
        "bool",
        """A name is allowed if it has from $least to $most characters, begins with a letter, and has no two `_` side by
        side. Return whether `s` is allowed.""",
        'return $least <= len(s) <= $most and s[0].isalpha() and "__" not in s',
        ("$least <= => 1 <=", "<= $most => <= 99", " and s[0].isalpha() => ", ' and "__" not in s => '),
        {"least": range(2, 5), "most": range(7, 12)},
    ),
)
