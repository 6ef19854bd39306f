"""How streams begin and end: permission, silence, clients that go or don't read; replayed, one is what a read shows."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from rtdb_emulator.database import ADMIN, Commit, Database
from rtdb_emulator.emulator import Emulator
from rtdb_emulator.errors import BadRequest
from rtdb_emulator.http import server, sse
from rtdb_emulator.http.sse import Event, View
from rtdb_emulator.jsondata import parse, render
from rtdb_emulator.paths import split_path
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator.query import Query, parse_query
from rtdb_emulator.tree import EMPTY, Node, Path, branch
from rtdb_emulator_tests.helpers.wire import KEEP_ALIVE, call, stream, wire
from rtdb_emulator_tests.test_rest_auth import token
from rtdb_emulator_tests.test_stream_events import CANCEL

SIGNED_IN = {"rules": {".read": "auth !== null", ".write": True}}
DENIED = {"error": "Permission denied"}


@pytest.fixture
def own() -> Iterator[Emulator]:
    """An emulator for one test, which may be stopped."""
    with Emulator(keep_alive=60) as emulator:
        yield emulator


def until(condition: Callable[[], bool]) -> None:
    """Return once it holds; a failure after ten seconds."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_silence_is_broken_by_keep_alives() -> None:
    """A stream on which nothing happens says so again and again, and still hears what comes."""
    with Emulator(keep_alive=0.05) as emulator, stream(emulator, "ns", "/n.json") as opened:
        opened.frame()
        assert [opened.any_frame() for _ in range(3)] == [KEEP_ALIVE] * 3
        emulator.set("ns", "/n", 1)
        assert opened.frame() == b'event: put\ndata: {"path":"/","data":1}\n\n'


def test_a_stream_that_may_not_be_read_is_401(rtdb: Rtdb) -> None:
    """A stream that the rules forbid is an ordinary JSON error, and never begins."""
    rtdb.emulator.set_rules(rtdb.namespace, SIGNED_IN)
    response = call(rtdb, "GET", "/n.json", None, {"Accept": "text/event-stream"})
    assert (response.status_code, response.json()) == (401, DENIED)
    assert response.headers["content-type"] == "application/json; charset=utf-8"


@pytest.mark.parametrize(
    "forbid",
    [lambda rtdb: rtdb.emulator.set_rules(rtdb.namespace, {"rules": {}}), lambda rtdb: rtdb.set("/open", None)],
    ids=["rules", "data"],
)
def test_a_stream_that_may_no_longer_be_read_is_cancelled(rtdb: Rtdb, forbid: Callable[[Rtdb], None]) -> None:
    """When new rules, or new data that the rules ask for, forbid reading, the stream ends with `cancel`."""
    rtdb.emulator.set_rules(rtdb.namespace, {"rules": {".read": "data.child('open').val() === true"}})
    rtdb.set("/open", True)
    with stream(rtdb.emulator, rtdb.namespace, "/.json") as opened:
        opened.frame()
        forbid(rtdb)
        assert [opened.frame(), opened.frame()] == [CANCEL, b""]
        until(lambda: rtdb.emulator.listeners(rtdb.namespace) == 0)


def test_rules_that_change_before_the_first_frame_count(rtdb: Rtdb) -> None:
    """A stream that was let in, and may no longer be read when it begins, shows nothing."""
    rtdb.set("/n", "secret")
    with rtdb.faults.hold(moment="after") as hold, wire(rtdb.emulator) as connection:
        connection.ask("GET", f"/n.json?ns={rtdb.namespace}", b"", "Accept: text/event-stream")
        hold.wait()
        rtdb.emulator.set_rules(rtdb.namespace, {"rules": {}})
        hold.release()
        connection.head()
        size = int(connection.line(), 16)
        assert connection.read(size) == CANCEL


def test_a_stream_that_may_still_be_read_goes_on(rtdb: Rtdb) -> None:
    """Rules that still allow reading don't disturb a user's or an admin's stream."""
    with (
        stream(rtdb.emulator, rtdb.namespace, f"/n.json?auth={token(sub='alice')}") as user,
        stream(rtdb.emulator, rtdb.namespace, "/n.json", "Authorization: Bearer owner") as admin,
    ):
        user.frame(), admin.frame()
        rtdb.emulator.set_rules(rtdb.namespace, SIGNED_IN)
        rtdb.set("/n", 1)
        assert user.event() == admin.event() == ("put", "/", 1)


