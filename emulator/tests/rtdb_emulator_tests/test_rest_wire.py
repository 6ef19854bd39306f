"""What goes over the wire, byte by byte."""

from __future__ import annotations

import re

import pytest

from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.wire import call, wire


def test_an_answer_is_exactly_these_bytes(rtdb: Rtdb) -> None:
    """A GET is answered by a status line, CORS, caching, length and type, and compact UTF-8 JSON."""
    rtdb.set("/a", {"b": "é", "c": [1, 2]})
    with wire(rtdb.emulator) as connection:
        connection.ask("GET", f"/a.json?ns={rtdb.namespace}")
        assert connection.head() == (
            b"HTTP/1.1 200 OK\r\n"
            b"access-control-allow-origin: *\r\n"
            b"access-control-expose-headers: ETag\r\n"
            b"cache-control: no-cache\r\n"
            b"content-length: 20\r\n"
            b"content-type: application/json; charset=utf-8\r\n"
            b"\r\n"
        )
        assert connection.read(20) == '{"b":"é","c":[1,2]}'.encode()


def test_print_pretty_is_exactly_these_bytes(rtdb: Rtdb) -> None:
    """`print=pretty` indents by two, sets the colon apart and ends the line."""
    rtdb.set("/a", {"b": {"c": 1}, "d": "x"})
    assert call(rtdb, "GET", "/a.json?print=pretty").content == (b'{\n  "b" : {\n    "c" : 1\n  },\n  "d" : "x"\n}\n')


def test_an_error_is_exactly_these_bytes(rtdb: Rtdb) -> None:
    """An error is a pretty printed object with the one member `error`."""
    with wire(rtdb.emulator) as connection:
        connection.ask("PUT", f"/a.json?ns={rtdb.namespace}", b"{")
        assert connection.answer() == (
            400,
            b'{\n  "error" : "Invalid data; couldn\'t parse JSON object, array, or value."\n}\n',
        )


def test_pipelined_requests_are_answered_in_order(rtdb: Rtdb) -> None:
    """Requests that a client sends without waiting are done and answered one after the other."""
    target = f"/a.json?ns={rtdb.namespace}"
    with wire(rtdb.emulator) as connection:
        put = b"PUT %s HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n%d"
        get = b"GET %s HTTP/1.1\r\nHost: h\r\n\r\n" % target.encode()
        connection.send(b"".join(put % (target.encode(), n) + get for n in range(5)))
        answers = [connection.answer() for _ in range(10)]
    assert answers == [(200, b"%d" % (n // 2)) for n in range(10)]


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"hello\r\n\r\n",
        b"GET /a.json HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET http://[/.json HTTP/1.1\r\n\r\n",
        "GET /é.json HTTP/1.1\r\n\r\n".encode(),
    ],
)
def test_what_is_no_http_is_refused_and_nothing_breaks(rtdb: Rtdb, garbage: bytes) -> None:
    """Bytes that are no HTTP get a 400 and a closed connection, and other connections don't suffer."""
    with wire(rtdb.emulator) as bystander, wire(rtdb.emulator) as connection:
        connection.send(garbage)
        assert connection.to_the_end().startswith(b"HTTP/1.1 400 Bad Request\r\n")
        bystander.ask("GET", f"/a.json?ns={rtdb.namespace}")
        assert bystander.answer() == (200, b"null")


def test_a_client_that_leaves_in_the_middle_of_its_body_changes_nothing(rtdb: Rtdb) -> None:
    """A request whose body never becomes whole is not done, and not counted."""
    with wire(rtdb.emulator) as other:
        with wire(rtdb.emulator) as connection:
            connection.send(b"PUT /a.json?ns=%s HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n12" % _ns(rtdb))
        other.ask("GET", f"/a.json?ns={rtdb.namespace}")
        assert other.answer() == (200, b"null")
    assert rtdb.get("/a") is None
    assert rtdb.count(method="PUT") == 0


def test_a_body_may_come_in_chunks(rtdb: Rtdb) -> None:
    """A chunked request body is read whole."""
    with wire(rtdb.emulator) as connection:
        connection.send(b"PUT /a.json?ns=%s HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" % _ns(rtdb))
        connection.send(b"2\r\n[1\r\n")
        connection.send(b"3\r\n,2]\r\n0\r\n\r\n")
        assert connection.answer() == (200, b"[1,2]")


def test_expect_100_continue_is_served(rtdb: Rtdb) -> None:
    """A client that asks before it sends a body is told to go on."""
    with wire(rtdb.emulator) as connection:
        connection.ask("PUT", f"/a.json?ns={rtdb.namespace}", b"", "Expect: 100-continue", "Content-Length: 1")
        assert connection.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.send(b"7")
        assert connection.answer() == (200, b"7")


def test_a_head_request_is_answered_by_a_head_alone(rtdb: Rtdb) -> None:
    """HEAD has the headers of GET, the length among them, and no body."""
    rtdb.set("/a", [1, 2])
    with wire(rtdb.emulator) as connection:
        target = f"/a.json?ns={rtdb.namespace}"
        connection.ask("HEAD", target, b"", "X-Firebase-ETag: true", "Accept: text/event-stream")
        head = connection.head()
        connection.ask("GET", target, b"", "X-Firebase-ETag: true")
        assert connection.head() == head
        assert connection.read(5) == b"[1,2]"


def test_the_log_knows_the_size_of_both_messages(rtdb: Rtdb) -> None:
    """`request_bytes` and `response_bytes` are the bytes that went over the wire, whatever the status."""
    sizes: list[tuple[int, int]] = []
    target = f"/a.json?ns={rtdb.namespace}"
    with wire(rtdb.emulator) as connection:
        for method, body, header in [
            ("PUT", b'{"x":"' + b"y" * 1000 + b'"}', "X-Firebase-ETag: true"),
            ("GET", b"", "Accept: */*"),
            ("HEAD", b"", "Accept: */*"),
            ("PUT", b"1", "if-match: nonsense"),
            ("PATCH", b"1", "Accept: */*"),
            ("GET", b"", "Accept: */*"),
        ]:
            if len(sizes) == 5:
                rtdb.faults.answer(304)
            length = [f"Content-Length: {len(body)}"] if body else []
            request = "\r\n".join([f"{method} {target} HTTP/1.1", "Host: h", header, *length, "", ""]).encode() + body
            connection.send(request)
            head = connection.head()
            announced = re.search(rb"content-length: (\d+)", head)
            assert (announced is None) == (b" 304 " in head)
            body_size = len(connection.read(0 if method == "HEAD" or announced is None else int(announced[1])))
            sizes.append((len(request), len(head) + body_size))
    logged = rtdb.emulator.requests.matching(namespace=rtdb.namespace)
    assert [(request.request_bytes, request.response_bytes) for request in logged] == sizes
    assert [request.status for request in logged] == [200, 200, 200, 412, 400, 304]


def _ns(rtdb: Rtdb) -> bytes:
    return rtdb.namespace.encode()
