"""HTTP with a deadline: a call to one host ends in time, whatever the server does.

`requests` reads the environment's settings for proxies and certificates. `urllib3` makes the connections and keeps them
in a pool. A call then uses a connection of the pool directly (`connection`): what `requests` and `urllib3` do around a
call costs more CPU than the call itself.

Nothing is retried and no redirect is followed: a transport can't decide whether a write may be sent again.

After a lost reply, a thread uses a new connection for its next read, and a new one for its next write. Some servers and
proxies swallow every request of a connection but the first. The read that looks whether a write was applied would use
up the connection of the next write.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.utils import select_proxy
from urllib3 import ProxyManager
from urllib3.connection import HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from firecron.base.clocks import Deadline
from firecron.base.redaction import redacted
from firecron.errors import ConfigurationError
from firecron.rtdb.causes import find_cause
from firecron.rtdb.connection import FAILURES, NoReply, OpenReply, PlainConnection, TlsConnection
from firecron.rtdb.replies import Reply, left


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
                raise NoReply(find_cause(error, handled)) from error
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
            raise NoReply(ValueError("a line break in a header would begin another header"))
        return head.encode("latin-1") + (body or b"")

    def close(self) -> None:
        """Close the connections. A call that is under way keeps its own until it ends; a later call raises NoReply."""
        self._pool.close()


class _PlainPool(HTTPConnectionPool):
    """A pool of connections to one host. `exchange` takes the place of `urlopen`."""

    ConnectionCls = PlainConnection

    def exchange(self, request: bytes, deadline: Deadline, *, on_new: bool, most: int | None) -> Reply:
        """Make a call on one of the connections, or on a new one. A connection whose call failed is closed."""
        connection = cast(PlainConnection, self._get_conn())
        try:
            if on_new:
                connection.close()
            connection.deadline = deadline
            if connection.is_closed:
                connection.timeout = left(deadline)
                self.connect(connection)
            reply = connection.exchange(request, most)
        except BaseException:
            connection.close()
            raise
        finally:
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
            return connection.open(request)
        except BaseException:
            connection.close()
            raise

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
