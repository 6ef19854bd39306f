"""What a stream says of a write, to who watches a location or a query, frame by frame."""

from urllib.parse import quote

import pytest

from rtdb_emulator.database import ADMIN, Change, Commit, Database
from rtdb_emulator.http.sse import Event, View
from rtdb_emulator.paths import split_path
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator.query import parse_query
from rtdb_emulator.tree import leaf
from rtdb_emulator_tests.helpers.wire import Stream, call, stream, wire

NOW = 1_700_000_000_000


Told = tuple[str, str, object]


class Commits:
    """Remembers the commits that it hears of."""

    watching = 1

    def __init__(self) -> None:
        self.heard: list[Commit] = []

    def committed(self, commit: Commit) -> None:
        self.heard.append(commit)

    def rules_changed(self) -> None:
        raise AssertionError("nobody changes rules here")


def seen(view: View, before: object, *writes: tuple[str, str, object]) -> list[Told]:
    """The events of a view when, after `before`, these writes (method, path, data) are made."""
    database, commits = Database("test", lambda: NOW), Commits()
    database.write((), before, ADMIN)
    with database.listening(commits):
        for method, place, data in writes:
            if method == "patch":
                assert isinstance(data, dict)
                database.update(split_path(place), data, ADMIN)
            else:
                database.write(split_path(place), data, ADMIN)
    return [(event.name, event.path, event.data) for commit in commits.heard for event in view.events(commit)]


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


