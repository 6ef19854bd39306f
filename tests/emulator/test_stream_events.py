"""Which events a write means for who watches a location."""

import pytest

from rtdb_emulator.database import ADMIN, Commit, Database
from rtdb_emulator.http.sse import Event, View
from rtdb_emulator.paths import split_path

NOW = 1_700_000_000_000


class Recorder:
    """Turns commits into the events of one view."""

    watching = 1

    def __init__(self, view: View) -> None:
        self._view = view
        self.events: list[Event] = []

    def committed(self, commit: Commit) -> None:
        self.events += self._view.events(commit)

    def rules_changed(self) -> None:
        raise AssertionError("nobody changes rules here")


def seen(path: str, before: object, writes: list[tuple[str, str, object]]) -> list[tuple[str, str, object]]:
    """The events of a view at `path` when, after `before`, these writes (method, path, data) are made."""
    database = Database("test", lambda: NOW)
    database.write((), before, ADMIN)
    recorder = Recorder(View(split_path(path)))
    with database.listening(recorder):
        for method, place, data in writes:
            if method == "patch":
                assert isinstance(data, dict)
                database.update(split_path(place), data, ADMIN)
            else:
                database.write(split_path(place), data, ADMIN)
    return [(event.name, event.path, event.data) for event in recorder.events]


BEFORE = {"l": {"a": 1, "b": {"c": 2, "d": 3}}, "x": 1}

FIRST = [
    ("/", {"l": {"a": 1, "b": {"c": 2, "d": 3}}, "x": 1}),
    ("/l/b", {"c": 2, "d": 3}),
    ("/x", 1),
    ("/n", None),
    ("/x/n", None),
]


@pytest.mark.parametrize(("path", "data"), FIRST)
def test_first(path: str, data: object) -> None:
    """The first event is a put of the whole value, or of null."""
    database = Database("test", lambda: NOW)
    database.write((), BEFORE, ADMIN)
    assert View(split_path(path)).first(database.root) == Event("put", "/", data)


PUTS: list[tuple[str, str, object, list[tuple[str, str, object]]]] = [
    # At the location and below it: the written path and what is there then.
    ("/l", "/l", 5, [("put", "/", 5)]),
    ("/l", "/l", None, [("put", "/", None)]),
    ("/l", "/l/a", 5, [("put", "/a", 5)]),
    ("/l", "/l/a", {"y": [1, 2]}, [("put", "/a", {"y": [1, 2]})]),
    ("/l", "/l/b/c", 5, [("put", "/b/c", 5)]),
    ("/l", "/l/new/deep/child", 5, [("put", "/new/deep/child", 5)]),
    ("/l", "/l/a/below/leaf", 5, [("put", "/a/below/leaf", 5)]),
    ("/l", "/l/b/c", None, [("put", "/b/c", None)]),
    ("/l", "/l/b", {}, [("put", "/b", None)]),
    ("/l", "/l/a", {".sv": "timestamp"}, [("put", "/a", NOW)]),
    ("/l", "/l/a", {".sv": {"increment": 2}}, [("put", "/a", 3)]),
    ("/l", "/l/a", {".value": 5, ".priority": 1}, [("put", "/a", 5)]),
    ("/", "/x", 2, [("put", "/x", 2)]),
    ("/", "/", {"y": 1}, [("put", "/", {"y": 1})]),
    ("/n", "/n/a", 1, [("put", "/a", 1)]),
    # A priority changes its node.
    ("/l", "/l/.priority", 1, [("put", "/", {"a": 1, "b": {"c": 2, "d": 3}})]),
    ("/l", "/l/b/.priority", 1, [("put", "/b", {"c": 2, "d": 3})]),
    # Above the location: its new value.
    ("/l/b", "/l", {"b": {"c": [7]}}, [("put", "/", {"c": [7]})]),
    ("/l/b", "/l", {"a": 1}, [("put", "/", None)]),
    ("/l/b", "/l", 5, [("put", "/", None)]),
    ("/l/b", "/", {"l": {"b": 5}}, [("put", "/", 5)]),
    ("/l/b/c", "/", None, [("put", "/", None)]),
    ("/n/m", "/n", {"m": 1}, [("put", "/", 1)]),
    # Beside it, or without a change: nothing.
    ("/l", "/x", 2, []),
    ("/l/a", "/l/b", 2, []),
    ("/l/b", "/l/bb", 2, []),
    ("/x/n", "/x/m", 2, []),
    ("/l", "/l/a", 1, []),
    ("/l", "/l/n", None, []),
    ("/l", "/l/a/n", None, []),
    ("/l", "/l/a/.priority", None, []),
    ("/l", "/l/n/.priority", 1, []),
    ("/l/b", "/l", {"a": 9, "b": {"c": 2, "d": 3}}, []),
    ("/l/b", "/l/.priority", 9, []),
    ("/n", "/", {"l": 1}, []),
]


