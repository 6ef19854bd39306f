"""HTTP with a deadline: a call to one host ends in time, whatever the server does.

The libraries limit each socket operation, so a server that sends one byte now and then could keep a caller for hours.
Here every read of a connection gets what is left of the call's deadline. So does making the connection, including name
resolution. A reply without an end, a stream, is read until a deadline that its reader may move.

`requests` reads the environment's settings for proxies and certificates. `urllib3` makes the connections and keeps them
in a pool. A call then uses a connection of the pool directly: what `requests` and `urllib3` do around a call costs more
CPU than the call itself. So does `http.client`, which reads headers with the parser for e-mail. Replies to a database's
client need little of that: a header is one line, and only its first value counts. The sizes of lines and the number of
headers are limited as in `http.client`. The size of a body is limited by the deadline alone, unless the caller says how
much of it to keep.

Nothing is retried and no redirect is followed: a transport can't decide whether a write may be sent again.

After a lost reply, a thread uses a new connection for its next read, and a new one for its next write. Some servers and
proxies swallow every request of a connection but the first. The read that looks whether a write was applied would use
up the connection of the next write.
"""

from __future__ import annotations

import re
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from http import HTTPStatus
from http.client import BadStatusLine, HTTPException, IncompleteRead, LineTooLong, RemoteDisconnected
from queue import Empty
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.utils import select_proxy
from urllib3 import ProxyManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError, HTTPError

from firecron.base.clocks import Deadline
from firecron.base.texts import redacted
from firecron.errors import ConfigurationError
from firecron.rtdb.failures import DeadlineExceeded, NoReply, find_cause

# --- failures


def left(deadline: Deadline) -> float:
    """Return the seconds that are left. Raise DeadlineExceeded if there are none."""
    seconds = deadline.remaining()
    if seconds <= 0:
        raise DeadlineExceeded("the deadline has passed")
    return seconds


# Raised by urllib3, by the reading of a reply, and by the socket; DeadlineExceeded is an OSError.
FAILURES = (HTTPError, HTTPException, OSError)


# --- replies
#
# A reply is returned whole, or an exception of `http.client` or of the socket is raised.

PIECE = 65_536
_SAME = 0.001  # in seconds
_LONGEST_LINE = 65_536
_MOST_HEADERS = 100
_STATUS_LINE = re.compile(r"HTTP/1\.([0-9]) +([1-9][0-9]{2})(?: (.*))?")
_CHUNK = re.compile(r"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?")
_LENGTH = re.compile("[0-9]{1,18}")
# Plain numbers: each look at a member of the enumeration costs as much as a header.
_CONTINUE, _SWITCHING, _OK = map(int, (HTTPStatus.CONTINUE, HTTPStatus.SWITCHING_PROTOCOLS, HTTPStatus.OK))
_WITHOUT_BODY = frozenset({_SWITCHING, int(HTTPStatus.NO_CONTENT), int(HTTPStatus.NOT_MODIFIED)})


class Reply(NamedTuple):
    """A whole reply. The names of its `headers` are in lower case. After some replies the connection `is_over`."""

    status: int
    reason: str
    headers: Mapping[str, str]
    content: bytes
    is_over: bool


def read_reply(sock: socket.socket, deadline: Deadline, most: int | None = None) -> Reply:
    """Read the reply to a request that has been sent. The request is not a HEAD.

    A body of more than `most` bytes is cut there. What is left of it is not read, and the connection is over.
    """
    coming = _Incoming(sock, deadline)
    content, is_cut = bytearray(), False
    for piece in coming.pieces():
        content += piece
        is_cut = most is not None and len(content) > most
        if is_cut:
            break
    whole = bytes(content[:most] if is_cut else content)
    return Reply(coming.status, coming.reason, coming.headers, whole, is_over=is_cut or coming.is_over)


