"""Faults: what each does to a request, which requests it applies to, and the log that counts them."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from rtdb_emulator.emulator import Emulator
from rtdb_emulator.http.faults import PORTAL_PAGE, Fault, Faults
from rtdb_emulator.http.log import Criteria, Forgotten, RequestLog
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.wire import call, stream, wire

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


def statuses(rtdb: Rtdb, count: int) -> list[int]:
    return [call(rtdb, "PUT", "/n.json", str(number)).status_code for number in range(count)]


@pytest.mark.parametrize(
    ("nth", "times", "seen"),
    [
        (1, 1, [500, 200, 200, 200, 200]),
        (3, 1, [200, 200, 500, 200, 200]),
        (1, 2, [500, 500, 200, 200, 200]),
        (2, 2, [200, 500, 500, 200, 200]),
        (2, None, [200, 500, 500, 500, 500]),
    ],
)
def test_a_fault_counts_its_requests(rtdb: Rtdb, nth: int, times: int | None, seen: list[int]) -> None:
    """A fault lets `nth - 1` requests pass and befalls the next `times`, or all."""
    fault = rtdb.faults.answer(500, nth=nth, times=times)
    assert statuses(rtdb, 5) == seen
    assert fault.hits == seen.count(500)


@pytest.mark.parametrize(("nth", "times"), [(0, 1), (-1, 1), (1, 0), (1, -1)])
def test_a_fault_counts_from_one(nth: int, times: int) -> None:
    """`nth` and `times` below one are refused."""
    with pytest.raises(ValueError, match="count from 1"):
        Faults().drop_request(nth=nth, times=times)


@pytest.mark.parametrize(
    ("which", "fits"),
    [
        ({}, True),
        ({"method": "PUT"}, True),
        ({"method": "GET"}, False),
        ({"path": "/a b/é/c"}, True),
        ({"path": "/a b/*"}, True),
        ({"path": "/a b"}, False),
        ({"path": "/A b/*"}, False),
        ({"namespace": "other"}, False),
        ({"header": ("X-Client", "one")}, True),
        ({"header": ("x-client", "two")}, False),
        ({"header": ("x-none", "one")}, False),
        ({"port": 1}, False),
        ({"method": "PUT", "path": "/a b/*", "header": ("x-client", "one")}, True),
        ({"method": "PUT", "path": "/b/*", "header": ("x-client", "one")}, False),
    ],
)
def test_a_fault_and_a_count_choose_by_the_same_words(rtdb: Rtdb, which: Criteria, fits: bool) -> None:
    """Method, path with wildcards, namespace, header and port all have to agree, for faults and counts alike."""
    fault = rtdb.faults.answer(500, **which)
    response = call(rtdb, "PUT", "//a%20b/%C3%A9//c/.json", "1", {"x-client": "one"})
    assert response.status_code == (500 if fits else 200)
    assert rtdb.emulator.requests.count(**which) == fault.hits == int(fits)


def test_the_oldest_fault_goes_first(rtdb: Rtdb) -> None:
    """One fault befalls a request: the oldest that is due; the next request is for the next."""
    rtdb.faults.answer(500)
    rtdb.faults.answer(503, times=2)
    assert statuses(rtdb, 4) == [500, 503, 503, 200]


def test_a_fault_ends_with_its_block(rtdb: Rtdb) -> None:
    """Outside of its `with` block, and after `remove`, a fault befalls nothing."""
    with rtdb.faults.answer(500, times=None):
        assert statuses(rtdb, 2) == [500, 500]
    assert statuses(rtdb, 1) == [200]
    rtdb.faults.answer(500, times=None).remove()
    assert statuses(rtdb, 1) == [200]


def test_clear_ends_all_faults(rtdb: Rtdb) -> None:
    """After `clear` no fault is left."""
    rtdb.faults.answer(500, times=None)
    rtdb.faults.drop_request(times=None)
    rtdb.faults.clear()
    assert statuses(rtdb, 2) == [200, 200]


@pytest.mark.parametrize("by", ["header", "port"])
def test_one_client_is_cut_off(rtdb: Rtdb, by: str) -> None:
    """A client that is known by a header or by a port of its own loses streams and requests; others lose nothing."""
    own_port = rtdb.emulator.add_port()
    port, mark = (own_port, "X-None: 1") if by == "port" else (rtdb.emulator.port, "X-Client: one")
    with (
        stream(rtdb.emulator, rtdb.namespace, "/n.json", mark, port=port) as cut,
        stream(rtdb.emulator, rtdb.namespace, "/n.json", "X-Client: two") as spared,
    ):
        cut.frame(), spared.frame()
        fault = rtdb.faults.cut_off(header=("x-client", "one")) if by == "header" else rtdb.faults.cut_off(port=port)
        assert cut.wire.to_the_end() == b""
        for _ in range(2):
            with wire(rtdb.emulator, port) as refused:
                refused.ask("PUT", f"/n.json?ns={rtdb.namespace}", b"1", mark)
                assert refused.to_the_end() == b""
        assert rtdb.get("/n") is None
        assert call(rtdb, "PUT", "/n.json", "2").status_code == 200
        assert spared.event() == ("put", "/", 2)
        fault.remove()
        with wire(rtdb.emulator, port) as again:
            again.ask("PUT", f"/n.json?ns={rtdb.namespace}", b"3", mark)
            assert again.answer() == (200, b"3")
        assert spared.event() == ("put", "/", 3)


@pytest.mark.parametrize("both", [True, False])
def test_a_cut_client_has_one_mark(both: bool) -> None:
    """cut_off wants a header or a port, and not both."""
    with pytest.raises(ValueError, match="either a header or a port"):
        Faults().cut_off(**({"header": ("a", "b"), "port": 1} if both else {}))  # type: ignore[arg-type]  # of both kinds


def test_faults_end_with_the_emulator() -> None:
    """A stopped emulator forgets its faults, and starts again without them."""
    emulator = Emulator()
    for _ in range(2):
        with emulator:
            rtdb = Rtdb(emulator, "ns")
            assert statuses(rtdb, 1) == [200]
            rtdb.faults.answer(500, times=None)
            assert statuses(rtdb, 1) == [500]


def test_requests_are_counted(rtdb: Rtdb) -> None:
    """The log has every request in the order of arrival, refused and dropped ones as well."""
    rtdb.faults.drop_request(method="DELETE")
    call(rtdb, "PUT", "/a.json", "1")
    call(rtdb, "GET", "/b.json")
    call(rtdb, "PUT", "/b.json", "{")
    with pytest.raises(requests.ConnectionError):
        call(rtdb, "DELETE", "/b.json")
    log = rtdb.emulator.requests
    assert [(request.method, request.path) for request in log] == [
        ("PUT", "/a"),
        ("GET", "/b"),
        ("PUT", "/b"),
        ("DELETE", "/b"),
    ]
    assert [request.status for request in log] == [200, 200, 400, None]
    assert {request.namespace for request in log} == {rtdb.namespace}
    assert (rtdb.count(method="PUT"), rtdb.count(path="/b"), rtdb.count(), len(log)) == (2, 3, 4, 4)
    assert log[-1].facts.port == rtdb.emulator.port
    log.clear()
    assert rtdb.count() == len(log) == 0


def test_a_full_log_does_not_count_wrong(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the oldest requests are forgotten, counting raises until the log is cleared."""
    small = RequestLog(limit=2)
    with Emulator() as emulator:
        monkeypatch.setattr(emulator, "requests", small)
        emulator.stop()
        emulator.start()
        own = Rtdb(emulator, "ns")
        statuses(own, 2)
        assert own.count() == 2
        statuses(own, 1)
        with pytest.raises(Forgotten, match=re.escape("the 1 oldest requests are no longer in the log")):
            own.count()
        small.clear()
        statuses(own, 1)
        assert own.count() == 1