def test_a_client_that_goes_is_forgotten(rtdb: Rtdb) -> None:
    """When a client closes its stream, the database no longer knows it."""
    with stream(rtdb.emulator, rtdb.namespace, "/n.json") as opened:
        opened.frame()
        assert rtdb.emulator.listeners(rtdb.namespace) == 1
    until(lambda: rtdb.emulator.listeners(rtdb.namespace) == 0)


def test_a_client_that_goes_without_having_read_is_forgotten(rtdb: Rtdb) -> None:
    """When a client closes a stream on which much waits for it, the database no longer knows it."""
    with stream(rtdb.emulator, rtdb.namespace, "/n.json") as opened:
        opened.frame()
        for number in range(20):
            rtdb.set("/n", f"{number}" * 1_000_000)
    until(lambda: rtdb.emulator.listeners(rtdb.namespace) == 0)


def test_a_client_that_does_not_read_holds_nobody_up(own: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers and other listeners don't wait for a listener that never reads, which is cut off when too much waits."""
    monkeypatch.setattr(sse, "BACKLOG", 100)
    with stream(own, "ns", "/n.json") as idle, stream(own, "ns", "/n.json") as reader:
        reader.frame()
        for number in range(150):
            own.set("ns", "/n", [number, "x" * 200_000])
            assert reader.frame().startswith(b'event: put\ndata: {"path":"/","data":[%d,' % number)
        until(lambda: own.listeners("ns") == 1)
        assert len(idle.wire.to_the_end()) < 100 * 200_000
        own.set("ns", "/n", "end")
        assert reader.event() == ("put", "/", "end")


def test_streams_and_holds_end_with_the_emulator(
    own: Emulator, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty open streams, a held request, a slow one and a half one don't keep the emulator from stopping at once."""
    # A stop that has to wait for one of them lasts longer than the test waits for the stop.
    monkeypatch.setattr(server, "STOP_GRACE", 30)
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(stream(own, "ns", "/n.json")) for _ in range(20)]
        for opened in streams:
            opened.frame()
        hold = own.faults.hold(path="/held")
        own.faults.delay(3600, path="/slow")
        held, slow, idle = (stack.enter_context(wire(own)) for _ in range(3))
        held.ask("PUT", "/held.json?ns=ns", b"1")
        hold.wait()
        slow.ask("PUT", "/slow.json?ns=ns", b"1")
        idle.ask("GET", "/n.json?ns=ns")
        idle.answer()
        until(lambda: own.requests.count() == 23)
        stopping = threading.Thread(target=own.stop)
        stopping.start()
        stopping.join(20)
        assert not stopping.is_alive()
        assert [opened.frame() for opened in streams] == [b""] * 20
        assert own.get("ns") is None
        assert all(not connection.to_the_end() for connection in (held, slow, idle))
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_client_that_does_not_read_does_not_keep_the_emulator_running(caplog: pytest.LogCaptureFixture) -> None:
    """A listener that never reads, and a request that never becomes whole, are cut off when the emulator stops."""
    emulator = Emulator().start()
    with stream(emulator, "ns", "/n.json"), wire(emulator) as half:
        half.send(b"PUT /n.json HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n1")
        until(lambda: emulator.listeners("ns") == 1)
        for _ in range(20):
            emulator.set("ns", "/n", None)
            emulator.set("ns", "/n", "x" * 1_000_000)
        stopping = threading.Thread(target=emulator.stop)
        stopping.start()
        stopping.join(10)
        assert not stopping.is_alive()
        assert half.to_the_end() == b""
    assert emulator.listeners("ns") == 0
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


KEYS = st.sampled_from(["a", "b", "0"])
PATHS = st.lists(KEYS, max_size=3).map(tuple)
PRIORITIES = st.none() | st.integers(0, 2) | st.sampled_from(["x", "y"])
LEAVES = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["x", "y"])
DATA = st.recursive(
    LEAVES
    | st.just({".sv": {"increment": 1}})
    | st.builds(lambda value, priority: {".value": value, ".priority": priority}, LEAVES, PRIORITIES),
    lambda inner: (
        st.dictionaries(KEYS, inner, max_size=4)
        | st.lists(inner, max_size=3)
        | st.builds(lambda data, priority: {**data, ".priority": priority}, st.dictionaries(KEYS, inner), PRIORITIES)
    ),
    max_leaves=8,
)
# Trees that are full enough for a window to have an inside and an outside.
RECORD = st.fixed_dictionaries({"a": LEAVES, "b": LEAVES})
TABLE = st.fixed_dictionaries({"a": RECORD, "b": RECORD, "0": RECORD})
TREES = DATA | TABLE | st.fixed_dictionaries({"a": TABLE})


