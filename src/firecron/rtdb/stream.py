"""A stream of RTDB's: Server-Sent Events over the store's own transport, so that no read is without a deadline.

A stream begins with the whole node. It ends when it is closed, when RTDB ends it, when something comes that is no event
of RTDB's, and when no event has come for 75 seconds: RTDB sends a keep-alive every 30. `silence` says before that for
how long none has come. Nothing is read twice and nothing is opened again here; who wants more opens another stream.

`Frames` makes events of the bytes that come, and `Copy` is the node that the events change. Both know no network.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import parse_qs, quote, urljoin, urlsplit

from firecron.base.clocks import Timing
from firecron.errors import Denied, Unavailable
from firecron.rtdb.failures import DeadlineExceeded, NoReply
from firecron.rtdb.target import FIREBASES, Target

if TYPE_CHECKING:
    from firecron.rtdb.transport import OpenReply

# A frame is one change of a node. Larger than this it is no change of a node of firecron's.
_LONGEST = 32_000_000


@dataclass(frozen=True, slots=True)
class Frame:
    """One event, as it came: its name, and its data as text."""

    name: str
    data: bytes


class Frames:
    """Takes a stream apart, in whatever pieces it comes."""

    def __init__(self) -> None:
        self._rest = b""
        self._name = ""
        self._data: list[bytes] = []

    def feed(self, received: bytes) -> list[Frame]:
        """Return the frames that end in what was received. Raise Unavailable if one is longer than any can be."""
        *lines, self._rest = (self._rest + received).split(b"\n")
        if len(self._rest) > _LONGEST:
            raise Unavailable(f"RTDB's stream has a line of more than {_LONGEST} bytes: is a proxy in between?")
        frames = []
        for line in lines:
            name, _, value = line.removesuffix(b"\r").partition(b":")
            value = value.removeprefix(b" ")
            if name == b"event":
                self._name = value.decode("utf-8", "replace")
            elif name == b"data":
                self._data.append(value)
            elif not line.strip() and (self._name or self._data):
                frames.append(Frame(self._name, b"\n".join(self._data)))
                self._name, self._data = "", []
        return frames


class Copy:
    """A copy of a node, kept up to date by the events of its stream."""

    def __init__(self) -> None:
        self._node: object = None

    @property
    def node(self) -> object:
        """The node as a read of it would return it: arrays are arrays again."""
        return _shown(self._node)

    def put(self, path: str, value: object) -> None:
        """Replace the value at the path; None deletes it."""
        self._node = _replaced(self._node, [key for key in path.split("/") if key], _stored(value))

    def patch(self, path: str, values: dict[str, object]) -> None:
        """Replace each of these values below the path. A key may be a path."""
        for key, value in values.items():
            self.put(f"{path}/{key}", value)


def _replaced(node: object, keys: list[str], value: object) -> object:
    if not keys:
        return value
    children = dict(node) if isinstance(node, dict) else {}
    child = _replaced(children.pop(keys[0], None), keys[1:], value)
    if child is None:
        # Nothing can be deleted below a leaf.
        return node if not isinstance(node, dict) else children or None
    return {**children, keys[0]: child}


def _stored(value: object) -> object:
    """Return a value as a tree: an array is a node whose children are numbers."""
    if isinstance(value, list):
        value = {str(number): child for number, child in enumerate(value)}
    if not isinstance(value, dict):
        return value
    children = {key: _stored(child) for key, child in value.items()}
    return {key: child for key, child in children.items() if child is not None} or None


def _shown(node: object) -> object:
    """Return a tree as RTDB shows it: an array, if its keys are numbers and most up to the highest one are there."""
    if not isinstance(node, dict):
        return node
    children = {key: _shown(child) for key, child in node.items()}
    numbers = {int(key): child for key, child in children.items() if key.isascii() and key.isdigit()}
    is_array = {str(number) for number in numbers} == children.keys() and max(numbers) < 2 * len(numbers)
    return [numbers.get(number) for number in range(max(numbers) + 1)] if is_array else children


# --- the stream

# In milliseconds.
_SILENCE = 75_000.0
_PORTS = {"http": 80, "https": 443}
_CLOSED = "the stream was closed"


class Stream:
    """The stream of one node, read by one thread; any thread may close it.

    `revoked` is called when RTDB says that it accepts the stream's token no more.
    """

    def __init__(self, reply: OpenReply, timing: Timing, revoked: Callable[[], None]) -> None:
        self._reply = reply
        self._timing = timing
        self._revoked = revoked
        self._frames = Frames()
        self._copy = Copy()
        self._has_begun = False
        self._come: deque[Frame] = deque()
        self._values: deque[object] = deque()
        self._reading = threading.Lock()
        self._is_closed = False
        self._alive_at = timing.mono()

    def begin(self) -> None:
        """Wait until the first value has come, or the deadline of the request. Raises as `next` does."""
        with self._at_reading():
            self._fill()

    def next(self) -> object:
        """Wait for the next value of the node, and return it. Raise Unavailable or Denied if there is none."""
        with self._at_reading():
            self._fill()
            return self._values.popleft()

    def silence(self) -> float:
        """Return the milliseconds since RTDB has sent an event: a keep-alive is one."""
        return self._timing.mono() - self._alive_at

    def close(self) -> None:
        """End the stream, from any thread: a `next` that waits raises Unavailable at once."""
        self._is_closed = True
        self._reply.shut()
        # The connection belongs to who reads it. A thread that reads now ends by itself, and closes it afterwards.
        if self._reading.acquire(blocking=False):
            try:
                self._reply.close()
            finally:
                self._reading.release()

    @contextmanager
    def _at_reading(self) -> Iterator[None]:
        try:
            with self._reading:
                yield
        finally:
            # Also where the value had come already, and this thread may never read again.
            if self._is_closed:
                self.close()

    def _fill(self) -> None:
        """Read until there is a value."""
        try:
            while not self._values:
                while not self._come:
                    self._come.extend(self._frames.feed(self._read()))
                self._take(self._come.popleft())
        except BaseException:
            self._reply.close()
            raise

    def _read(self) -> bytes:
        try:
            received = b"" if self._is_closed else self._reply.read()
        except NoReply as error:
            if self._is_closed:
                raise Unavailable(_CLOSED) from None
            if isinstance(error.cause, DeadlineExceeded | TimeoutError):
                what = "no keep-alive for 75 s" if self._has_begun else "no first event: does a proxy hold it back?"
                raise Unavailable(f"RTDB's stream is silent: {what}") from error
            raise Unavailable(f"RTDB's stream has ended: {error}") from error
        if not received:
            raise Unavailable(_CLOSED if self._is_closed else "RTDB has ended the stream")
        return received

    def _take(self, frame: Frame) -> None:
        match frame.name:
            case "put" | "patch":
                self._change(frame)
            case "cancel":
                raise Denied(f"RTDB has cancelled the stream: {_text(frame)}. The rules may have changed")
            case "auth_revoked":
                self._revoked()
                raise Unavailable(f"RTDB has ended the stream: {_text(frame)}")
        self._alive_at = self._timing.mono()
        if self._has_begun:
            self._reply.limit.at = self._timing.mono() + _SILENCE

    def _change(self, frame: Frame) -> None:
        try:
            event = json.loads(frame.data)
            path, data = event["path"], event["data"]
            if not isinstance(path, str) or not (self._has_begun or (frame.name, path) == ("put", "/")):
                _stray(frame)
            if frame.name == "put":
                self._copy.put(path, data)
            else:
                self._copy.patch(path, dict(data))
            self._values.append(self._copy.node)
        except (ValueError, TypeError, KeyError, RecursionError):
            _stray(frame)
        self._has_begun = True


def redirected(target: Target, url: str, location: str) -> tuple[str, str]:
    """Return where RTDB redirects a stream, as the URL of a host and the rest of the URL.

    Raise Denied for a host outside of the database's own domain, and for another port or scheme: it would get the
    access token. `url` is what was asked for.
    """
    try:
        own, found = urlsplit(url), urlsplit(urljoin(url, location))
        has_port = (own.port or _PORTS.get(own.scheme)) == (found.port or _PORTS.get(found.scheme))
    except ValueError as error:
        raise Denied(f"RTDB redirects a stream to {location!r:.80}, which is no URL: {error}") from error
    name, other = own.hostname or "", found.hostname or ""
    is_own = name == other or (name.endswith(FIREBASES) and other.partition(".")[2] == name.partition(".")[2])
    if found.scheme != own.scheme or not is_own or not has_port or "@" in found.netloc:
        port = f":{found.port}" if found.port is not None else ""
        raise Denied(
            f"RTDB redirects a stream to {found.scheme}://{other}{port}, outside of the domain of "
            f"{own.scheme}://{own.netloc}: it is not followed, because the access token would go there"
        )
    known = parse_qs(found.query, keep_blank_values=True)
    missing = [f"{key}={quote(value, safe='')}" for key, value in target.parameters.items() if key not in known]
    query = "&".join([*([found.query] if found.query else []), *missing])
    return f"{found.scheme}://{found.netloc}", f"{found.path}{query and '?'}{query}"


def _text(frame: Frame) -> str:
    return frame.data.decode("utf-8", "replace")[:200].strip('"') or frame.name


def _stray(frame: Frame) -> NoReturn:
    raise Unavailable(
        f"RTDB's stream has an event {frame.name!r:.40} with {frame.data[:80]!r}, but RTDB never sends that: is a "
        "proxy in between?"
    )
