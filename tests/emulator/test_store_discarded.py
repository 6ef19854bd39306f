"""The end of large nodes: in steps, and of all that nothing else refers to."""

from __future__ import annotations

from itertools import pairwise
from weakref import ref

from tests.emulator.sockets import until

from rtdb_emulator import Emulator
from rtdb_emulator.jsondata import parse
from rtdb_emulator.store import Discarded


class Text(str):
    """A text whose end can be seen."""


class Texts:
    """Many texts that are members of a tree, and how many of them are left."""

    def __init__(self) -> None:
        self._made: list[ref[Text]] = []

    @property
    def left(self) -> int:
        return sum(made() is not None for made in self._made)

    def tree(self) -> dict[str, object]:
        below = {f"a{number}": {"b": {f"c{more}": {"d": self._text()} for more in range(200)}} for number in range(20)}
        return {**below, "e": self._text()}

    def _text(self) -> Text:
        made = Text("x")
        self._made.append(ref(made))
        return made


def test_a_large_node_is_freed_in_steps() -> None:
    """Each step frees a few of the nodes, also of those far below; what a reader still holds stays."""
    texts, discarded, woken = Texts(), Discarded(), list[int]()
    discarded.attach(lambda: woken.append(1))
    node = parse(texts.tree(), now=0)
    held = node.at(["a3", "b"])
    discarded.add(node)
    discarded.add(parse({"small": {"a": 1}}, now=0))
    del node
    assert woken == [1]
    left = [texts.left for _ in discarded.freeing()]
    assert left[0] > 3_800
    assert max(before - after for before, after in pairwise(left)) < 200
    assert texts.left == len(held.members) == 200
    del held
    assert texts.left == 0


def test_a_deleted_tree_leaves_nothing() -> None:
    """An emulator frees in steps what was deleted or replaced; one that doesn't serve frees it at once."""
    texts = Texts()
    with Emulator() as emulator:
        for again in (1, None):
            emulator.set("demo", "/a", texts.tree())
            emulator.set("demo", "/a", again)
            until(lambda: texts.left == 0)
    emulator.set("demo", "/a", texts.tree())
    emulator.set("demo", "/a", None)
    assert texts.left == 0
