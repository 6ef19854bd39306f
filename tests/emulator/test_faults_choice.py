"""Which requests a fault befalls, for how long, and how requests are counted."""

from __future__ import annotations

import contextlib
import re
import threading

import pytest
import requests
from tests.emulator.test_rest_wire import call, wire
from tests.emulator.test_stream_frames import stream

from rtdb_emulator.emulator import Emulator
from rtdb_emulator.http.faults import Faults
from rtdb_emulator.http.log import Criteria, Forgotten, RequestLog
from rtdb_emulator.pytest_plugin import Rtdb


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