@pytest.mark.parametrize(("path", "written", "data", "events"), PUTS)
def test_put(path: str, written: str, data: object, events: list[tuple[str, str, object]]) -> None:
    """A write at or below the location is a put there, one above it a put of its whole value, any other silent."""
    assert seen(path, BEFORE, [("put", written, data)]) == events


PATCHES: list[tuple[str, str, dict[str, object], list[tuple[str, str, object]]]] = [
    # At the location and below it: what was sent.
    ("/l", "/l", {"a": 5}, [("patch", "/", {"a": 5})]),
    ("/l", "/l", {"a": 5, "n": {"m": [1]}}, [("patch", "/", {"a": 5, "n": {"m": [1]}})]),
    ("/l", "/l", {"a": 1, "b/c": 5}, [("patch", "/", {"a": 1, "b/c": 5})]),
    ("/l", "/l", {"a": None, "b/c": None}, [("patch", "/", {"a": None, "b/c": None})]),
    ("/l", "/l", {"/b//c/": 5}, [("patch", "/", {"b/c": 5})]),
    ("/l", "/l/b", {"c": 5, "n": 6}, [("patch", "/b", {"c": 5, "n": 6})]),
    ("/l", "/l/n/m", {"o": 5}, [("patch", "/n/m", {"o": 5})]),
    ("/", "/l", {"a": 5}, [("patch", "/l", {"a": 5})]),
    (
        "/l",
        "/l",
        {"a": {".sv": {"increment": 2}}, "t": {".sv": "timestamp"}},
        [("patch", "/", {"a": 3, "t": NOW})],
    ),
    ("/l", "/l/b", {"c/.priority": 1, "d": 5}, [("patch", "/b", {"c": 2, "d": 5})]),
    # The priority of the patched node itself can't be said by a patch.
    ("/l", "/l/b", {".priority": 1, "d": 5}, [("put", "/b", {"c": 2, "d": 5})]),
    ("/l/b", "/l/b", {".priority": 1, "d": 5}, [("put", "/", {"c": 2, "d": 5})]),
    # Above the location: what is inside of it, and that relative to it.
    ("/l", "/", {"l/a": 5, "x": 9}, [("patch", "/", {"a": 5})]),
    ("/l", "/", {"l/a": 5, "l/b/c": None, "l/n": 1}, [("patch", "/", {"a": 5, "b/c": None, "n": 1})]),
    ("/l/b", "/l", {"b/c": 5, "a": 9}, [("patch", "/", {"c": 5})]),
    ("/l", "/", {"l/a": 1, "l/b/c": 5}, [("patch", "/", {"b/c": 5})]),
    ("/l", "/", {"l": {"a": 5}, "x": 9}, [("put", "/", {"a": 5})]),
    ("/l/b", "/", {"l": {"b": [5]}, "x": 9}, [("put", "/", [5])]),
    ("/l/b", "/", {"l": None}, [("put", "/", None)]),
    ("/l/b", "/", {"l/b/c": 5, "l/b/.priority": 1}, [("put", "/", {"c": 5, "d": 3})]),
    # Beside it, or without a change: nothing.
    ("/l", "/", {"x": 9}, []),
    ("/l", "/", {}, []),
    ("/l", "/l", {"a": 1, "b/c": 2, "n": None}, []),
    ("/l", "/", {"x": 9, "l/a": 1}, []),
    ("/l", "/", {"x": 9, "l/.priority": None}, []),
    ("/l/b", "/l", {"a": 9, "n": 1}, []),
    ("/l/b", "/", {"l/b": {"c": 2, "d": 3}}, []),
]


@pytest.mark.parametrize(("path", "written", "data", "events"), PATCHES)
def test_patch(path: str, written: str, data: dict[str, object], events: list[tuple[str, str, object]]) -> None:
    """A PATCH is one patch, of what was sent at or below the location, or of what is inside of it."""
    assert seen(path, BEFORE, [("patch", written, data)]) == events


def test_events_are_of_their_own_commit() -> None:
    """Each write makes its own event, which shows the value of that moment."""
    writes: list[tuple[str, str, object]] = [
        ("put", "/l/a", 2),
        ("patch", "/l", {"a": 3}),
        ("put", "/l/a", 3),
        ("put", "/l", None),
    ]
    assert seen("/l", BEFORE, writes) == [("put", "/a", 2), ("patch", "/", {"a": 3}), ("put", "/", None)]


def test_data_is_rendered_as_a_read() -> None:
    """Events show arrays where a read would."""
    assert seen("/l", None, [("put", "/l", {"0": "a", "1": "b"}), ("patch", "/", {"l/2": ["c"]})]) == [
        ("put", "/", ["a", "b"]),
        ("patch", "/", {"2": ["c"]}),
    ]