PUTS: list[tuple[str, str, object, list[Told]]] = [
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


PATCHES: list[tuple[str, str, object, list[Told]]] = [
    # At the location and below it: what was sent.
    ("/l", "/l", {"a": 5}, [("patch", "/", {"a": 5})]),
    ("/l", "/l", {"a": 5, "n": {"m": [1]}}, [("patch", "/", {"a": 5, "n": {"m": [1]}})]),
    ("/l", "/l", {"a": 1, "b/c": 5}, [("patch", "/", {"a": 1, "b/c": 5})]),
    ("/l", "/l", {"a": None, "b/c": None}, [("patch", "/", {"a": None, "b/c": None})]),
    ("/l", "/l", {"/b//c/": 5}, [("patch", "/", {"b/c": 5})]),
    ("/l", "/l/b", {"c": 5, "n": 6}, [("patch", "/b", {"c": 5, "n": 6})]),
    ("/l", "/l/n/m", {"o": 5}, [("patch", "/n/m", {"o": 5})]),
    ("/", "/l", {"a": 5}, [("patch", "/l", {"a": 5})]),
    ("/l", "/l", {"a": {".sv": {"increment": 2}}, "t": {".sv": "timestamp"}}, [("patch", "/", {"a": 3, "t": NOW})]),
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


@pytest.mark.parametrize(
    ("method", "path", "written", "data", "events"),
    [("put", *put) for put in PUTS] + [("patch", *patch) for patch in PATCHES],
)
def test_a_write(method: str, path: str, written: str, data: object, events: list[Told]) -> None:
    """A PUT at or below the location is a put there, one above it a put of its whole value, any other silent; a PATCH
    is one patch, of what was sent at or below the location, or of what is inside of it.
    """
    assert seen(View(split_path(path)), BEFORE, (method, written, data)) == events


def test_events_are_of_their_own_commit() -> None:
    """Each write makes its own event, which shows the value of that moment."""
    writes: list[Told] = [("put", "/l/a", 2), ("patch", "/l", {"a": 3}), ("put", "/l/a", 3), ("put", "/l", None)]
    assert seen(View(("l",)), BEFORE, *writes) == [("put", "/a", 2), ("patch", "/", {"a": 3}), ("put", "/", None)]


def test_data_is_rendered_as_a_read() -> None:
    """Events show arrays where a read would."""
    assert seen(View(("l",)), None, ("put", "/l", {"0": "a", "1": "b"}), ("patch", "/", {"l/2": ["c"]})) == [
        ("put", "/", ["a", "b"]),
        ("patch", "/", {"2": ["c"]}),
    ]


NUMBERS = {"a": 1, "b": 2, "c": 3, "d": 4}


def window(order: str, **parameters: str) -> View:
    return View(("l",), parse_query({"orderBy": f'"{order}"', **parameters}))


FIRST_WINDOWS = [
    ("$value", {"startAt": "2", "endAt": "3"}, NUMBERS, {"b": 2, "c": 3}),
    ("$key", {"limitToLast": "2"}, NUMBERS, {"c": 3, "d": 4}),
    ("$key", {"limitToFirst": "2"}, ["x", "y", "z"], ["x", "y"]),
    ("$key", {"limitToFirst": "2"}, {"a": [1]}, {"a": [1]}),
    ("$value", {"startAt": "9"}, NUMBERS, {}),
    ("$key", {}, "leaf", {}),
    ("$key", {}, None, None),
]


@pytest.mark.parametrize(("order", "parameters", "data", "shown"), FIRST_WINDOWS)
def test_first_window(order: str, parameters: dict[str, str], data: object, shown: object) -> None:
    """The first event is a put of the window: empty where nothing is selected, null where nothing is."""
    database = Database("test", lambda: 0)
    database.write(("l",), data, ADMIN)
    assert window(order, **parameters).first(database.root) == Event("put", "/", shown)


MIDDLE = window("$value", startAt="2", endAt="3")
FIRST_TWO = window("$value", limitToFirst="2")
LAST_TWO = window("$key", limitToLast="2")
BY_CHILD = window("x", startAt="2")
RECORDS = {"a": {"x": 1, "y": 1}, "b": {"x": 2, "y": 2}}

WINDOW_WRITES: dict[str, tuple[View, object, str, object, list[Told]]] = {
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


WINDOW_PATCHES: dict[str, tuple[View, object, str, dict[str, object], list[Told]]] = {
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


ALL = {name: ("put", *write) for name, write in WINDOW_WRITES.items()} | {
    f"patch {name}": ("patch", *patch) for name, patch in WINDOW_PATCHES.items()
}


@pytest.mark.parametrize(("method", "view", "before", "path", "data", "events"), ALL.values(), ids=ALL.keys())
def test_a_write_in_a_window(
    method: str, view: View, before: object, path: str, data: object, events: list[Told]
) -> None:
    """Each child that changes in the window, enters or leaves it, is one put of its whole value or null; a PATCH of one
    child that stays in the window is a patch.
    """
    assert seen(view, {"l": before}, (method, path, data)) == events


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


CANCEL = b"event: cancel\ndata: null\n\n"
HEAD = (
    b"HTTP/1.1 200 OK\r\n"
    b"access-control-allow-origin: *\r\n"
    b"access-control-expose-headers: ETag\r\n"
    b"cache-control: no-cache\r\n"
    b"content-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n"
    b"\r\n"
)


@pytest.mark.parametrize("accept", ["text/event-stream", "text/html, text/event-stream;q=0.9"])
def test_a_stream_begins_with_all_there_is(rtdb: Rtdb, accept: str) -> None:
    """The head names the charset and no length, and the first frame puts the whole value at `/`."""
    rtdb.set("/n", {"a": "é", "b": [1, 2]})
    with wire(rtdb.emulator) as connection:
        connection.ask("GET", f"/n.json?ns={rtdb.namespace}", b"", f"Accept: {accept}")
        opened = Stream(connection)
        assert opened.head == HEAD
        assert opened.frame() == 'event: put\ndata: {"path":"/","data":{"a":"é","b":[1,2]}}\n\n'.encode()


def test_a_stream_of_nothing_begins_with_null(rtdb: Rtdb) -> None:
    """The first frame of an absent node puts null at `/`."""
    with stream(rtdb.emulator, rtdb.namespace, "/n.json") as opened:
        assert opened.frame() == b'event: put\ndata: {"path":"/","data":null}\n\n'


PUSHED = "<name>"


@pytest.mark.parametrize(
    ("method", "target", "body", "event"),
    [
        # What else a write means for a place is in `test_stream_events`.
        ("PUT", "/n/a/b/c.json", '"deep"', ("put", "/a/b/c", "deep")),
        ("PUT", "/.json", '{"n":{"x":1},"m":2}', ("put", "/", {"x": 1})),
        ("DELETE", "/n/a.json", None, ("put", "/a", None)),
        ("DELETE", "/.json", None, ("put", "/", None)),
        ("POST", "/n.json", "7", ("put", f"/{PUSHED}", 7)),
        ("PATCH", "/n.json", '{"a":5,"c":null}', ("patch", "/", {"a": 5, "c": None})),
        ("PATCH", "/.json", '{"n/a":5,"m":6}', ("patch", "/", {"a": 5})),
        ("PATCH", "/n.json", '{"a":{".sv":{"increment":4}}}', ("patch", "/", {"a": 5})),
    ],
)
def test_a_write_is_one_event(
    rtdb: Rtdb, method: str, target: str, body: str | None, event: tuple[str, str, object]
) -> None:
    """A write at, below or above the place is one event, with the path that was written and what is there now."""
    rtdb.set("/n", {"a": 1, "c": 2})
    with stream(rtdb.emulator, rtdb.namespace, "/n.json") as opened:
        assert opened.event() == ("put", "/", {"a": 1, "c": 2})
        reply = call(rtdb, method, target, body).json()
        name, path, data = event
        if PUSHED in path:
            path = f"/{reply['name']}"
        assert opened.event() == (name, path, data)
        rtdb.set("/n/end", True)
        assert opened.event() == ("put", "/end", True)


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("PUT", "/nn/a.json", "1"),
        ("DELETE", "/m.json", None),
        ("PUT", "/n/a.json", "1"),
        ("POST", "/n.json", "null"),
        ("PATCH", "/n.json", "[1]"),
    ],
)
def test_what_changes_nothing_here_is_no_event(rtdb: Rtdb, method: str, target: str, body: str | None) -> None:
    """A write elsewhere, one of the same value, and one that is refused say nothing."""
    rtdb.set("/n", {"a": 1})
    with stream(rtdb.emulator, rtdb.namespace, "/n.json") as opened:
        opened.event()
        call(rtdb, method, target, body)
        rtdb.set("/n/end", True)
        assert opened.event() == ("put", "/end", True)


def test_conditional_writes_are_heard_only_when_done(rtdb: Rtdb) -> None:
    """A conditional PUT is an event if its precondition holds, and none if it fails."""
    with stream(rtdb.emulator, rtdb.namespace, "/n.json") as opened:
        opened.event()
        assert call(rtdb, "PUT", "/n.json", "1", {"if-match": "other"}).status_code == 412
        assert call(rtdb, "PUT", "/n.json", "2", {"if-match": "null_etag"}).status_code == 200
        assert opened.event() == ("put", "/", 2)


def test_every_write_is_heard_once_and_in_order(rtdb: Rtdb) -> None:
    """A hundred writes are a hundred events in the order of the writes, for each of several listeners."""
    with (
        stream(rtdb.emulator, rtdb.namespace, "/n.json") as first,
        stream(rtdb.emulator, rtdb.namespace, "/.json") as second,
    ):
        first.event(), second.event()
        for number in range(100):
            rtdb.set(f"/n/k{number}", number)
        assert [first.event() for _ in range(100)] == [("put", f"/k{number}", number) for number in range(100)]
        assert [second.event() for _ in range(100)] == [("put", f"/n/k{number}", number) for number in range(100)]


def test_frames_have_line_feeds_alone(rtdb: Rtdb) -> None:
    """No frame has a carriage return or a comment, also when the data has line breaks."""
    with stream(rtdb.emulator, rtdb.namespace, "/n.json") as opened:
        opened.frame()
        rtdb.set("/n", "a\r\nb\n: c")
        assert opened.frame() == b'event: put\ndata: {"path":"/","data":"a\\r\\nb\\n: c"}\n\n'


@pytest.mark.parametrize(
    "query", ["orderBy='$key'&startAt='b'&limitToFirst=2", "orderBy='$key'&endAt='c'&limitToLast=2"]
)
def test_a_stream_of_a_query_shows_its_window(rtdb: Rtdb, query: str) -> None:
    """A stream of a query begins with its window, says what enters, changes or leaves it, and nothing else."""
    rtdb.set("/n", {key: key for key in "abcd"})
    target = f"/n.json?{quote(query.replace(chr(39), chr(34)), safe='=&')}"
    with stream(rtdb.emulator, rtdb.namespace, target) as opened:
        assert opened.event() == ("put", "/", {"b": "b", "c": "c"})
        rtdb.set("/n/a", "outside")
        rtdb.set("/n/d", "outside")
        rtdb.set("/n/c", {"x": 1})
        assert opened.event() == ("put", "/c", {"x": 1})
        call(rtdb, "PATCH", "/n/c.json", '{"y":2}')
        assert opened.event() == ("patch", "/c", {"y": 2})
        rtdb.set("/n/bb", 1)
        left = "/c" if "First" in query else "/b"
        assert [opened.event(), opened.event()] == [("put", left, None), ("put", "/bb", 1)]
        rtdb.set("/n/bb", None)
        back = {"x": 1, "y": 2} if "First" in query else "b"
        assert [opened.event(), opened.event()] == [("put", "/bb", None), ("put", left, back)]


@pytest.mark.parametrize("target", ["/n.json?shallow=true", "/n/.priority.json"])
def test_a_stream_is_of_a_whole_node(rtdb: Rtdb, target: str) -> None:
    """What can't be streamed is refused with 400."""
    assert call(rtdb, "GET", target, None, {"Accept": "text/event-stream"}).status_code == 400
