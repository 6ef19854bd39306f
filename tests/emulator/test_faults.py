"""Scripted faults: what the client sees of each, and whether the database has done what was asked."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from tests.emulator.test_rest_wire import call, wire
from tests.emulator.test_stream_frames import stream

from rtdb_emulator.http.faults import PORTAL_PAGE, Fault, Faults
from rtdb_emulator.pytest_plugin import Rtdb

PLACE = "/n.json"


def put(rtdb: Rtdb, headers: dict[str, str] | None = None) -> requests.Response:
    return call(rtdb, "PUT", PLACE, "1", headers)


@pytest.mark.parametrize(("drop", "stored"), [(Faults.drop_request, None), (Faults.drop_reply, 1)])
def test_a_drop_closes_the_connection(rtdb: Rtdb, drop: Callable[..., Fault], stored: object) -> None:
    """drop_request does nothing and drop_reply does what is asked; the client of either gets no byte."""
    fault = drop(rtdb.faults, method="PUT")
    with wire(rtdb.emulator) as connection:
        connection.ask("PUT", f"{PLACE}?ns={rtdb.namespace}", b"1")
        assert connection.to_the_end() == b""
    assert rtdb.get("/n") == stored
    assert fault.hits == 1
    [logged] = rtdb.emulator.requests.matching(namespace=rtdb.namespace)
    assert (logged.status, logged.response_bytes) == (None, 0)
    assert put(rtdb).status_code == 200


def test_requests_sees_a_dropped_connection(rtdb: Rtdb) -> None:
    """A client library reports a drop as a connection error."""
    rtdb.faults.drop_reply()
    with pytest.raises(requests.ConnectionError):
        put(rtdb)
    assert rtdb.get("/n") == 1


@pytest.mark.parametrize(("moment", "stored"), [("before", None), ("after", 1)])
def test_a_hold_stops_a_request(rtdb: Rtdb, moment: str, stored: object) -> None:
    """A request is held before or after it is done, others pass, and `release` lets it go on."""
    hold = rtdb.faults.hold(moment="before" if moment == "before" else "after", method="PUT")
    with ThreadPoolExecutor(1) as pool:
        reply = pool.submit(put, rtdb)
        hold.wait()
        assert rtdb.get("/n") == stored
        assert call(rtdb, "GET", PLACE).json() == stored
        assert not reply.done()
        hold.release()
        assert reply.result(10).status_code == 200
    assert rtdb.get("/n") == 1
    assert hold.hits == 1


def test_a_hold_that_nothing_reaches_says_so() -> None:
    """`wait` gives up with a TimeoutError that names what the hold waits for."""
    hold = Faults().hold(path="/never")
    with pytest.raises(TimeoutError, match="/never"):
        hold.wait(0.01)


def test_a_released_hold_lets_pass(rtdb: Rtdb) -> None:
    """What arrives after `release` isn't held."""
    hold = rtdb.faults.hold(times=None)
    hold.release()
    assert put(rtdb).status_code == 200


@pytest.mark.parametrize("end", ["remove", "clear"])
def test_what_is_held_goes_on_when_the_hold_ends(rtdb: Rtdb, end: str) -> None:
    """`remove` and `clear` release what is held."""
    with ThreadPoolExecutor(2) as pool:
        hold = rtdb.faults.hold(times=2)
        replies = [pool.submit(put, rtdb) for _ in range(2)]
        hold.wait()
        hold.remove() if end == "remove" else rtdb.faults.clear()
        assert [reply.result(10).status_code for reply in replies] == [200, 200]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_delay_takes_its_time(rtdb: Rtdb, moment: str) -> None:
    """A delayed request is answered no sooner than that, and is done."""
    rtdb.faults.delay(0.05, moment="before" if moment == "before" else "after")
    began = time.monotonic()
    assert put(rtdb).status_code == 200
    assert time.monotonic() - began >= 0.05
    assert rtdb.get("/n") == 1


