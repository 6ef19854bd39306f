"""The server itself: start, stop, ports, sockets, and what it does when something inside breaks."""

from __future__ import annotations

import logging
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
import requests

from rtdb_emulator.database import Database
from rtdb_emulator.emulator import Emulator
from rtdb_emulator.http.sse import View
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.wire import call, stream, wire


def broken(*_: object, **__: object) -> None:
    raise RuntimeError("broken on purpose")


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "PATCH", "DELETE"])
def test_an_error_inside_is_500_and_over(
    rtdb: Rtdb, method: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A bug in the service is a 500 with its traceback in the log, and the next request is served."""
    with monkeypatch.context() as patch:
        for name in ("read", "write", "update"):
            patch.setattr(Database, name, broken)
        response = call(rtdb, method, "/n.json", '{"a":1}')
        assert response.status_code == 500
        assert response.json() == {"error": "Internal Server Error: see the emulator's log"}
        assert response.headers["access-control-allow-origin"] == "*"
    [record] = [record for record in caplog.records if record.name == "rtdb_emulator"]
    assert record.levelno == logging.ERROR
    assert record.getMessage() == f"{method} /n.json broke the emulator"
    assert record.exc_info is not None
    assert "broken on purpose" in str(record.exc_info[1])
    assert call(rtdb, "PUT", "/n.json", "1").status_code == 200


def test_an_error_inside_a_stream_ends_it_alone(
    rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A bug while a stream begins closes its connection, is logged, and leaves no listener behind."""
    with monkeypatch.context() as patch, wire(rtdb.emulator) as connection:
        patch.setattr(View, "first", broken)
        connection.ask("GET", f"/n.json?ns={rtdb.namespace}", b"", "Accept: text/event-stream")
        connection.to_the_end()
    assert any("broken on purpose" in str(record.exc_info) for record in caplog.records)
    with stream(rtdb.emulator, rtdb.namespace, "/n.json") as opened:
        assert opened.event() == ("put", "/", None)
        assert rtdb.emulator.listeners(rtdb.namespace) == 1


def test_small_answers_are_not_held_back(rtdb: Rtdb) -> None:
    """Nagle's algorithm is off on every accepted connection, also on those of an added port."""
    listener = rtdb.emulator._listener  # the socket of an accepted connection is nobody's to see
    assert listener is not None
    for port in (rtdb.emulator.port, rtdb.emulator.add_port()):
        with wire(rtdb.emulator, port) as connection:
            connection.ask("GET", f"/n.json?ns={rtdb.namespace}")
            connection.answer()
            here = connection.socket.getsockname()
            [accepted] = [
                protocol.transport.get_extra_info("socket")
                for protocol in tuple(listener._state.connections)  # uvicorn's
                if protocol.transport.get_extra_info("peername") == here
            ]
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_connection_serves_many_requests(rtdb: Rtdb) -> None:
    """A connection stays open after an answer of any kind, errors as well."""
    with wire(rtdb.emulator) as connection:
        for _ in range(3):
            for method, target, status in (
                ("GET", "/n.json", 200),
                ("GET", "/[.json", 400),
                ("GET", "/n", 404),
                ("PUT", "/n.json", 400),
            ):
                connection.ask(method, f"{target}?ns={rtdb.namespace}")
                assert connection.answer()[0] == status


def test_fifty_clients_at_once_are_served(rtdb: Rtdb) -> None:
    """Fifty connections that write at the same moment are all answered, and nothing is lost."""
    start = threading.Barrier(50)

    def write(number: int) -> int:
        with wire(rtdb.emulator) as connection:
            start.wait(10)
            connection.ask("PUT", f"/n/k{number}.json?ns={rtdb.namespace}", b"%d" % number)
            return connection.answer()[0]

    with ThreadPoolExecutor(50) as pool:
        assert list(pool.map(write, range(50))) == [200] * 50
    assert rtdb.get("/n") == {f"k{number}": number for number in range(50)}


def test_an_added_port_leads_to_the_same_databases(rtdb: Rtdb) -> None:
    """What is written at an added port is there at the first, and the log knows which port took what."""
    port = rtdb.emulator.add_port()
    assert port != rtdb.emulator.port
    with wire(rtdb.emulator, port) as connection:
        connection.ask("PUT", f"/n.json?ns={rtdb.namespace}", b"1")
        assert connection.answer() == (200, b"1")
    assert call(rtdb, "GET", "/n.json").json() == 1
    assert rtdb.count(port=port) == rtdb.count(port=rtdb.emulator.port) == 1


def test_all_ports_close_with_the_emulator() -> None:
    """After `stop` nobody listens any more, at an added port neither."""
    with Emulator() as emulator:
        ports = [emulator.port, emulator.add_port()]
    for port in ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=10)


