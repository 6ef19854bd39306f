"""Which mutants are generated of a source, and how they are told apart."""

from __future__ import annotations

import ast
import textwrap

import pytest
from tests.mutation.generate import Mutant, generate


def mutants(text: str) -> list[Mutant]:
    return generate("package/parts/module.py", textwrap.dedent(text).encode())


def changes(body: str, returns: str = "object") -> set[str]:
    """What becomes of the only statement in a function, or of its head."""
    text = f"def function(self, a, b, c, last=None) -> {returns}:\n    b = c = 1\n" + textwrap.indent(body, "    ")
    found = generate("module.py", text.encode())
    first = text[: text.index(body.strip().split("\n")[0])].encode()
    for mutant in found:
        ast.parse(mutant.apply(text.encode()))
    return {mutant.new for mutant in found if mutant.start >= len(first) and mutant.place == "module.function"}


@pytest.mark.parametrize(
    "text",
    [
        "def f(a):\n    a(\n        1,\n        key=2,\n    )\n    return a\n",
        "def f(a):\n    if (\n        a.is_on\n        and a.is_new\n    ):\n        return 5\n    return a\n",
        "def f(a):\n    return a  # a\n\ndef g(a):\n    raise ValueError(\n        a\n    )\n",
    ],
)
def test_what_comes_after_a_mutant_keeps_its_lines(text: str) -> None:
    """The code after a mutant is the same, so that a function that is imported already can be given the mutant's."""
    for mutant in mutants(text):
        after = ast.parse(mutant.apply(text.encode()))
        assert len(mutant.apply(text.encode()).splitlines()) == len(text.splitlines()), mutant
        assert [node.lineno for node in after.body] == [node.lineno for node in ast.parse(text).body]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("if a < b:\n    pass", {"if True:", "if False:", "if a <= b:"}),
        ("if a >= b:\n    pass", {"if True:", "if False:", "if a > b:"}),
        ("if a is not None:\n    pass", {"if True:", "if False:"}),
        ("c = a not in b", {"nothing", "c = a in b"}),
        ("c = a is not b", {"nothing", "c = a is b"}),
        ("c = a < b", {"nothing", "c = a <= b", "c = a >= b"}),
        ("if a and b:\n    pass", {"if False:", "if a:", "if b:"}),
        ("if a or b:\n    pass", {"if True:", "if a:", "if b:"}),
        ("if a and (b or c):\n    pass", {"if False:", "if a:", "if (b or c):", "if a and (b):", "if a and (c):"}),
        ("while not a:\n    pass", {"while False:"}),
        ("c = not a", {"nothing", "c = a"}),
        ("c = a + b", {"nothing", "c = a - b"}),
        ("c = a // (b)", {"nothing", "c = a * (b)"}),
        ("c = min(a, b)", {"nothing", "c = max(a, b)"}),
        ("c = a(b, c)", {"nothing", "c = a(c, b)"}),
        ("c = a if b else 0", {"nothing", "c = a if True else 0", "c = a if False else 0", "c = a if b else 1"}),
        ("a.x = 1.5", {"nothing", "a.x = 0"}),
        ("a.x = True", {"nothing", "a.x = False"}),
        ("a.x = 300", {"nothing", "a.x = 0"}),
        ("a(b)", {"nothing"}),
        ("a(b, key=c)", {"nothing", "a(b)"}),
        ("a(key=b, other=c)", {"nothing", "a(other=c)", "a(key=b)"}),
        ("return a(b)", {"return None"}),
        ("raise ValueError(a + 1)", {"nothing"}),
        ("with self._lock:\n    pass", {'with __import__("contextlib").nullcontext():'}),
        ("with a.open():\n    pass", set()),
        ("c = [x for x in a if x]", {"nothing", "c = [x for x in a if True]", "c = [x for x in a if False]"}),
        ("c = sorted(a, key=lambda x: x.y)", {"nothing", "c = sorted(a)", "c = sorted(a, key=lambda x: None)"}),
        ("for x in a:\n    continue", {"nothing", "break"}),
        ("for x in a:\n    break", {"nothing"}),
    ],
)
def test_a_statement_is_broken_in_these_ways(body: str, expected: set[str]) -> None:
    """Each kind of statement and expression has its mutants, and no others."""
    assert changes(body) == expected


def test_a_truth_is_answered_with_the_other_one() -> None:
    """What returns a bool returns True, and False, instead of None."""
    assert changes("return a is None", returns="bool") == {"return True", "return False"}


@pytest.mark.parametrize(
    "body",
    [
        "self.events.emit('a', 1, key=b)",
        "a: int | None",
        "d = f'{a + 1} {b if c else 2}'",
        "'a docstring'",
        "assert a < b",
        "pass",
        "d = 'text'",
    ],
)
def test_what_only_people_read_is_left_alone(body: str) -> None:
    """Texts, what is emitted, annotations and assertions have no mutants, nor has the only assignment of a name."""
    assert changes(body) == set()


def test_a_mutant_is_named_by_what_it_changes() -> None:
    """A mutant keeps its name when lines move or the file does, and two like statements have two names."""
    text = """
    class Thing:
        def work(self) -> None:
            self.x()
            self.x()
    """
    names = [str(mutant) for mutant in mutants(text)]
    assert names == ["module.Thing.work: self.x() -> nothing", "module.Thing.work: self.x() (#2) -> nothing"]
    moved = generate("elsewhere/module.py", b"# a comment\n\n" + textwrap.dedent(text).encode())
    assert [str(mutant) for mutant in moved] == names


def test_a_mutant_changes_its_own_place_only() -> None:
    """The text around a mutant stays as it is, byte by byte, also where it isn't ASCII."""
    source = '# Zürich ─►\ndef work(a: int) -> None:\n    "Größe"; print(a, key="ü")  # hier\n'.encode()
    (dropped, *_) = (mutant for mutant in generate("module.py", source) if mutant.new == "nothing")
    assert dropped.apply(source) == source.replace('print(a, key="ü")'.encode(), b"pass")
    assert dropped.lines == (3,)


def test_what_runs_at_the_import_is_reached_by_what_runs_later() -> None:
    """The lines of a mutant outside of functions are those that read its name, or else those of all bodies; the lines
    of a default are those of its function.
    """
    text = """
    LIMIT = 5
    LEAST = 3
    def one(a=3):
        return a
    def two():
        return LIMIT
    """
    lines = {mutant.new: mutant.lines for mutant in mutants(text)}
    assert lines["LIMIT = 6"] == (7,)
    assert lines["LEAST = 4"] == (5, 7)
    assert lines["a=4"] == (5,)
