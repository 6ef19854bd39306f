"""The store: nodes are read and swapped by ETag. Each call ends by its deadline, and fails with one of two errors.

    Unavailable   no answer in time, a network error, a 5xx, a 408, a 429, or an answer that RTDB never gives.
                  A write may have been applied.
    Denied        another 4xx: the rules, the credentials, or a database that does not exist.

A request whose access token is refused has had no effect, so it is sent again with another token, once. Besides, the
store never sends a write twice; the exchanges decide what may be sent again. A status of 200 alone confirms nothing,
because a network's sign-in page also has it. So the answer to a read must have an ETag, and the answer to a write must
have an ETag or the value that was written. A write of much that no lock depends on is answered by a 204 without a body.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeGuard
from urllib.parse import quote, urlsplit

from firecron import __version__
from firecron.base.clocks import Deadline, Timing
from firecron.base.instants import to_milliseconds
from firecron.errors import ConfigurationError, Denied, EmulatorDown, NoIndex, Unavailable
from firecron.rtdb.failures import NoReply
from firecron.rtdb.stream import Stream, redirected
from firecron.rtdb.target import Target
from firecron.rtdb.tokens import RefreshingTokens, google_fetch
from firecron.store import NULL_ETAG, ONE_MORE, SERVER_TIME, Node, Snapshot, order_of

if TYPE_CHECKING:
    from firecron.rtdb.transport import OpenReply, Reply

# How many connections are kept open if the caller doesn't say.
_CONNECTIONS = 32
_TO_JSON = json.JSONEncoder(separators=(",", ":"))
_FROM_JSON = json.JSONDecoder()
# The paths that a URL may have as they are: all but those with names that users choose, such as a step's.
_PLAIN = re.compile(r"[A-Za-z0-9_.~/:-]*", re.ASCII)
# Plain numbers: each look at a member of the enumeration costs as much as a header.
_OK, _NO_CONTENT = int(HTTPStatus.OK), int(HTTPStatus.NO_CONTENT)
_UNAUTHORIZED, _FAILED = int(HTTPStatus.UNAUTHORIZED), int(HTTPStatus.PRECONDITION_FAILED)
_UNKNOWN_ETAG = "unknown"
_USER_AGENT = f"firecron/{__version__}"
# RTDB redirects a stream to the server of its database, once.
_MOST_REDIRECTS = 3


class StaticToken:
    """The emulator's token, in place of `RefreshingTokens`: the token `owner` is an administrator's."""

    def header(self, deadline: Deadline) -> str:
        return "Bearer owner"

    def rejected(self) -> None:
        """Do nothing: there is no other token."""

    def another(self, revoked: str, deadline: Deadline) -> str:
        return self.header(deadline)

    def instead_of(self, refused: str, deadline: Deadline) -> str:
        return self.header(deadline)


class _Connection:
    """The connection to one database: its address, the tokens for it, and the pool of sockets."""

    def __init__(self, target: Target, timing: Timing, connections: int) -> None:
        import requests

        from firecron.rtdb.transport import Transport

        try:
            requests.PreparedRequest().prepare_url(f"{target.base_url}/{target.suffix}", None)
        except ValueError as error:
            raise ConfigurationError(f"the database URL {target.base_url!r} can't be used: {error}") from error
        self.target = target
        self.name = target.shown
        self.suffix = target.suffix
        self.joint = "&" if "?" in target.suffix else "?"
        self.tokens: StaticToken | RefreshingTokens
        if target.load_credential is None:
            self.tokens = StaticToken()
        else:
            self.tokens = RefreshingTokens(target.load_credential, google_fetch(timeout=30), timing)
        self.transport = Transport(target.base_url, connections)
        # The header that RTDB has said of that it accepts it no more.
        self.revoked = ""

    def revoke(self, header: str) -> None:
        self.revoked = header

    def another_header(self, header: str, deadline: Deadline) -> str | None:
        """Return the header to send a request again with that has refused this one's token; None if there is no other.

        A token may expire, or be revoked, on the way of a request.
        """
        another = self.tokens.instead_of(header, deadline)
        return None if another == header else another


class RtdbStore:
    """A Realtime Database over REST.

    `find_target` returns the database, and is called when a connection is made. `note` is then called with the target.
    A thread that makes or drops the connection holds `connecting`. At most `connections` sockets are kept for the next
    requests. A thread more than that opens one for itself.
    """

    def __init__(
        self,
        find_target: Callable[[], Target],
        timing: Timing,
        note: Callable[[Target], None] = lambda target: None,
        connections: int = _CONNECTIONS,
    ) -> None:
        self._find_target = find_target
        self._note = note
        self._timing = timing
        self._connections = connections
        self._connection: _Connection | None = None
        self.connecting = threading.Lock()

    @property
    def name(self) -> str:
        connection = self._connection
        return "RTDB" if connection is None else connection.name

    def connect(self) -> None:
        self._connected()

    def read(self, path: str, deadline: Deadline) -> Snapshot:
        reply = self._call("GET", path, None, {"X-Firebase-ETag": "true"}, deadline)
        return _snapshot(reply)

    def swap(self, path: str, etag: str, node: Node, deadline: Deadline) -> str | Snapshot:
        headers = {"if-match": etag, "X-Firebase-ETag": "true"}
        sent = None if node is None else _to_json(node)
        reply = self._call("DELETE" if node is None else "PUT", path, sent, headers, deadline)
        if reply.status == _FAILED:
            return _snapshot(reply)
        written = reply.headers.get("etag")
        # Mostly it is the text that was sent. RTDB's ETags are never weak; those that web servers make for any page
        # often are.
        if reply.content == sent or (body := _body(reply)) == node or (written and not written.startswith("W/")):
            return written or (NULL_ETAG if node is None else _UNKNOWN_ETAG)
        raise _stray("a write", body)

    def timestamp(self, path: str, deadline: Deadline) -> int:
        now = _body(self._call("PUT", path, _to_json(SERVER_TIME), {}, deadline))
        if not _is_time(now):
            raise _stray("a request for its time", now)
        return now

    def date(self, path: str, deadline: Deadline) -> int | None:
        from email.utils import parsedate_to_datetime

        reply = self._call("GET", path, None, {}, deadline)
        try:
            # The second is cut off: in the middle of it the time is known best.
            return to_milliseconds(parsedate_to_datetime(reply.headers.get("date", ""))) + 500
        except (TypeError, ValueError, OverflowError):
            return None  # it has none: the emulator, or a proxy in between

    def merge(
        self, path: str, values: dict[str, object], deadline: Deadline, *, echo: bool = True
    ) -> dict[str, object]:
        # RTDB answers 400 to a silent request with a condition, and a merge has none.
        reply = self._call("PATCH", path, _to_json(values), {}, deadline, "" if echo else "print=silent")
        if reply.status == HTTPStatus.NO_CONTENT and not echo:
            return dict.fromkeys(values)
        body = _body(reply)
        stored = {key: _child(body, key) for key in values}
        if not isinstance(body, dict) or not all(_is_echo(stored[key], sent) for key, sent in values.items()):
            raise _stray("a write", body)
        return stored

    def keys(self, path: str, deadline: Deadline) -> list[str]:
        found = _body(self._call("GET", path, None, {}, deadline, "shallow=true"))
        return sorted(found) if isinstance(found, dict) else []

    def newest(self, path: str, deadline: Deadline) -> tuple[str, object] | None:
        query = "orderBy=%22$key%22&limitToLast=1"
        found = _body(self._call("GET", path, None, {}, deadline, query))
        return next(iter(found.items()), None) if isinstance(found, dict) else None

    def query(
        self,
        path: str,
        order_by: str,
        deadline: Deadline,
        *,
        start: tuple[int, str] | int | str | None = None,
        end: int | None = None,
        most: int,
    ) -> list[tuple[str, object]]:
        bounds = {"startAt": start, "endAt": end}
        asked = {"orderBy": quote(json.dumps(order_by)), "limitToFirst": str(most)}
        asked |= {name: _bound(value) for name, value in bounds.items() if value is not None}
        query = "&".join(f"{name}={value}" for name, value in asked.items())
        try:
            found = _body(self._call("GET", path, None, {}, deadline, query))
        except Denied as error:
            if _NO_INDEX not in str(error):
                raise
            raise NoIndex(f"{error} Deploy the rules that `firecron rules` prints") from error
        children = list(found.items()) if isinstance(found, dict) else []
        return sorted(
            children, key=lambda child: child[0] if order_by == "$key" else order_of(child[0], child[1], order_by)
        )

    def watch(self, path: str, deadline: Deadline) -> Stream:
        connection = self._connection or self._connected()
        header = connection.tokens.header(deadline)
        if header == connection.revoked:
            header = connection.tokens.another(header, deadline)
        try:
            reply, refusal = self._open(connection, path, header, deadline)
            if refusal is not None and _refuses_token(refusal):
                another = connection.another_header(header, deadline)
                if another is not None:
                    header = another
                    reply, refusal = self._open(connection, path, header, deadline)
        except NoReply as error:
            raise _unreachable(connection, error) from error
        if refusal is not None:
            _check(refusal, connection)
            raise _stray("a request for a stream", refusal.content)
        stream = Stream(reply, self._timing, lambda: connection.revoke(header))
        stream.begin()
        return stream

    def rest(self) -> None:
        """Close the sockets that no request uses. The next request opens one."""
        connection = self._connection
        if connection is not None:
            connection.transport.rest()

    def close(self) -> None:
        """Close all connections. The next request opens new ones."""
        with self.connecting:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.transport.close()

    def after_fork(self) -> None:
        self.connecting = threading.Lock()
        self._connection = None

    def _connected(self) -> _Connection:
        with self.connecting:
            if self._connection is not None:
                return self._connection
            target = self._find_target()
            connection = self._connection = _Connection(target, self._timing, self._connections)
        # Outside the lock, because `note` may call the store.
        self._note(target)
        return connection

    def _call(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], deadline: Deadline, query: str = ""
    ) -> Reply:
        connection = self._connection or self._connected()
        target = f"/{_quoted(path)}{connection.suffix}{query and connection.joint + query}"
        headers["Authorization"] = header = connection.tokens.header(deadline)
        headers["User-Agent"] = _USER_AGENT
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            reply = connection.transport.send(method, target, headers, body, deadline)
            if _refuses_token(reply) and (another := connection.another_header(header, deadline)) is not None:
                headers["Authorization"] = another
                reply = connection.transport.send(method, target, headers, body, deadline)
        except NoReply as error:
            raise _unreachable(connection, error) from error
        _check(reply, connection)
        return reply

    def _open(
        self, connection: _Connection, path: str, header: str, deadline: Deadline
    ) -> tuple[OpenReply, Reply | None]:
        """Return the reply to a request for a stream, and the whole of it if it is no stream. Raise NoReply."""
        from firecron.rtdb.transport import Transport

        headers = {"Accept": "text/event-stream", "Authorization": header, "User-Agent": _USER_AGENT}
        host, target = connection.target.base_url, f"/{_quoted(path)}{connection.suffix}"
        reply = connection.transport.open(target, headers, deadline)
        for _ in range(_MOST_REDIRECTS):
            if reply.status != HTTPStatus.TEMPORARY_REDIRECT:
                break
            reply.close()
            host, target = redirected(connection.target, f"{host}{target}", reply.headers.get("location", ""))
            reply = Transport(host, 1).open(target, headers, deadline)
        return reply, None if reply.status == HTTPStatus.OK and _is_stream(reply) else reply.whole()


# --- answers


def _unreachable(connection: _Connection, error: NoReply) -> Unavailable:
    from http.client import HTTP_PORT

    url = connection.target.base_url
    if connection.target.is_emulator and isinstance(error.cause, ConnectionRefusedError):
        # A URL may leave out the port of its scheme, and an emulator listens on any.
        port = urlsplit(url).port or HTTP_PORT
        return EmulatorDown(
            f"no emulator listens at {url}: start it (firecron emulator --port {port}), or name another database"
        )
    return Unavailable(f"RTDB can't be reached at {url}: {error}")


# A 401 has two meanings: the token is not accepted, or the rules refuse the request ("Permission denied").
_ABOUT_TOKENS = re.compile(r"\btoken\b|Unauthorized request", re.IGNORECASE)


def _refuses_token(reply: Reply) -> bool:
    return reply.status == _UNAUTHORIZED and _ABOUT_TOKENS.search(_error_text(reply)) is not None


_REMEDY_OF_TOKEN = (
    "RTDB does not accept the access token: check that the credentials belong to the database's project, and that the "
    "service account has the role Firebase Realtime Database Admin."
)
_REMEDY_OF_USER = (
    "Check the security rules of the database, which see {} here: FIRECRON_UID, or the app's "
    "databaseAuthVariableOverride, names the user."
)
_REMEDY = "Check the databaseURL and the request's path."
_REMEDIES = {
    401: "Check the security rules of the database, and the service account's role (Firebase Realtime Database Admin).",
    403: "Check the service account's role (Firebase Realtime Database Admin), and whether the database is enabled.",
    404: "Check the databaseURL: there is no such database, or it is in another region.",
    423: "The database is locked or disabled: look at it in the Firebase console.",
}


def _check(reply: Reply, connection: _Connection) -> None:
    status = reply.status
    if status in (_OK, _NO_CONTENT, _FAILED):
        return  # who needs a body finds that a 204 has none
    text = _error_text(reply)
    if status == HTTPStatus.UNAUTHORIZED:
        connection.tokens.rejected()
    if status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS) or not 400 <= status < 500:
        # After a 5xx the write may have been applied. The next read has to find out, even if the server asks for a
        # pause, so only a 429 passes the pause on.
        asked = _retry_after(reply) if status == HTTPStatus.TOO_MANY_REQUESTS else None
        raise Unavailable(f"RTDB answered {status}: {text}", retry_after=asked)
    remedy = _REMEDIES.get(status, _REMEDY)
    if status == HTTPStatus.UNAUTHORIZED:
        if _ABOUT_TOKENS.search(text):
            remedy = _REMEDY_OF_TOKEN
        elif not connection.target.is_administrator:
            remedy = _REMEDY_OF_USER.format(connection.target.user)
    raise Denied(f"RTDB answered {status}: {text.rstrip('.')}. {remedy}")


def _error_text(reply: Reply) -> str:
    try:
        body = json.loads(reply.content)
    except (ValueError, RecursionError):
        body = None  # it is not RTDB's: the reply's status says what is known
    text = body.get("error") if isinstance(body, dict) else None
    return str(text).strip() if text else reply.reason or "no reason given"


# The longest pause that a server may ask for: a day, in seconds.
_LONGEST_REST = 86_400.0


def _retry_after(reply: Reply) -> float | None:
    from email.utils import parsedate_to_datetime

    text = reply.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text), _LONGEST_REST)
    try:
        until, at = parsedate_to_datetime(text), parsedate_to_datetime(reply.headers.get("date", ""))
        # Both instants are on the server's clock, so this machine's clock doesn't matter.
        return min(max(0.0, (until - at).total_seconds()), _LONGEST_REST)
    except (ValueError, TypeError, OverflowError):
        return None  # it has none, or none that makes sense


def _snapshot(reply: Reply) -> Snapshot:
    etag = reply.headers.get("etag")
    if not etag:
        raise Unavailable("RTDB answered without an ETag: is there a proxy in between that drops headers?")
    return Snapshot(etag, _body(reply))


def _to_json(node: object) -> bytes:
    return _TO_JSON.encode(node).encode()


def _quoted(path: str) -> str:
    return path if _PLAIN.fullmatch(path) else quote(path)


def _body(reply: Reply) -> object:
    try:
        text = reply.content.decode()
        body: object = _FROM_JSON.decode(text) if len(text) <= _LARGE else in_pieces(text)
    except (ValueError, RecursionError):
        raise Unavailable(f"RTDB answered with something that is not JSON: {reply.content[:80]!r}") from None
    return body


# A larger reply is read child by child.
_LARGE = 65_536
_PART = json.JSONDecoder()


def in_pieces(text: str) -> object:
    """Return the value of a JSON text, as `json.loads` does. Raise ValueError if it is none.

    All threads of the program, its event loop too, stand still while `json.loads` reads a text: 20 ms for the locks of
    10,000 jobs. So the children of an object are read one by one.
    """
    found: dict[str, object] = {}
    end = 0
    with suppress(ValueError):  # it is no object, or has spaces: RTDB sends none
        while text[end : end + 1] == ("," if found else "{"):
            name, end = _PART.raw_decode(text, end + 1)
            if not isinstance(name, str) or text[end : end + 1] != ":":
                break
            found[name], end = _PART.raw_decode(text, end + 1)
        if found and text[end:] == "}":
            return found
    return _PART.decode(text)


_NO_INDEX = "Index not defined"


def _bound(value: tuple[int, str] | int | str) -> str:
    """Return a bound of a query as it stands in the URL."""
    parts = value if isinstance(value, tuple) else (value,)
    return quote(",".join(json.dumps(part) for part in parts))


def _is_stream(reply: OpenReply) -> bool:
    return reply.headers.get("content-type", "").partition(";")[0].strip().lower() == "text/event-stream"


def _stray(was: str, answer: object) -> Unavailable:
    return Unavailable(
        f"RTDB answered {answer!r:.80} to {was}, but it never does that: is a proxy or a sign-in page in between?"
    )


# The bounds of RTDB's time, in milliseconds: the years 2020 to 9999.
_EARLIEST = 1_577_836_800_000
_LATEST = 253_402_300_799_000


def _is_time(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and _EARLIEST <= value <= _LATEST


def _child(body: object, key: str) -> object:
    """Return what the answer to a merge has for a key that may be a path: as one key, or as nested nodes."""
    if isinstance(body, dict) and key in body:
        return body[key]
    for name in key.split("/"):
        body = body.get(name) if isinstance(body, dict) else None
    return body


def _is_echo(answered: object, sent: object) -> bool:
    """Return whether the answer to a merge has the value that was sent, as far as the answer can tell."""
    if sent == SERVER_TIME:
        return _is_time(answered)
    if isinstance(sent, dict) and sent != ONE_MORE:
        children = answered if isinstance(answered, dict) else {}
        return all(_is_echo(children.get(key), child) for key, child in sent.items())
    # RTDB may leave out what is empty, at any depth. The number that an increment makes may be there or not.
    return isinstance(sent, dict | list) or answered == sent


# --- a request without credentials


def may_read(target: Target, path: str, deadline: Deadline) -> bool:
    """Return whether anyone may read the path without credentials. Raise Unavailable if RTDB does not tell."""
    from firecron.rtdb.transport import Transport

    namespace = f"&ns={quote(target.parameters['ns'], safe='')}" if "ns" in target.parameters else ""
    asked = f"/{_quoted(path)}.json?shallow=true{namespace}"
    with closing(Transport(target.base_url, 1)) as transport:
        try:
            reply = transport.send("GET", asked, {"Accept": "application/json"}, None, deadline)
        except NoReply as error:
            raise Unavailable(f"RTDB can't be reached at {target.base_url}: {error}") from error
    if reply.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return False
    if reply.status != HTTPStatus.OK:
        raise Unavailable(f"RTDB answered {reply.status} to a request without credentials")
    return True
