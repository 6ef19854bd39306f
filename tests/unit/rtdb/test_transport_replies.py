"""Replies as they come over a socket: whole, in pieces, cut short, and wrong."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import BadStatusLine, HTTPException, IncompleteRead, LineTooLong, RemoteDisconnected

import pytest

from firecron.base.clocks import Deadline
from firecron.rtdb.failures import DeadlineExceeded
from firecron.rtdb.transport import Reply, left, read_reply
from firecron.testing import FakeTiming

HEAD = b"HTTP/1.1 200 OK\r\n"
SECONDS = 10.0
LONG = b"x" * 65_537


@contextmanager
def sending(data: bytes, *, ends: bool = True) -> Iterator[socket.socket]:
    """A socket that gets this, and then the end of the connection."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        theirs.sendall(data)
        if ends:
            theirs.shutdown(socket.SHUT_WR)
        yield ours


def deadline(seconds: float = SECONDS) -> Deadline:
    return Deadline.after(FakeTiming(), seconds)


def read(data: bytes, *, ends: bool = True) -> Reply:
    with sending(data, ends=ends) as sock:
        return read_reply(sock, deadline())


BODY = b"Content-Length: 4\r\n\r\nbody"
CHUNKS = b"Transfer-Encoding: Chunked\r\n\r\n2\r\nbo\r\n02;a=b\r\ndy\r\n0\r\n"
WHOLE = {
    "a length": HEAD + BODY,
    "chunks": HEAD + CHUNKS + b"\r\n",
    "chunks and trailers": HEAD + CHUNKS + b"X-Late: 1\r\nX-Later: 2\r\n\r\n",
    "lines that end as on Unix": b"HTTP/1.1 200 OK\nContent-Length: 4\n\nbody",
    "one line that ends as on Unix": HEAD + b"X-Unix: 1\nContent-Length: 4\r\n\r\nbody",
    "interim replies before it": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: </x>\r\n\r\n" + HEAD + BODY,
    "an old protocol": b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n" + BODY,
    "a length, and chunks": HEAD + b"Content-Length: 99\r\n" + CHUNKS + b"\r\n",
}
ENDING = {
    "no framing": HEAD + b"\r\nbody",
    "the server closes": HEAD + b"Connection: Close\r\n" + BODY,
    "an old protocol": b"HTTP/1.0 200 OK\r\n" + BODY,
    "another coding": HEAD + b"Connection: close\r\nTransfer-Encoding: gzip, chunked\r\n\r\nbody",
}


@pytest.mark.parametrize("data", WHOLE.values(), ids=WHOLE.keys())
def test_a_reply_is_read_to_its_end_and_no_further(data: bytes) -> None:
    """Where its framing says how long a reply is, nobody waits for more, and the connection can be used again."""
    assert read(data, ends=False) == Reply(200, "OK", read(data).headers, b"body", is_over=False)


@pytest.mark.parametrize("data", ENDING.values(), ids=ENDING.keys())
def test_a_reply_may_end_its_connection(data: bytes) -> None:
    """Where only the end of the connection ends a reply, or the server says that it ends, it is not used again."""
    assert read(data) == Reply(200, "OK", read(data).headers, b"body", is_over=True)


def test_what_follows_a_reply_ends_the_connection() -> None:
    """Bytes that nobody has asked for are never the next reply."""
    reply = read(HEAD + BODY + HEAD + BODY, ends=False)
    assert (reply.content, reply.is_over) == (b"body", True)


@pytest.mark.parametrize("status", [101, 204, 304])
def test_some_replies_have_no_body(status: int) -> None:
    """These end with their headers, whatever the headers say."""
    reply = read(b"HTTP/1.1 %d \r\nContent-Length: 4\r\n\r\n" % status, ends=False)
    assert reply == Reply(status, "", {"content-length": "4"}, b"", is_over=False)


