"""What a stream says, frame by frame; and `Stream`, with which the other tests of streams listen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

import pytest
from tests.emulator.test_rest_wire import Wire, call, wire

from rtdb_emulator.emulator import Emulator
from rtdb_emulator.pytest_plugin import Rtdb

KEEP_ALIVE = b"event: keep-alive\ndata: null\n\n"
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


class Stream:
    """One open stream; the server sends each frame as a chunk of its own."""

    def __init__(self, connection: Wire) -> None:
        self.wire = connection
        self.head = connection.head()

    def frame(self) -> bytes:
        """The next frame that is no keep-alive, which may come between any two; empty at the end of the stream."""
        while (frame := self.any_frame()) == KEEP_ALIVE:
            pass
        return frame

    def any_frame(self) -> bytes:
        """The next frame, or keep-alive."""
        size = int(self.wire.line(), 16)
        frame = self.wire.read(size)
        assert self.wire.line() == b"\r\n"
        return frame

    def event(self) -> tuple[str, object, object]:
        """Name, path and data of the next event."""
        frame = self.frame().decode()
        event, data, *end = frame.split("\n")
        assert end == ["", ""], frame
        message = json.loads(data.removeprefix("data: "))
        return event.removeprefix("event: "), message["path"], message["data"]


@contextmanager
def stream(emulator: Emulator, namespace: str, target: str, *headers: str, port: int | None = None) -> Iterator[Stream]:
    """A stream of which nothing but the head was read yet."""
    joint = "&" if "?" in target else "?"
    with wire(emulator, port) as connection:
        connection.ask("GET", f"{target}{joint}ns={namespace}", b"", "Accept: text/event-stream", *headers)
        yield Stream(connection)


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
        ("PUT", "/n/a.json", "5", ("put", "/a", 5)),
        ("PUT", "/n/a/b/c.json", '"deep"', ("put", "/a/b/c", "deep")),
        ("PUT", "/n.json", '{"x":[1]}', ("put", "/", {"x": [1]})),
        ("PUT", "/.json", '{"n":{"x":1},"m":2}', ("put", "/", {"x": 1})),
        ("PUT", "/.json", '{"m":2}', ("put", "/", None)),
        ("PUT", "/n/a.json", "null", ("put", "/a", None)),
        ("DELETE", "/n/a.json", None, ("put", "/a", None)),
        ("DELETE", "/n.json", None, ("put", "/", None)),
        ("DELETE", "/.json", None, ("put", "/", None)),
        ("POST", "/n.json", "7", ("put", f"/{PUSHED}", 7)),
        ("PATCH", "/n.json", '{"a":5,"c":null}', ("patch", "/", {"a": 5, "c": None})),
        ("PATCH", "/n.json", '{"a/b":5}', ("patch", "/", {"a/b": 5})),
        ("PATCH", "/n/a.json", '{"b":5}', ("patch", "/a", {"b": 5})),
        ("PATCH", "/.json", '{"n/a":5,"m":6}', ("patch", "/", {"a": 5})),
        ("PATCH", "/.json", '{"n":{"z":1},"m":6}', ("put", "/", {"z": 1})),
        ("PUT", "/n/a.json", '{".sv":{"increment":4}}', ("put", "/a", 5)),
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
        ("PUT", "/m.json", "1"),
        ("PUT", "/nn/a.json", "1"),
        ("PATCH", "/.json", '{"m":1}'),
        ("DELETE", "/m.json", None),
        ("PUT", "/n/a.json", "1"),
        ("PATCH", "/n.json", '{"a":1}'),
        ("DELETE", "/n/none.json", None),
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
