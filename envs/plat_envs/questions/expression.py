"""Exact value of an arithmetic expression with + - * / ( ) and whole numbers; anything else is no expression."""

from __future__ import annotations

from fractions import Fraction

_MAX_CHARACTERS = 200
_MAX_DEPTH = 20


class _NoExpression(Exception):
    pass


class _Reader:
    """Recursive descent over words; collects the numbers it meets."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.next = 0
        self.depth = 0
        self.numbers: list[int] = []

    def peek(self) -> str:
        return self.words[self.next] if self.next < len(self.words) else ""

    def take(self) -> str:
        word = self.peek()
        self.next += 1
        return word

    def sum(self) -> Fraction:
        value = self.product()
        while self.peek() in ("+", "-"):
            value = value + self.product() if self.take() == "+" else value - self.product()
        return value

    def product(self) -> Fraction:
        value = self.factor()
        while self.peek() in ("*", "/"):
            if self.take() == "*":
                value *= self.factor()
            else:
                divisor = self.factor()
                if divisor == 0:
                    raise _NoExpression
                value /= divisor
        return value

    def factor(self) -> Fraction:
        word = self.take()
        if word.isascii() and word.isdigit():
            self.numbers.append(int(word))
            return Fraction(int(word))
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise _NoExpression
        if word == "-":
            value = -self.factor()
        elif word == "(":
            value = self.sum()
            if self.take() != ")":
                raise _NoExpression
        else:
            raise _NoExpression
        self.depth -= 1
        return value


def evaluate(text: str) -> tuple[Fraction, list[int]] | None:
    """Return the value of an expression and its numbers in their order in the text.

    None if the text is no expression, is too long or too deeply nested, or divides by zero.
    """
    if len(text) > _MAX_CHARACTERS:
        return None
    for symbol in "+-*/()":
        text = text.replace(symbol, f" {symbol} ")
    words = text.split()
    reader = _Reader(words)
    try:
        value = reader.sum()
    except _NoExpression:
        return None
    return (value, reader.numbers) if reader.next == len(words) else None