def test_a_delay_before_keeps_the_client_waiting_undone_and_after_done(rtdb: Rtdb) -> None:
    """While a reply is delayed the write is not yet done (before) or already done (after)."""
    rtdb.faults.delay(3600, moment="before", path="/before")
    rtdb.faults.delay(3600, moment="after", path="/after")
    with wire(rtdb.emulator) as before, wire(rtdb.emulator) as after:
        for name, connection in (("before", before), ("after", after)):
            connection.ask("PUT", f"/{name}.json?ns={rtdb.namespace}", b"1")
        # Whatever is served later on the same event loop shows that both have begun.
        while rtdb.count(method="PUT") < 2:
            call(rtdb, "GET", PLACE)
        call(rtdb, "GET", PLACE)
        assert rtdb.get() == {"after": 1}
        rtdb.faults.cut_off(port=rtdb.emulator.port)
        assert before.to_the_end() == after.to_the_end() == b""


def test_a_held_request_is_done_though_the_client_has_gone(rtdb: Rtdb) -> None:
    """A client that gives up while its request is under way doesn't take the write back."""
    with stream(rtdb.emulator, rtdb.namespace, PLACE) as opened:
        opened.frame()
        hold = rtdb.faults.hold(method="PUT")
        with wire(rtdb.emulator) as connection:
            connection.ask("PUT", f"{PLACE}?ns={rtdb.namespace}", b"1")
            hold.wait()
        hold.release()
        assert opened.event() == ("put", "/", 1)


def test_a_drip_sends_byte_by_byte(rtdb: Rtdb) -> None:
    """A dripping body arrives whole, with its length in the head, and before each byte there is a pause."""
    rtdb.set("/n", "abcdef")
    rtdb.faults.drip(0.01)
    with wire(rtdb.emulator) as connection:
        began = time.monotonic()
        connection.ask("GET", f"{PLACE}?ns={rtdb.namespace}")
        assert b"\r\ncontent-length: 8\r\n" in connection.head()
        assert connection.read(8) == b'"abcdef"'
        assert time.monotonic() - began >= 8 * 0.01


def test_a_drip_does_what_is_asked_and_spares_streams(rtdb: Rtdb) -> None:
    """A dripped write is done, a 204 has nothing to drip, and a stream is as ever."""
    rtdb.faults.drip(0.001, times=None)
    assert put(rtdb).json() == 1
    assert call(rtdb, "PUT", f"{PLACE}?print=silent", "2").status_code == 204
    with stream(rtdb.emulator, rtdb.namespace, PLACE) as opened:
        assert opened.event() == ("put", "/", 2)


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize(
    ("status", "headers"), [(401, {}), (429, {"Retry-After": "3600"}), (500, {}), (503, {}), (204, {}), (599, {})]
)
def test_an_answer_is_made_up(rtdb: Rtdb, status: int, headers: dict[str, str], applied: bool) -> None:
    """A made-up answer has the status and headers that were asked for; the write is done only with `applied`."""
    rtdb.faults.answer(status, headers=headers, applied=applied)
    response = put(rtdb)
    assert response.status_code == status
    assert headers.items() <= response.headers.items()
    if status != 204:
        assert response.json() == {"error": "scripted fault"}
    assert rtdb.get("/n") == (1 if applied else None)
    [logged] = rtdb.emulator.requests.matching(namespace=rtdb.namespace)
    assert logged.status == status
    assert put(rtdb).status_code == 200


@pytest.mark.parametrize("applied", [True, False])
def test_garbage_is_200_and_no_json(rtdb: Rtdb, applied: bool) -> None:
    """Garbage is a success by its status and no JSON by its body."""
    rtdb.faults.garbage(applied=applied)
    response = put(rtdb)
    assert (response.status_code, response.content) == (200, PORTAL_PAGE)
    with pytest.raises(requests.JSONDecodeError):
        response.json()
    assert rtdb.get("/n") == (1 if applied else None)


def test_a_fault_may_befall_a_stream(rtdb: Rtdb) -> None:
    """A stream can be dropped, refused and held like any request."""
    rtdb.faults.drop_request()
    with wire(rtdb.emulator) as connection:
        connection.ask("GET", f"{PLACE}?ns={rtdb.namespace}", b"", "Accept: text/event-stream")
        assert connection.to_the_end() == b""
    rtdb.faults.answer(503)
    with wire(rtdb.emulator) as connection:
        connection.ask("GET", f"{PLACE}?ns={rtdb.namespace}", b"", "Accept: text/event-stream")
        assert connection.answer()[0] == 503