class _Incoming:
    """A reply that comes over a socket: its head, which is read at once, then its body in pieces.

    Each wait for more is as long as the deadline allows. The names of the `headers` are in lower case.
    """

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline
        self._buffer = bytearray()
        self.status = _CONTINUE
        while _CONTINUE <= self.status < _OK and self.status != _SWITCHING:
            lines = self._head()
            line = next(lines)
            found = _STATUS_LINE.fullmatch(line)
            if found is None:
                raise BadStatusLine(line)
            self._minor, self.status, self.reason = int(found[1]), int(found[2]), (found[3] or "").strip()
            self.headers = _headers(lines)

    def pieces(self) -> Iterator[bytes]:
        """Return the body in pieces, each as soon as it comes."""
        if self.status in _WITHOUT_BODY:
            return iter(())
        if self._is_chunked:
            return self._chunks()
        length = self.headers.get("content-length")
        if length is None:
            return iter(self._next, b"")
        if not _LENGTH.fullmatch(length):
            raise HTTPException(f"the reply has the Content-Length {length!r:.40}")
        return self._sized(int(length))

    @property
    def is_over(self) -> bool:
        """Whether the connection is over, once the body is read.

        The server closes it, or only its end showed the end of the body. Nothing was asked for that could follow, so
        bytes that follow must not be taken for the next reply.
        """
        is_framed = self.status in _WITHOUT_BODY or self._is_chunked or "content-length" in self.headers
        connection = self.headers.get("connection", "").lower()
        is_kept = "close" not in connection and (self._minor > 0 or "keep-alive" in connection)
        return not (is_framed and is_kept) or bool(self._buffer)

    @property
    def _is_chunked(self) -> bool:
        return self.headers.get("transfer-encoding", "").lower() == "chunked"

    def _chunks(self) -> Iterator[bytes]:
        while True:
            line = self._line("chunk size")
            found = _CHUNK.fullmatch(line)
            if found is None:
                raise HTTPException(f"the reply has a chunk of the size {line!r:.40}")
            size = int(found[1], 16)
            if not size:
                break
            yield from self._sized(size)
            if self._line("chunk"):
                raise HTTPException("the reply has a chunk that is longer than its size")
        while self._line("trailer line"):
            pass

    def _sized(self, size: int) -> Iterator[bytes]:
        while size:
            piece = self._next(size)
            if not piece:
                raise IncompleteRead(b"", size)
            size -= len(piece)
            yield piece

    def _head(self) -> Iterator[str]:
        """Take the lines of a head, the status line first, without the empty line after them.

        The connection may also end before it. Mostly a head has come whole, and is split at once.
        """
        if not self._buffer and not self._receive():
            raise RemoteDisconnected("Remote end closed connection without response")
        end = self._buffer.find(b"\r\n\r\n", 0, _LONGEST_LINE)
        lines = self._buffer[: max(0, end)].decode("latin-1").split("\r\n")
        if end < 0 or self._buffer.count(b"\n", 0, end) >= len(lines):
            return self._lines_of_head()
        del self._buffer[: end + 4]
        return iter(lines)

    def _lines_of_head(self) -> Iterator[str]:
        yield self._line("status line")
        while line := self._line("header line"):
            yield line

    def _line(self, what: str) -> str:
        """Take the next line, without its end. A line that is too long is called `what`."""
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > _LONGEST_LINE:
                raise LineTooLong(what)
            if not self._receive():
                raise IncompleteRead(bytes(self._buffer))
        line = self._buffer[:end].decode("latin-1").removesuffix("\r")
        del self._buffer[: end + 1]
        return line

    def _next(self, most: int | None = None) -> bytes:
        """Take what has come, of `most` bytes at most; wait if nothing has. Nothing means the end of the connection."""
        if not self._buffer:
            self._receive()
        taken = bytes(self._buffer[:most])
        del self._buffer[:most]
        return taken

    def _receive(self) -> bool:
        """Wait for more. Return False if the connection has ended."""
        _limit(self._sock, self._deadline)
        piece = self._sock.recv(PIECE)
        self._buffer += piece
        return bool(piece)


