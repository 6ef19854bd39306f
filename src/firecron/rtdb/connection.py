"""One connection of HTTP, whose every read has a deadline (`replies`).

The libraries limit each socket operation, so a server that sends one byte now and then could keep a caller for hours.
Here every read of a connection gets what is left of the call's deadline. So does making the connection, including name
resolution. A reply without an end, a stream, is read until a deadline that its reader may move.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from http.client import HTTPException

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, HTTPError

from firecron.base.clocks import Deadline
from firecron.rtdb.causes import find_cause, named
from firecron.rtdb.replies import Reply, left, open_reply, read_reply

# A part of Python's error for a thread that is started while the interpreter ends.
_ENDING = "interpreter shutdown"


class NoReply(Exception):
    """No whole reply came before the deadline. The server may have read the request.

    The text of the exception names the `cause`.
    """

    def __init__(self, cause: BaseException) -> None:
        super().__init__(named(cause))
        self.cause = cause


# Raised by urllib3, by the reading of a reply, and by the socket; DeadlineExceeded is an OSError.
FAILURES = (HTTPError, HTTPException, OSError)


class OpenReply:
    """A reply whose body has no end of its own. It may be read until `limit`, which its reader may move.

    `shut` is for any thread, everything else for the thread that reads.
    """

    def __init__(self, connection: PlainConnection, sock: socket.socket, limit: Deadline) -> None:
        self.limit = limit
        self._connection = connection
        self._sock = sock
        head, self._pieces = open_reply(sock, limit)
        self.status, self.reason, self.headers = head.status, head.reason, head.headers

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
    """A connection for one call at a time. `deadline` is the deadline of the current call."""

    deadline: Deadline

    def exchange(self, request: bytes, most: int | None) -> Reply:
        """Send a request, and read its reply: to its end, or `most` bytes of its body."""
        reply = read_reply(self._send(request), self.deadline, most)
        if reply.is_over:
            self.close()
        return reply

    def open(self, request: bytes) -> OpenReply:
        """Send a request, and return its reply without the body."""
        return OpenReply(self, self._send(request), self.deadline.within(left(self.deadline)))

    def _send(self, request: bytes) -> socket.socket:
        sock = self.sock
        assert sock is not None, "it is connected"
        sock.settimeout(left(self.deadline))
        with suppress(BrokenPipeError, ConnectionResetError):
            sock.sendall(request)  # a server that stops reading may have sent its reply before
        return sock

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