@dataclass(frozen=True)
class Operation:
    """A request: PUT (or DELETE, with null) or PATCH."""

    method: Literal["put", "patch"]
    path: Path
    data: object

    def run(self, database: Database) -> None:
        if self.method == "put":
            database.write(self.path, self.data, ADMIN)
        else:
            assert isinstance(self.data, dict)
            database.update(self.path, self.data, ADMIN)


RELATIVE = st.lists(KEYS, min_size=1, max_size=2).map("/".join)
CHANGES = st.dictionaries(RELATIVE, DATA, max_size=3) | st.builds(
    lambda data, path, priority: {**data, path: priority},
    st.dictionaries(RELATIVE, DATA, max_size=2),
    st.sampled_from([".priority", "a/.priority", "b/0/.priority"]),
    PRIORITIES,
)
OPERATIONS = st.lists(
    st.builds(Operation, st.just("put"), PATHS, DATA)
    | st.builds(Operation, st.just("put"), PATHS.map(lambda path: (*path, ".priority")), PRIORITIES)
    | st.builds(Operation, st.just("patch"), PATHS, CHANGES)
    | st.builds(Operation, st.just("patch"), PATHS, st.dictionaries(RELATIVE, LEAVES, min_size=1, max_size=3)),
    min_size=1,
    max_size=8,
)


@st.composite
def queries(draw: st.DrawFn) -> Query:
    order = draw(st.sampled_from(["$key", "$value", "$priority", "a", "a/b"]))
    keys, values = ['"a"', '"0"', '"b"'], ["1", '"x"', "true", "null", '1,"a"', '"x","0"']
    bounds = st.sampled_from(
        keys if order == "$key" else [value for value in values if order != "$priority" or value != "true"]
    )
    limits = {"limitToFirst": st.sampled_from("12"), "limitToLast": st.sampled_from("12")}
    starts = {"startAt": bounds, "startAfter": bounds}
    ends = {"endAt": bounds, "endBefore": bounds}
    parameters = {"orderBy": f'"{order}"'}
    for choices in (limits, starts, ends):
        name = draw(st.sampled_from(["", *choices]))
        if name:
            parameters[name] = draw(choices[name])
    query = parse_query(parameters)
    assert query is not None
    return query


VIEWS = st.builds(View, PATHS) | st.builds(View, st.sampled_from([(), ("a",)]), queries())


class Client:
    """Follows a view as an SDK does, from the events alone."""

    watching = 1

    def __init__(self, view: View, root: Node) -> None:
        self._view = view
        self.copy = EMPTY
        self._replay([view.first(root)])

    def committed(self, commit: Commit) -> None:
        events = self._view.events(commit)
        if selected(self._view, commit.before) == selected(self._view, commit.after):
            assert events == []
        self._replay(events)

    def rules_changed(self) -> None:
        raise AssertionError("nobody changes rules here")

    def _replay(self, events: Sequence[Event]) -> None:
        for told in events:
            path = split_path(told.path)
            if told.name == "put":
                self.copy = self.copy.put(path, parse(told.data, now=0))
                continue
            assert isinstance(told.data, dict)
            for key, data in told.data.items():
                self.copy = self.copy.put((*path, *split_path(key)), parse(data, now=0))


def selected(view: View, root: Node) -> Node:
    node = root.at(view.path)
    return node if view.query is None else branch({key: node.child(key) for key in view.query.keys(node)})


@settings(max_examples=600)
@given(TREES, OPERATIONS, st.lists(VIEWS, min_size=1, max_size=4))
def test_a_replayed_stream_is_the_tree(before: object, operations: list[Operation], views: list[View]) -> None:
    """After each write, a client that knows nothing but a view's events has what a read of the view gives."""
    database = Database("test", lambda: 7)
    database.write((), before, ADMIN)
    clients = [Client(view, database.root) for view in views]
    with ExitStack() as stack:
        for client in clients:
            stack.enter_context(database.listening(client))
        for operation in operations:
            try:
                operation.run(database)
            except BadRequest:
                event("refused")
            for client, view in zip(clients, views, strict=True):
                assert render(client.copy) == render(selected(view, database.root))
