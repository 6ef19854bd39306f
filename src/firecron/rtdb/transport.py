"""HTTP with a wall deadline: a `requests` session whose calls end in time, whatever the server does.

`requests` limits each socket operation, so a server that sends a byte now and then can keep a caller for hours. Here
every read of a connection gets what is left of the call's deadline, and so does making the connection, name
resolution included. Nothing is retried and nothing is redirected: whether a write may be sent again is not for a
transport to decide.

A thread whose reply was lost has a new connection for each call, until a write of its own is answered: some servers
and proxies swallow every request of a connection but the first, and what looks whether the write was applied would
use up the connection that the next write is sent on.
"""

from __future__ import annotations

import http.client
import io
import socket
import threading
from collections.abc import Callable
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import ProxyManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError

from firecron.base.clocks import Deadline

_calls = threading.local()

# What Python says of a thread that is to begin while the interpreter ends.
_ENDING = "interpreter shutdown"


class DeadlineExceeded(TimeoutError):
    """The call's deadline has passed."""


def session(pool_size: int) -> requests.Session:
    """A session for one host, with a pool of that many kept connections; use it through `send`."""
    made = requests.Session()
    adapter = _Adapter(pool_connections=1, pool_maxsize=pool_size, max_retries=0)
    made.mount("http://", adapter)
    made.mount("https://", adapter)
    return made


def send(
    made: requests.Session, request: requests.PreparedRequest, deadline: Deadline, options: Options
) -> requests.Response:
    """Send it, and read the whole reply, before the deadline. Raises what `requests` raises, and DeadlineExceeded."""
    timeout = _left(deadline)
    _calls.deadline = deadline
    try:
        reply = made.send(
            request,
            timeout=timeout,
            allow_redirects=False,
            proxies=options.proxies,
            verify=options.verify,
            cert=options.cert,
        )
    except BaseException:
        _calls.has_lost_a_reply = True
        raise
    finally:
        del _calls.deadline
    if request.method != "GET":
        _calls.has_lost_a_reply = False
    return reply


class Options:
    """What the environment says of proxies and certificates. Asked once: `requests` would ask for every call."""

    def __init__(self, made: requests.Session, url: str) -> None:
        found = made.merge_environment_settings(url, {}, None, None, None)
        self.proxies = found["proxies"]
        self.verify = found["verify"]
        self.cert = found["cert"]


def _left(deadline: Deadline) -> float:
    seconds = deadline.remaining()
    if seconds <= 0:
        raise DeadlineExceeded("the deadline has passed")
    return seconds


class _TimedReader(io.RawIOBase):
    """Reads a connection, each time with what is left of the deadline."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase, deadline: Deadline) -> None:
        self._sock = sock
        self._raw = raw
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:  # what io hands over is a memoryview, which typeshed can't say
        self._sock.settimeout(_left(self._deadline))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(
        self, sock: socket.socket, debuglevel: int = 0, method: str | None = None, url: str | None = None
    ) -> None:
        super().__init__(sock, debuglevel, method, url)
        deadline: Deadline | None = getattr(_calls, "deadline", None)
        if deadline is not None:
            # The file that was made of the socket stays below: it keeps the socket open for a reply that ends the
            # connection.
            self.fp = io.BufferedReader(_TimedReader(sock, self.fp.detach(), deadline))


class _Connecting:
    """A connection that is made on a thread of its own: no call on the way to it, DNS least of all, has a deadline
    that holds.
    """

    def connect(self) -> None:
        deadline: Deadline | None = getattr(_calls, "deadline", None)
        connect: Callable[[], None] = super().connect  # type: ignore[misc]  # a mixin: HTTPConnection comes next
        if deadline is None:
            connect()
            return
        failures: list[BaseException] = []
        done = threading.Event()
        abandoned = threading.Event()

        def work() -> None:
            try:
                connect()
            except BaseException as error:
                failures.append(error)
            done.set()
            if abandoned.is_set():
                self.close()  # type: ignore[attr-defined]  # as above

        try:
            threading.Thread(target=work, name="firecron-connect", daemon=True).start()
        except RuntimeError as error:
            if _ENDING not in str(error):
                # No thread can be had, for want of memory: nothing was sent.
                raise ConnectTimeoutError(self, str(error)) from error
            # From Python 3.12 on no thread begins while `atexit` runs, where a stop releases what it can. The socket
            # has the deadline as its timeout; only a name's resolution may take longer.
            connect()
            return
        if not done.wait(_left(deadline)):
            abandoned.set()
            raise ConnectTimeoutError(self, "no connection within the deadline")
        if failures:
            raise failures[0]

    @property
    def is_connected(self) -> bool:
        """Whether the pool may use it again. If not, it closes the connection and makes a new one."""
        is_usable = not getattr(_calls, "has_lost_a_reply", False)
        return is_usable and super().is_connected  # type: ignore[misc]  # as above


class _PlainConnection(_Connecting, HTTPConnection):
    response_class = _Response


class _TlsConnection(_Connecting, HTTPSConnection):
    response_class = _Response


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _PlainConnection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


_POOLS = {"http": _PlainPool, "https": _TlsPool}


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **options: Any) -> None:
        super().init_poolmanager(connections, maxsize, block, **options)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, proxy: str, **options: Any) -> ProxyManager:
        manager: ProxyManager = super().proxy_manager_for(proxy, **options)
        manager.pool_classes_by_scheme = _POOLS
        return manager
