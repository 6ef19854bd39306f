"""HTTP with a deadline: a call to one host ends in time, whatever the server does.

`requests` reads the environment's settings for proxies and certificates. `urllib3` makes the connections and keeps them
in a pool. A call then uses a connection of the pool directly: what `requests` and `urllib3` do around a call costs more
CPU than the call itself.

These libraries limit each socket operation, so a server that sends one byte now and then could keep a caller for hours.
Here every read of a connection gets what is left of the call's deadline. So does making the connection, including name
resolution. Nothing is retried and no redirect is followed: a transport can't decide whether a write may be sent again.

After a lost reply, a thread uses a new connection for its next read, and a new one for its next write. Some servers and
proxies swallow every request of a connection but the first. The read that looks whether a write was applied would use
up the connection of the next write.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException
from typing import Any, cast
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.utils import select_proxy
from urllib3 import ProxyManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError, HTTPError

from firecron.base.clocks import Deadline
from firecron.base.redaction import redacted
from firecron.errors import ConfigurationError
from firecron.rtdb.causes import find_cause, named
from firecron.rtdb.replies import Reply, left, read_reply

# A part of Python's error for a thread that is started while the interpreter ends.
_ENDING = "interpreter shutdown"


class NoReply(Exception):
    """No whole reply came before the deadline. The server may have read the request.

    The text of the exception names the `cause`.
    """

    def __init__(self, cause: BaseException) -> None:
        super().__init__(named(cause))
        self.cause = cause


class _Needs(threading.local):
    """Whether the calling thread needs a new connection for its next read, and for its next write."""

    new_for_read = False
    new_for_write = False


class Transport:
    """Calls to the host of `url`, from any thread, over a pool that keeps up to `pool_size` connections.

    The environment's settings for proxies and certificates are read once, here. Raises ConfigurationError if they name
    a proxy or a file that can't be used.
    """

    def __init__(self, url: str, pool_size: int) -> None:
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
        lines = [f"{method} {self._prefix}{target} HTTP/1.1", *self._lines]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        head = "\r\n".join([*lines, "", ""])
        if not head.count("\r") == head.count("\n") == len(lines) + 1:
            raise NoReply(ValueError("a line break in a header would begin another header"))
        # An exception that the caller is handling already is not a cause of this request's failure.
        handled = sys.exc_info()[1]
        request = head.encode("latin-1") + (body or b"")
        is_read, needs = method == "GET", self._needs
        try:
            reply = self._pool.exchange(
                request, deadline, on_new=needs.new_for_read if is_read else needs.new_for_write
            )
        except BaseException as error:
            needs.new_for_read = needs.new_for_write = True
            if isinstance(error, _FAILURES):
                raise NoReply(find_cause(error, handled)) from error
            raise
        if is_read:
            needs.new_for_read = False
        else:
            needs.new_for_write = False
        return reply

    def close(self) -> None:
        """Close the connections. A call that is under way keeps its own until it ends; a later call raises NoReply."""
        self._pool.close()


# Raised by urllib3, by the reading of a reply, and by the socket; DeadlineExceeded is an OSError.
_FAILURES = (HTTPError, HTTPException, OSError)


class _PlainConnection(HTTPConnection):
    """A connection for one call at a time. `deadline` is the deadline of the current call."""

    deadline: Deadline

    def exchange(self, request: bytes) -> Reply:
        """Send a request, and read its reply to the end."""
        sock = self.sock
        assert sock is not None, "it is connected"
        sock.settimeout(left(self.deadline))
        with suppress(BrokenPipeError, ConnectionResetError):
            sock.sendall(request)  # a server that stops reading may have sent its reply before
        reply = read_reply(sock, self.deadline)
        if reply.is_over:
            self.close()
        return reply

    def connect(self) -> None:
        """Connect on a thread of its own, because the calls that connect, above all DNS, have no reliable deadline."""
        failures: list[BaseException] = []
        done = threading.Event()
        abandoned = threading.Event()

        def work() -> None:
            try:
                super(_PlainConnection, self).connect()
            except BaseException as error:
                failures.append(error)
            done.set()
            if abandoned.is_set():
                self.close()

        try:
            threading.Thread(target=work, name="firecron-connect", daemon=True).start()
        except RuntimeError as error:
            if _ENDING not in str(error):
                # No thread can be started, for want of memory. Nothing was sent.
                raise ConnectTimeoutError(self, str(error)) from error
            # From Python 3.12 on no thread can start while `atexit` runs, but a stop releases locks there. So the
            # connection is made here. The socket's timeout is the deadline; only name resolution may take longer.
            super().connect()
            return
        if not done.wait(left(self.deadline)):
            abandoned.set()
            raise ConnectTimeoutError(self, "no connection within the deadline")
        if failures:
            raise failures[0]


class _TlsConnection(_PlainConnection, HTTPSConnection):
    """A connection over TLS."""


class _PlainPool(HTTPConnectionPool):
    """A pool of connections to one host. `exchange` takes the place of `urlopen`."""

    ConnectionCls = _PlainConnection

    def exchange(self, request: bytes, deadline: Deadline, *, on_new: bool) -> Reply:
        """Make a call on one of the connections, or on a new one. A connection whose call failed is not used again."""
        connection: _PlainConnection | None = cast(_PlainConnection, self._get_conn())
        assert connection is not None
        try:
            if on_new:
                connection.close()
            connection.deadline = deadline
            if connection.is_closed:
                connection.timeout = left(deadline)
                self.connect(connection)
            reply = connection.exchange(request)
        except BaseException:
            # An abandoned thread may still be connecting it.
            connection.close()
            connection = None
            raise
        finally:
            self._put_conn(connection)
        return reply

    def connect(self, connection: _PlainConnection) -> None:
        """Connect to the host, or to the proxy that forwards requests to the host."""
        connection.connect()


class _TlsPool(_PlainPool, HTTPSConnectionPool):
    """A pool of connections over TLS; with a proxy, through its tunnel."""

    ConnectionCls = _TlsConnection

    def connect(self, connection: _PlainConnection) -> None:
        if self.proxy is None:
            connection.connect()
        else:
            self._prepare_proxy(cast("HTTPSConnection", connection))


_POOLS = {"http": _PlainPool, "https": _TlsPool}


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
            raise ConfigurationError(
                f"the proxy or the certificates that the environment names for {url} can't be used: {error}"
            ) from error
        assert isinstance(pool, _PlainPool), pool
        return pool, target.rstrip("/")

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **options: Any) -> None:
        super().init_poolmanager(connections, maxsize, block, **options)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, proxy: str, **options: Any) -> ProxyManager:
        manager: ProxyManager = super().proxy_manager_for(proxy, **options)
        manager.pool_classes_by_scheme = _POOLS
        return manager