def test_an_emulator_runs_once() -> None:
    """A second `start` is refused with the address, and the first goes on."""
    with Emulator() as emulator:
        with pytest.raises(RuntimeError, match=f"already runs on {emulator.host}"):
            emulator.start()
        assert call(Rtdb(emulator, "ns"), "PUT", "/n.json", "1").status_code == 200


@pytest.mark.parametrize("is_given", [True, False])
def test_an_emulator_can_start_again(is_given: bool) -> None:
    """After `stop` an emulator starts again, at the same port where one was asked for, with its data and rules."""
    with Emulator() as first:
        port = first.port
    emulator = Emulator(port=port if is_given else 0, rules={"rules": {".read": True}})
    emulator.stop()
    for _ in range(3):
        emulator.start()
        assert not is_given or emulator.port == port
        emulator.set("ns", "/n", 1)
        assert call(Rtdb(emulator, "ns"), "GET", "/n.json").json() == 1
        assert call(Rtdb(emulator, "ns"), "PUT", "/n.json", "2").status_code == 401
        emulator.stop()
        emulator.stop()
        assert emulator.get("ns", "/n") == 1


def test_a_start_that_fails_leaves_the_port_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no thread can be had, the port is free again, and a later start serves."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    emulator = Emulator()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            emulator.start()
    with socket.create_server(("127.0.0.1", emulator.port)):
        pass
    with emulator:
        assert call(Rtdb(emulator, "ns"), "GET", "/n.json").ok


def test_stopping_ends_the_thread_and_open_connections(caplog: pytest.LogCaptureFixture) -> None:
    """`stop` closes idle connections, leaves no thread behind, and has nothing to complain of."""
    before = threading.active_count()
    emulator = Emulator().start()
    with wire(emulator) as used, wire(emulator) as unused:
        used.ask("GET", "/n.json")
        used.answer()
        emulator.stop()
        assert used.to_the_end() == unused.to_the_end() == b""
    assert threading.active_count() == before
    assert not caplog.records


def test_a_connection_that_was_just_made_ends_with_the_emulator() -> None:
    """`stop` also closes, or resets, a connection that nobody has looked at yet."""
    for _ in range(100):
        with ExitStack() as stack:
            emulator = Emulator().start()
            fresh = [stack.enter_context(wire(emulator)) for _ in range(3)]
            emulator.stop()
            assert [connection.to_the_end() for connection in fresh] == [b""] * 3


def test_a_stopped_emulator_says_so() -> None:
    """A port can be added only to a running emulator; the error names the remedy."""
    with pytest.raises(RuntimeError, match=re.escape("call start()")):
        Emulator().add_port()


def test_a_port_that_is_taken_is_named() -> None:
    """A port that somebody else has is an OSError with host and port, and the emulator can be started later."""
    with Emulator() as holder:
        emulator = Emulator(port=holder.port)
        with pytest.raises(OSError, match=re.escape(f"can't listen on 127.0.0.1:{holder.port}: ")):
            emulator.start()
    with emulator:
        assert call(Rtdb(emulator, "ns"), "GET", "/n.json").status_code == 200


def test_ipv6_is_served() -> None:
    """On an IPv6 address host and URL have brackets, and a bare address names no database."""
    try:
        emulator = Emulator("::1").start()
    except OSError as error:
        pytest.skip(f"no IPv6 on this machine: {error}")
    with ExitStack() as stack:
        stack.callback(emulator.stop)
        assert emulator.host == f"[::1]:{emulator.port}"
        assert call(Rtdb(emulator, "ns"), "PUT", "/n.json", "1").status_code == 200
        with requests.Session() as session:
            session.trust_env = False
            assert session.put(f"{emulator.url}/n.json", data="2", timeout=10).status_code == 200
        assert emulator.get("ns") == {"n": 2}


def test_an_upgrade_that_is_not_to_be_had_is_no_matter_of_packages(
    rtdb: Rtdb, caplog: pytest.LogCaptureFixture
) -> None:
    """A request for another protocol is served as plain HTTP, and the log advises nobody to install anything."""
    caplog.set_level(logging.INFO)
    with wire(rtdb.emulator) as connection:
        connection.ask("GET", f"/n.json?ns={rtdb.namespace}", b"", "Connection: Upgrade", "Upgrade: h2c")
        assert connection.answer() == (200, b"null")
    said = [record.getMessage() for record in caplog.records if record.name != "uvicorn.access"]
    assert said == ["an upgrade to another protocol was asked for; the request is served as plain HTTP"]
