"""Which events a write means for who watches the window of a query."""

import pytest

from rtdb_emulator.database import ADMIN, Change, Commit, Database
from rtdb_emulator.http.sse import Event, View
from rtdb_emulator.paths import split_path
from rtdb_emulator.query import parse_query
from rtdb_emulator.tree import leaf

NUMBERS = {"a": 1, "b": 2, "c": 3, "d": 4}


def window(order: str, **parameters: str) -> View:
    return View(("l",), parse_query({"orderBy": f'"{order}"', **parameters}))


FIRST = [
    ("$value", {"startAt": "2", "endAt": "3"}, NUMBERS, {"b": 2, "c": 3}),
    ("$key", {"limitToLast": "2"}, NUMBERS, {"c": 3, "d": 4}),
    ("$key", {"limitToFirst": "2"}, ["x", "y", "z"], ["x", "y"]),
    ("$key", {"limitToFirst": "2"}, {"a": [1]}, {"a": [1]}),
    ("$value", {"startAt": "9"}, NUMBERS, {}),
    ("$key", {}, "leaf", {}),
    ("$key", {}, None, None),
]


@pytest.mark.parametrize(("order", "parameters", "data", "shown"), FIRST)
def test_first(order: str, parameters: dict[str, str], data: object, shown: object) -> None:
    """The first event is a put of the window: empty where nothing is selected, null where nothing is."""
    database = Database("test", lambda: 0)
    database.write(("l",), data, ADMIN)
    assert window(order, **parameters).first(database.root) == Event("put", "/", shown)


MIDDLE = window("$value", startAt="2", endAt="3")
FIRST_TWO = window("$value", limitToFirst="2")
LAST_TWO = window("$key", limitToLast="2")
BY_CHILD = window("x", startAt="2")
RECORDS = {"a": {"x": 1, "y": 1}, "b": {"x": 2, "y": 2}}

Shown = tuple[str, str, object]
WRITES: dict[str, tuple[View, object, str, object, list[Shown]]] = {
    "outside": (MIDDLE, NUMBERS, "l/a", 0, []),
    "outside, new": (MIDDLE, NUMBERS, "l/e", 9, []),
    "outside, gone": (MIDDLE, NUMBERS, "l/a", None, []),
    "unchanged": (MIDDLE, NUMBERS, "l/b", 2, []),
    "beside": (MIDDLE, NUMBERS, "x", 2, []),
    "changed": (MIDDLE, NUMBERS, "l/b", 2.5, [("put", "/b", 2.5)]),
    "entering": (MIDDLE, NUMBERS, "l/e", 2, [("put", "/e", 2)]),
    "entering by a change": (MIDDLE, NUMBERS, "l/a", 2, [("put", "/a", 2)]),
    "leaving": (MIDDLE, NUMBERS, "l/b", 9, [("put", "/b", None)]),
    "deleted": (MIDDLE, NUMBERS, "l/b", None, [("put", "/b", None)]),
    "whole value replaced": (MIDDLE, NUMBERS, "l", {"b": 2, "e": 3}, [("put", "/c", None), ("put", "/e", 3)]),
    "whole value deleted": (MIDDLE, NUMBERS, "l", None, [("put", "/b", None), ("put", "/c", None)]),
    "whole value a leaf": (MIDDLE, NUMBERS, "l", 2, [("put", "/b", None), ("put", "/c", None)]),
    "out of nothing": (MIDDLE, None, "l", NUMBERS, [("put", "/b", 2), ("put", "/c", 3)]),
    "out of a leaf": (MIDDLE, 2, "l/b", 2, [("put", "/b", 2)]),
    "pushed out of a full window": (FIRST_TWO, NUMBERS, "l/e", 0, [("put", "/b", None), ("put", "/e", 0)]),
    "sliding in after a deletion": (FIRST_TWO, NUMBERS, "l/a", None, [("put", "/a", None), ("put", "/c", 3)]),
    "sliding in after a change": (FIRST_TWO, NUMBERS, "l/a", 9, [("put", "/a", None), ("put", "/c", 3)]),
    "beyond a full window": (FIRST_TWO, NUMBERS, "l/e", 5, []),
    "other order in the window": (FIRST_TWO, NUMBERS, "l/a", 2.5, [("put", "/a", 2.5)]),
    "last ones, pushed out": (LAST_TWO, NUMBERS, "l/e", 0, [("put", "/c", None), ("put", "/e", 0)]),
    "last ones, sliding in": (LAST_TWO, NUMBERS, "l/d", None, [("put", "/d", None), ("put", "/b", 2)]),
    "below a child": (BY_CHILD, RECORDS, "l/b/y", 9, [("put", "/b", {"x": 2, "y": 9})]),
    "below a child, outside": (BY_CHILD, RECORDS, "l/a/y", 9, []),
    "below a child, entering": (BY_CHILD, RECORDS, "l/a/x", 9, [("put", "/a", {"x": 9, "y": 1})]),
    "below a child, leaving": (BY_CHILD, RECORDS, "l/b/x", None, [("put", "/b", None)]),
    "priority of a child": (LAST_TWO, NUMBERS, "l/d/.priority", 1, [("put", "/d", 4)]),
}