@pytest.mark.parametrize(
    "data", [*WHOLE.values(), *ENDING.values()], ids=[*WHOLE, *(f"{name}, over" for name in ENDING)]
)
def test_the_pieces_of_a_reply_do_not_matter(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply that comes byte by byte is the reply that comes at once."""
    whole = read(data)
    monkeypatch.setattr("firecron.rtdb.transport.PIECE", 1)
    assert read(data) == whole


def test_a_header_is_found_by_its_name_in_lower_case() -> None:
    """The first value of a name counts, without the spaces around it; a line without a colon is an empty header."""
    reply = read(HEAD + b"ETag:  a b \r\netag: second\r\nX-Empty:\r\nodd\r\nX-Latin: \xe9\r\nContent-Length: 0\r\n\r\n")
    assert reply.headers == {"etag": "a b", "x-empty": "", "odd": "", "x-latin": "\xe9", "content-length": "0"}
    assert (reply.status, reply.reason, reply.content) == (200, "OK", b"")


def test_a_body_with_an_empty_line_is_no_head() -> None:
    """The first empty line ends the head, however its lines end."""
    assert read(b"HTTP/1.1 200 OK\nContent-Length: 4\n\n\r\n\r\n").content == b"\r\n\r\n"


def test_a_large_body_is_read_whole() -> None:
    """A body may be larger than what comes at once."""
    body = bytes(range(256)) * 800
    assert read(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body).content == body


FRAMINGS = {
    "a length": b"Content-Length: 1000000000000\r\n\r\n" + LONG * 2,
    "chunks": b"Transfer-Encoding: chunked\r\n\r\nfffffff\r\n" + LONG * 2,
    "no framing": b"\r\n" + LONG * 2,
}


@pytest.mark.parametrize("data", FRAMINGS.values(), ids=FRAMINGS.keys())
def test_a_body_without_end_is_cut_where_the_caller_says(data: bytes) -> None:
    """No more than that is kept, nothing more is waited for, and the connection is not used again."""
    with sending(HEAD + data, ends=False) as sock:
        reply = read_reply(sock, deadline(), 1000)
    assert (reply.status, reply.content, reply.is_over) == (200, LONG[:1000], True)


def test_a_body_that_is_no_longer_is_read_whole() -> None:
    """A body of just so many bytes is no longer than that, and leaves its connection as it was."""
    with sending(HEAD + BODY, ends=False) as sock:
        assert read_reply(sock, deadline(), 4) == Reply(200, "OK", read(HEAD + BODY).headers, b"body", is_over=False)


CUT_SHORT = {
    "nothing": (b"", RemoteDisconnected, "Remote end closed connection without response"),
    "half a status line": (b"HTTP/1.1", IncompleteRead, r"8 bytes read"),
    "half of the headers": (HEAD + b"Content-Le", IncompleteRead, r"10 bytes read"),
    "no end of the headers": (HEAD + b"ETag: x\r\n", IncompleteRead, r"0 bytes read"),
    "half a body": (HEAD + b"Content-Length: 9\r\n\r\nbod", IncompleteRead, r"6 more expected"),
    "half a chunk": (HEAD + CHUNKS[:34], IncompleteRead, r"0 bytes read, 1 more expected"),
    "no last chunk": (HEAD + CHUNKS[:41], IncompleteRead, r"4 bytes read"),
    "no end of the trailers": (HEAD + CHUNKS, IncompleteRead, r"0 bytes read"),
}
WRONG = {
    "another protocol": (b"SSH-2.0-OpenSSH_9.6\r\n", BadStatusLine, "SSH-2.0-OpenSSH_9.6"),
    "another version": (b"HTTP/2 200\r\n", BadStatusLine, "HTTP/2 200"),
    "no status": (b"HTTP/1.1 OK\r\n", BadStatusLine, "HTTP/1.1 OK"),
    "a long status": (b"HTTP/1.1 2000 OK\r\n", BadStatusLine, "HTTP/1.1 2000 OK"),
    "no line": (LONG, LineTooLong, "got more than 65536 bytes when reading status line"),
    "a long header": (HEAD + LONG, LineTooLong, "got more than 65536 bytes when reading header line"),
    "many headers": (HEAD + b"a: b\r\n" * 101, HTTPException, "got more than 100 headers"),
    "a strange length": (HEAD + b"Content-Length: -4\r\n\r\n", HTTPException, "the reply has the Content-Length '-4'"),
    "a strange chunk": (HEAD + CHUNKS[:30] + b"0x2\r\n", HTTPException, "the reply has a chunk of the size '0x2'"),
    "a chunk too long": (HEAD + CHUNKS[:30] + b"1\r\nbo\r\n", HTTPException, "a chunk that is longer than its size"),
}


@pytest.mark.parametrize(("data", "kind", "said"), CUT_SHORT.values(), ids=CUT_SHORT.keys())
def test_half_a_reply_is_none(data: bytes, kind: type[Exception], said: str) -> None:
    """A connection that ends before the reply's end is a failure, wherever it ends."""
    with pytest.raises(kind, match=said) as raised:
        read(data)
    assert type(raised.value) is kind


@pytest.mark.parametrize(("data", "kind", "said"), WRONG.values(), ids=WRONG.keys())
def test_what_is_no_reply_is_refused_at_once(data: bytes, kind: type[Exception], said: str) -> None:
    """What can't become a reply any more is not waited for."""
    with pytest.raises(kind, match=said) as raised:
        read(data, ends=False)
    assert type(raised.value) is kind


def test_a_hundred_headers_are_read() -> None:
    """As many headers are allowed as http.client allows."""
    assert len(read(HEAD + b"".join(b"a%d: b\r\n" % number for number in range(99)) + BODY).headers) == 100


def test_each_wait_has_what_is_left_of_the_deadline() -> None:
    """The socket waits for as long as the deadline allows, and not at all after it."""
    timing = FakeTiming()
    until = Deadline.after(timing, SECONDS)
    with sending(HEAD + BODY) as sock:
        timing.advance(4)
        read_reply(sock, until)
        assert sock.gettimeout() == pytest.approx(6)
        timing.advance(5.9)
        assert left(until) == pytest.approx(0.1)
        timing.advance(0.1)
        with pytest.raises(DeadlineExceeded):
            read_reply(sock, until)


@pytest.mark.parametrize(
    ("before", "after"), [(None, 10), (9.9985, 10), (9.9995, 9.9995), (10.0005, 10.0005), (10.0015, 10)]
)
def test_a_limit_that_is_as_good_is_not_set_again(before: float | None, after: float) -> None:
    """A socket that waits for the same time to the millisecond goes on so; by any other it waits to the deadline."""
    with sending(HEAD + BODY) as sock:
        sock.settimeout(before)
        read_reply(sock, deadline())
        assert sock.gettimeout() == pytest.approx(after, abs=1e-9)
