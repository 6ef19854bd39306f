"""Reads HTTP/1.x replies from a socket, each within the deadline of its call.

A reply is returned whole, or an exception of `http.client` or of the socket is raised. `http.client` reads headers with
the parser for e-mail, which costs more CPU than the request. Replies to a database's client need little of that: a
header is one line, and only its first value counts.

The sizes of lines and the number of headers are limited as in `http.client`. The size of the body is limited by the
deadline alone, unless the caller says how much of it to keep.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import BadStatusLine, HTTPException, IncompleteRead, LineTooLong, RemoteDisconnected

from firecron.base.clocks import Deadline

PIECE = 65_536
_LONGEST_LINE = 65_536
_MOST_HEADERS = 100
_STATUS_LINE = re.compile(r"HTTP/1\.([0-9]) +([1-9][0-9]{2})(?: (.*))?")
_CHUNK = re.compile(r"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?")
_LENGTH = re.compile("[0-9]{1,18}")
_WITHOUT_BODY = (HTTPStatus.SWITCHING_PROTOCOLS, HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)


class DeadlineExceeded(TimeoutError):
    """The call's deadline has passed."""


def left(deadline: Deadline) -> float:
    """Return the seconds that are left. Raise DeadlineExceeded if there are none."""
    seconds = deadline.remaining()
    if seconds <= 0:
        raise DeadlineExceeded("the deadline has passed")
    return seconds


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole reply. The names of its `headers` are in lower case. After some replies the connection `is_over`."""

    status: int
    reason: str
    headers: Mapping[str, str]
    content: bytes
    is_over: bool


@dataclass(frozen=True, slots=True)
class Head:
    """What comes before the body of a reply. The names of its `headers` are in lower case."""

    minor: int
    status: int
    reason: str
    headers: Mapping[str, str]

    @property
    def is_chunked(self) -> bool:
        return self.headers.get("transfer-encoding", "").lower() == "chunked"

    @property
    def is_framed(self) -> bool:
        """Whether the body's end can be seen, and not only the end of the connection."""
        return self.status in _WITHOUT_BODY or self.is_chunked or "content-length" in self.headers

    @property
    def is_kept(self) -> bool:
        """Whether the server keeps the connection for another request."""
        connection = self.headers.get("connection", "").lower()
        return "close" not in connection and (self.minor > 0 or "keep-alive" in connection)


def read_reply(sock: socket.socket, deadline: Deadline, most: int | None = None) -> Reply:
    """Read the reply to a request that has been sent. The request is not a HEAD.

    A body of more than `most` bytes is cut there. What is left of it is not read, and the connection is over.
    """
    stream = _Stream(sock, deadline)
    head = _read_head(stream)
    content, is_cut = bytearray(), False
    for piece in _pieces(stream, head):
        content += piece
        is_cut = most is not None and len(content) > most
        if is_cut:
            break
    # Nothing was asked for that could follow, so bytes that follow must not be taken for the next reply.
    is_over = is_cut or not (head.is_framed and head.is_kept) or stream.has_more
    return Reply(head.status, head.reason, head.headers, bytes(content[:most] if is_cut else content), is_over=is_over)


def open_reply(sock: socket.socket, deadline: Deadline) -> tuple[Head, Iterator[bytes]]:
    """Read the head of a reply, and return it with the pieces of the body. Each piece is returned as soon as it comes.

    The deadline is for all that is read; it may be moved meanwhile.
    """
    stream = _Stream(sock, deadline)
    head = _read_head(stream)
    return head, _pieces(stream, head)


def _read_head(stream: _Stream) -> Head:
    while True:
        minor, status, reason = _read_status(stream)
        headers = _read_headers(stream)
        if not HTTPStatus.CONTINUE <= status < HTTPStatus.OK or status == HTTPStatus.SWITCHING_PROTOCOLS:
            return Head(minor, status, reason, headers)


def _pieces(stream: _Stream, head: Head) -> Iterator[bytes]:
    if head.status in _WITHOUT_BODY:
        return
    if head.is_chunked:
        yield from _chunks(stream)
    elif (length := head.headers.get("content-length")) is not None:
        if not _LENGTH.fullmatch(length):
            raise HTTPException(f"the reply has the Content-Length {length!r:.40}")
        yield from _sized(stream, int(length))
    else:
        while piece := stream.next():
            yield piece


def _read_status(stream: _Stream) -> tuple[int, int, str]:
    """Return the minor version, the status and the reason."""
    line = stream.first_line()
    found = _STATUS_LINE.fullmatch(line)
    if found is None:
        raise BadStatusLine(line)
    return int(found[1]), int(found[2]), (found[3] or "").strip()


def _read_headers(stream: _Stream) -> dict[str, str]:
    headers: dict[str, str] = {}
    for _ in range(_MOST_HEADERS + 1):
        line = stream.line("header line")
        if not line:
            return headers
        name, _, value = line.partition(":")
        headers.setdefault(name.lower(), value.strip(" \t"))
    raise HTTPException(f"got more than {_MOST_HEADERS} headers")


def _chunks(stream: _Stream) -> Iterator[bytes]:
    while True:
        line = stream.line("chunk size")
        found = _CHUNK.fullmatch(line)
        if found is None:
            raise HTTPException(f"the reply has a chunk of the size {line!r:.40}")
        size = int(found[1], 16)
        if not size:
            break
        yield from _sized(stream, size)
        if stream.line("chunk"):
            raise HTTPException("the reply has a chunk that is longer than its size")
    while stream.line("trailer line"):
        pass


def _sized(stream: _Stream, size: int) -> Iterator[bytes]:
    while size:
        piece = stream.next(size)
        if not piece:
            raise IncompleteRead(b"", size)
        size -= len(piece)
        yield piece


class _Stream:
    """What has come over a socket and is not taken yet. Each wait for more is as long as the deadline allows."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline
        self._buffer = bytearray()

    @property
    def has_more(self) -> bool:
        return bool(self._buffer)

    def first_line(self) -> str:
        """Take the next line. The connection may also end before it."""
        if not self._buffer and not self._receive():
            raise RemoteDisconnected("Remote end closed connection without response")
        return self.line("status line")

    def line(self, what: str) -> str:
        """Take the next line, without its end. A line that is too long is called `what`."""
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > _LONGEST_LINE:
                raise LineTooLong(what)
            if not self._receive():
                raise IncompleteRead(bytes(self._buffer))
        line = self._buffer[:end].decode("latin-1").removesuffix("\r")
        del self._buffer[: end + 1]
        return line

    def next(self, most: int | None = None) -> bytes:
        """Take what has come, of `most` bytes at most; wait if nothing has. Nothing means the end of the connection."""
        if not self._buffer:
            self._receive()
        taken = bytes(self._buffer[:most])
        del self._buffer[:most]
        return taken

    def _receive(self) -> bool:
        """Wait for more. Return False if the connection has ended."""
        self._sock.settimeout(left(self._deadline))
        piece = self._sock.recv(PIECE)
        self._buffer += piece
        return bool(piece)