class Commits:
    watching = 1

    def __init__(self) -> None:
        self.heard: list[Commit] = []

    def committed(self, commit: Commit) -> None:
        self.heard.append(commit)

    def rules_changed(self) -> None:
        raise AssertionError("nobody changes rules here")


def shown(view: View, before: object, path: str, data: object, *, patch: bool = False) -> list[Shown]:
    """The events of a write, or of a PATCH, at a path."""
    database = Database("test", lambda: 0)
    database.write(("l",), before, ADMIN)
    commits = Commits()
    place = split_path(path)
    with database.listening(commits):
        if patch:
            assert isinstance(data, dict)
            database.update(place, data, ADMIN)
        else:
            database.write(place, data, ADMIN)
    return [(event.name, event.path, event.data) for commit in commits.heard for event in view.events(commit)]


@pytest.mark.parametrize(("view", "before", "path", "data", "events"), WRITES.values(), ids=WRITES.keys())
def test_write(view: View, before: object, path: str, data: object, events: list[Shown]) -> None:
    """Each child that changes in the window, enters or leaves it, is one put of its whole value or null."""
    assert shown(view, before, path, data) == events


PATCHES: dict[str, tuple[View, object, str, dict[str, object], list[Shown]]] = {
    "of a child": (BY_CHILD, RECORDS, "l/b", {"y": 9}, [("patch", "/b", {"y": 9})]),
    "below a child": (BY_CHILD, RECORDS, "l/b/y", {"z": 9}, [("patch", "/b/y", {"z": 9})]),
    "of a child, entering": (BY_CHILD, RECORDS, "l/a", {"x": 5}, [("put", "/a", {"x": 5, "y": 1})]),
    "of a child, leaving": (BY_CHILD, RECORDS, "l/b", {"x": 1, "y": 5}, [("put", "/b", None)]),
    "of a child, outside": (BY_CHILD, RECORDS, "l/a", {"y": 5}, []),
    "of a child, unchanged": (BY_CHILD, RECORDS, "l/b", {"y": 2}, []),
    "of a child's priority": (BY_CHILD, RECORDS, "l/b", {".priority": 1, "y": 9}, [("put", "/b", {"x": 2, "y": 9})]),
    "of several": (
        MIDDLE,
        NUMBERS,
        "l",
        {"a": 2, "b": None, "c": 2.5, "d": 9},
        [("put", "/b", None), ("put", "/a", 2), ("put", "/c", 2.5)],
    ),
    "above": (MIDDLE, NUMBERS, "", {"l/b": 2.5, "x": 1}, [("put", "/b", 2.5)]),
    "above, replacing all": (MIDDLE, NUMBERS, "", {"l": {"b": 2, "e": 3}}, [("put", "/c", None), ("put", "/e", 3)]),
}


@pytest.mark.parametrize(("view", "before", "path", "data", "events"), PATCHES.values(), ids=PATCHES.keys())
def test_patch(view: View, before: object, path: str, data: dict[str, object], events: list[Shown]) -> None:
    """A PATCH of one child that stays in the window is a patch; what else it does to the window is puts."""
    assert shown(view, before, path, data, patch=True) == events


def test_captured_window() -> None:
    """Four keys from the sixth on: of ten written in falling order, only those in the window are told of."""
    database = Database("test", lambda: 0)
    database.write(("l",), {f"_{number}": 0 for number in range(4, 8)}, ADMIN)
    view = window("$key", startAt='"_6"', limitToFirst="4")
    assert view.first(database.root) == Event("put", "/", {"_6": 0, "_7": 0})
    told = []
    for number in range(12, 2, -1):
        before = database.root
        database.write(("l", f"_{number}"), number, ADMIN)
        changes = (Change(("l", f"_{number}"), leaf(number)),)
        told += view.events(Commit(before, database.root, ("l", f"_{number}"), changes, patch=False))
    assert told == [Event("put", f"/_{number}", number) for number in (9, 8, 7, 6)]
