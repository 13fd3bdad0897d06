"""The hash of Python code: what changes it, and what does not."""

from __future__ import annotations

import ast
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plat.plugins.python_code import PREFIX, code_hash

SOURCE = '''"""Docstring."""
from __future__ import annotations
import a.b as c, d
from .e import (f, g as h)

@decorated(1, *args, key=None, **more)
class A(B, metaclass=C):
    x: int = 1
    def method(self, p, /, q=1.0, *rest, r: str = "s", **others) -> None:
        global G
        try:
            return [i async for i in y if i] or {**z, 1: 2} or {3}
        except* (E, F) as error:
            raise X from error
        finally:
            del self.p, q[1:2, ...]
async def g(): return f"{x!r:>{width}} and {y=} {z:%H:%M}" f"{w}" "tail", b"".decode()
match v:
    case {"k": 1, **rest} | [1, *_] if w: pass
    case A(x=1) as n: pass
lambda *, a=None: (yield)
while True:
    with open(u"n") as p, q: x += 1j; y = -0.0; z = not True
    if (w := 3) is None: break
'''


def same(text: str, other: str) -> bool:
    return code_hash(text.encode()) == code_hash(other.encode())


def test_the_form_is_frozen_for_all_versions_of_python() -> None:
    assert code_hash(SOURCE.encode()) == "py1:a3c0c4129dc315c5"
    assert code_hash(b"") == "py1:b5999633d806a442"


def test_layout_and_comments_do_not_count() -> None:
    assert same(SOURCE, "# a comment\n" + SOURCE.replace("\n", "  # more\n", 1) + "\n\n")
    assert same("x = (1,\n     2)\n", "x = 1, 2  # two")
    assert same("x = 'a'\n", 'x = u"a"\n') and same("x = 0x10\n", "x = 16\n")
    assert same("x = 'a' 'b'\n", "x = 'ab'\n") and same("f'a' f'b{x}'\n", "f'ab{x}'\n")
    assert same(SOURCE, SOURCE.replace("\n", "\r\n"))


def test_reformatting_by_ast_keeps_the_hash() -> None:
    assert same(SOURCE, ast.unparse(ast.parse(SOURCE)))


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("x = 1", "x = 1.0"),
        ("x = 1", "x = True"),
        ("x = 0.0", "x = -0.0"),
        ("x = 1", "x = '1'"),
        ("x = 'a'", "x = b'a'"),
        ("x = 1.0", "x = 1j"),
        ("x = None", "x = ..."),
        ("x = None", "x = 'None'"),
        ("f()", "f(None)"),
        ("'doc'", "'dog'"),
        ("def f(): 'doc'", "def f(): 'dog'"),
        ("x = []", "x = ()"),
        ("x = [1, [2]]", "x = [[1], 2]"),
        ("x = {**a, 1: b}", "x = {1: b, **a}"),
        ("a + b + c", "a + (b + c)"),
        ("f'{x}'", "f'{x!r}'"),
        ("f'{x}'", "f'{x:}1'"),
        ("f'{x:>3}'", "f'{x:<3}'"),
        ("f'{{x}}'", "f'{x}'"),
        ("x = 'a', 'b'", "x = 'ab'"),
        ("import a", "import a as b"),
        ("from . import a", "from .. import a"),
        ("async def f(): pass", "def f(): pass"),
        ("x: int", "x: int = None"),
        ("x = 'ä'", "x = 'a'"),
        ("global a, b", "global ab"),
        ("lambda x, *, y=1: 0", "lambda x, *, y: 0"),
        ("lambda *, x, y=1: 0", "lambda *, x=1, y: 0"),
    ],
)
def test_everything_else_counts(text: str, other: str) -> None:
    indented = [f"def around():\n    {each}\n" for each in (text, other)]
    assert not same(text, other) and not same(*indented)


def test_what_cannot_be_parsed_counts_by_its_bytes() -> None:
    for text in ("def f(:\n", "x = 1\x00", "x = " + "(" * 500):
        digest = code_hash(text.encode())
        assert not digest.startswith(PREFIX) and not same(text, text + " ")


def test_deep_and_large_code_is_hashed() -> None:
    deep = "x = " + " + ".join(["1"] * 900)
    assert code_hash(deep.encode()).startswith(PREFIX) and not same(deep, deep + " + 1")
    sys.setrecursionlimit(sys.getrecursionlimit())
    assert code_hash(f"x = {'9' * 4000}".encode()).startswith(PREFIX)


CONSTANTS = st.one_of(
    st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none(), st.text(), st.binary()
)


@given(st.lists(CONSTANTS, min_size=1), st.data())
def test_any_changed_constant_changes_the_hash(values: list[object], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(values) - 1))
    changed = [*values]
    changed[index] = data.draw(CONSTANTS.filter(lambda value: repr(value) != repr(values[index])))
    assert same(f"x = {values!r}", f"x =  (  {values!r} ) # same")
    assert same(f"x = {values!r}", ast.unparse(ast.parse(f"x = {values!r}")))
    assert not same(f"x = {values!r}", f"x = {changed!r}")
