"""How streams begin and end: permission, silence, clients that go or don't read, and the end of the emulator."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from tests.emulator.test_rest_auth import token
from tests.emulator.test_rest_wire import call, wire
from tests.emulator.test_stream_frames import CANCEL, KEEP_ALIVE, stream

from rtdb_emulator.emulator import Emulator
from rtdb_emulator.http import server, sse
from rtdb_emulator.pytest_plugin import Rtdb

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
    [
        lambda rtdb: rtdb.emulator.set_rules(rtdb.namespace, {"rules": {}}),
        lambda rtdb: rtdb.set("/open", None),
    ],
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