def _headers(lines: Iterator[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for number, line in enumerate(lines):
        if number == _MOST_HEADERS:
            raise HTTPException(f"got more than {_MOST_HEADERS} headers")
        name, _, value = line.partition(":")
        headers.setdefault(name.lower(), value.strip(" \t"))
    return headers


def _limit(sock: socket.socket, deadline: Deadline) -> None:
    """Let the socket's next operation wait no longer than the deadline allows, to the millisecond.

    To set the limit is a request to the system, for which a thread gives Python's lock away. So one that is as good,
    such as that of the call before, stays.
    """
    seconds, last = left(deadline), sock.gettimeout()
    if last is None or abs(seconds - last) > _SAME:
        sock.settimeout(seconds)


# --- connections

# A part of Python's error for a thread that is started while the interpreter ends.
_ENDING = "interpreter shutdown"


class OpenReply:
    """A reply whose body has no end of its own. It may be read until `limit`, which its reader may move.

    `shut` is for any thread, everything else for the thread that reads.
    """

    def __init__(self, connection: PlainConnection, sock: socket.socket, limit: Deadline) -> None:
        self.limit = limit
        self._connection = connection
        self._sock = sock
        coming = _Incoming(sock, limit)
        self._pieces = coming.pieces()
        self.status, self.reason, self.headers = coming.status, coming.reason, coming.headers

    def read(self) -> bytes:
        """Wait for more of the body and return it; nothing at its end. Raises NoReply."""
        handled = sys.exc_info()[1]
        try:
            return next(self._pieces, b"")
        except FAILURES as error:
            raise NoReply(find_cause(error, handled)) from error

    def whole(self) -> Reply:
        """Read the body to its end, and close the connection. Raises NoReply."""
        content = b""
        try:
            while piece := self.read():
                content += piece
        finally:
            self.close()
        return Reply(self.status, self.reason, self.headers, content, is_over=True)

    def shut(self) -> None:
        """End a `read` that waits, and every later one. The connection is still to be closed."""
        # A socket's own method: that of a TLS socket would take the state away that a read is using.
        with suppress(OSError):  # it is closed already
            socket.socket.shutdown(getattr(self._sock, "socket", self._sock), socket.SHUT_RDWR)

    def close(self) -> None:
        self._connection.close()


class PlainConnection(HTTPConnection):
    """A connection for one call at a time. It is made within the `deadline` of the call that needs it."""

    deadline: Deadline

    def connect(self) -> None:
        """Connect on a thread of its own, because the calls that connect, above all DNS, have no reliable deadline.

        That thread connects a copy of this connection, so that it may go on after its caller has left.
        """
        made = copy(self)
        failures: list[BaseException] = []
        done = threading.Event()
        # Taken by the thread when it is done, or by the caller that leaves: by whichever is first. The second of them
        # closes what was made.
        first = threading.Lock()

        def work() -> None:
            try:
                super(PlainConnection, made).connect()
            except BaseException as error:
                failures.append(error)
            if first.acquire(blocking=False):
                done.set()
            else:
                made.close()

        try:
            if not self._begin(work):
                super().connect()
                return
            if not done.wait(left(self.deadline)):
                raise ConnectTimeoutError(self, "no connection within the deadline")
            if failures:
                raise failures[0]
            vars(self).update(vars(made))
        except BaseException:
            if not first.acquire(blocking=False):
                made.close()
            raise

    def _begin(self, work: Callable[[], None]) -> bool:
        """Start a thread that connects. Return False where the caller has to connect."""
        try:
            threading.Thread(target=work, name="firecron-connect", daemon=True).start()
        except RuntimeError as error:
            if _ENDING not in str(error):
                # No thread can be started, for want of memory. Nothing was sent.
                raise ConnectTimeoutError(self, str(error)) from error
            # From Python 3.12 on no thread can start while `atexit` runs, but a stop releases locks there. So the
            # connection is made by the caller. The socket's timeout is the deadline; only name resolution may take
            # longer.
            return False
        return True


class TlsConnection(PlainConnection, HTTPSConnection):
    """A connection over TLS."""

    def connect(self) -> None:
        super().connect()
        if isinstance(self.sock, ssl.SSLSocket):
            # Else an end without TLS's own, which anybody on the way can make, would be the end of a body.
            self.sock.suppress_ragged_eofs = False  # type: ignore[attr-defined]  # typeshed does not know it


# --- calls


class _NotConnected(OSError):
    """There was no connection, so nothing was sent."""


class _Needs(threading.local):
    """Whether the calling thread needs a new connection for its next read, and for its next write."""

    new_for_read = False
    new_for_write = False


class Transport:
    """Calls to the host of `url`, from any thread, over a pool that keeps up to `pool_size` connections.

    `most` is for a host that isn't trusted with this instance's memory: no more bytes of a reply's body are kept.
    The environment's settings for proxies and certificates are read once, here. Raises ConfigurationError if they name
    a proxy or a file that can't be used.
    """

    def __init__(self, url: str, pool_size: int, most: int | None = None) -> None:
        self._most = most
        adapter = _Adapter(pool_connections=1, pool_maxsize=pool_size, max_retries=0)
        self._pool, self._prefix = adapter.reach(url)
        self._needs = _Needs()
        headers = {"Host": urlsplit(url).netloc.rpartition("@")[2], "Accept-Encoding": "identity"}
        if self._prefix:
            # Without a tunnel, each request carries the proxy's headers. With a tunnel, only its setup does.
            headers |= self._pool.proxy_headers
        self._lines = [f"{name}: {value}" for name, value in headers.items()]

    def send(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None, deadline: Deadline
    ) -> Reply:
        """Send a request for `target`, the URL from its path on, and return the whole reply. Raises NoReply."""
        # An exception that the caller is handling already is not a cause of this request's failure.
        handled = sys.exc_info()[1]
        request = self._request(method, target, headers, body)
        is_read, needs = method == "GET", self._needs
        try:
            on_new = needs.new_for_read if is_read else needs.new_for_write
            reply = self._pool.exchange(request, deadline, on_new=on_new, most=self._most)
        except BaseException as error:
            needs.new_for_read = needs.new_for_write = True
            if isinstance(error, FAILURES):
                raise NoReply(find_cause(error, handled), was_sent=not isinstance(error, _NotConnected)) from error
            raise
        if is_read:
            needs.new_for_read = False
        else:
            needs.new_for_write = False
        return reply

    def open(self, target: str, headers: Mapping[str, str], deadline: Deadline) -> OpenReply:
        """Send a GET on a connection of its own, and return the reply once its head has come. Raises NoReply."""
        handled = sys.exc_info()[1]
        try:
            return self._pool.open(self._request("GET", target, headers, None), deadline)
        except FAILURES as error:
            raise NoReply(find_cause(error, handled)) from error

    def _request(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
        lines = [f"{method} {self._prefix}{target} HTTP/1.1", *self._lines]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        head = "\r\n".join([*lines, "", ""])
        if not head.count("\r") == head.count("\n") == len(lines) + 1:
            raise NoReply(ValueError("a line break in a header would begin another header"), was_sent=False)
        return head.encode("latin-1") + (body or b"")

    def rest(self) -> None:
        """Close the connections that no call uses. A later call makes one."""
        self._pool.rest()

    def close(self) -> None:
        """Close the connections. A call that is under way keeps its own until it ends; a later call raises NoReply."""
        self._pool.close()


def _sent(connection: PlainConnection, request: bytes, deadline: Deadline) -> socket.socket:
    """Send a request, and return the socket on which its reply comes."""
    sock = connection.sock
    assert sock is not None, "it is connected"
    _limit(sock, deadline)
    with suppress(BrokenPipeError, ConnectionResetError):
        sock.sendall(request)  # a server that stops reading may have sent its reply before
    return sock


class _PlainPool(HTTPConnectionPool):
    """A pool of connections to one host. `exchange` takes the place of `urlopen`."""

    ConnectionCls = PlainConnection

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._resting = threading.Lock()
        self._rests = 0

    def exchange(self, request: bytes, deadline: Deadline, *, on_new: bool, most: int | None) -> Reply:
        """Make a call on one of the connections, or on a new one. A connection whose call failed is closed."""
        rests = self._rests
        connection = cast(PlainConnection, self._get_conn())
        try:
            if on_new:
                connection.close()
            if connection.is_closed:
                try:
                    connection.deadline, connection.timeout = deadline, left(deadline)
                    self.connect(connection)
                except FAILURES as error:
                    raise _NotConnected from error
            reply = read_reply(_sent(connection, request, deadline), deadline, most)
            if reply.is_over:
                connection.close()
        except BaseException:
            connection.close()
            raise
        finally:
            with self._resting:
                if rests != self._rests:
                    connection.close()  # nobody may use it for long
                self._put_conn(connection)
            if self.pool is None:
                connection.close()  # it may have come back after `close` had closed all others
        return reply

    def open(self, request: bytes, deadline: Deadline) -> OpenReply:
        """Make a call on a new connection that is not the pool's, and return its reply without the body."""
        connection = cast(PlainConnection, self._new_conn())
        connection.deadline, connection.timeout = deadline, left(deadline)
        try:
            self.connect(connection)
            return OpenReply(connection, _sent(connection, request, deadline), deadline.within(left(deadline)))
        except BaseException:
            connection.close()
            raise

    def rest(self) -> None:
        """Close the connections that are in the pool. A call that has taken one uses it to the end, and closes it."""
        pool, idle = self.pool, []
        if pool is None:
            return  # it is closed, and so are they
        with self._resting:
            self._rests += 1
            with suppress(Empty):
                while True:
                    idle.append(pool.get_nowait())
            for connection in idle:
                if connection is not None:
                    connection.close()
                pool.put_nowait(connection)

    def connect(self, connection: PlainConnection) -> None:
        """Connect to the host, or to the proxy that forwards requests to the host."""
        connection.connect()


class _TlsPool(_PlainPool, HTTPSConnectionPool):
    """A pool of connections over TLS; with a proxy, through its tunnel."""

    ConnectionCls = TlsConnection

    def connect(self, connection: PlainConnection) -> None:
        if self.proxy is None:
            connection.connect()
        else:
            self._prepare_proxy(cast("HTTPSConnection", connection))


_POOLS: dict[str, type] = {"http": _PlainPool, "https": _TlsPool}


class _Adapter(HTTPAdapter):
    """Uses what `requests` knows about proxies and certificates."""

    def reach(self, url: str) -> tuple[_PlainPool, str]:
        """Return the pool for a URL, and the text before each path in a request.

        Without a tunnel that text is the URL, because a proxy needs it.
        """
        try:
            found = requests.Session().merge_environment_settings(url, {}, None, None, None)
            proxies, verify, cert = found["proxies"], found["verify"], found["cert"]
            proxy = select_proxy(url, proxies) or ""
            if urlsplit(proxy).scheme.startswith("socks"):
                raise ValueError(f"{redacted(proxy)} is a SOCKS proxy: only http and https proxies are known here")
            request = requests.Request("GET", url).prepare()
            pool = self.get_connection_with_tls_context(request, verify, proxies, cert)
            self.cert_verify(pool, url, verify, cert)
            target = self.request_url(request, proxies)
        except (OSError, ValueError) as error:
            # Some versions of urllib3 quote the proxy's URL, with its password: it is in no traceback either.
            raise ConfigurationError(
                f"the proxy or the certificates that the environment names for {url} can't be used: "
                f"{redacted(str(error))}"
            ) from None
        assert isinstance(pool, _PlainPool), pool
        return pool, target.rstrip("/")

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **options: Any) -> None:
        super().init_poolmanager(connections, maxsize, block, **options)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, proxy: str, **options: Any) -> ProxyManager:
        manager: ProxyManager = super().proxy_manager_for(proxy, **options)
        manager.pool_classes_by_scheme = _POOLS
        return manager