@pytest.mark.parametrize(
    ("criteria", "error", "text"),
    [
        ({"methd": "PUT"}, TypeError, "no criterion methd"),
        ({"path": "a"}, ValueError, "must begin with a slash"),
        ({"method": "put"}, ValueError, "must be in capitals"),
    ],
)
def test_a_misspelt_criterion_is_refused(
    rtdb: Rtdb, criteria: dict[str, str], error: type[Exception], text: str
) -> None:
    """What would match everything or nothing by mistake is refused, by faults and by counts."""
    with pytest.raises(error, match=text):
        rtdb.faults.drop_request(**criteria)  # type: ignore[arg-type]  # that is what is tried
    with pytest.raises(error, match=text):
        rtdb.emulator.requests.count(**criteria)  # type: ignore[arg-type]  # as above


def test_what_a_fault_keeps_back_is_not_done_at_the_end() -> None:
    """A write that is held when the emulator stops is never applied."""
    with Emulator() as emulator:
        hold = emulator.faults.hold(method="PUT")
        writer = threading.Thread(target=_put, args=(f"{emulator.url}/a.json?ns=x",))
        writer.start()
        hold.wait()
    writer.join(10)
    assert emulator.get("x") is None


def _put(url: str) -> None:
    with contextlib.suppress(requests.ConnectionError):
        requests.put(url, json=1, timeout=10)
