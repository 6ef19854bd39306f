"""A stream of RTDB's: Server-Sent Events over the store's own transport, so that no read is without a deadline.

A stream begins with the whole node. It ends when it is closed, when RTDB ends it, when something comes that is no event
of RTDB's, and when no event has come for 75 seconds: RTDB sends a keep-alive every 30. `silence` tells before that for
how long none has come. Nothing is read twice and nothing is opened again here; who wants more opens another stream.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn
from urllib.parse import parse_qs, quote, urljoin, urlsplit

from firecron.base.clocks import Timing
from firecron.errors import Denied, Unavailable
from firecron.rtdb.connection import NoReply, OpenReply
from firecron.rtdb.frames import Copy, Frame, Frames, TooLong
from firecron.rtdb.replies import DeadlineExceeded
from firecron.rtdb.target import FIREBASES, Target

# In milliseconds.
_SILENCE = 75_000.0
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
        except TooLong as error:
            self._reply.close()
            raise Unavailable(f"RTDB's stream has {error}: is a proxy in between?") from None
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

    Raise Denied for a host outside of the database's own domain: it would get the access token. `url` is what was
    asked for.
    """
    try:
        own, found = urlsplit(url), urlsplit(urljoin(url, location))
    except ValueError as error:
        raise Denied(f"RTDB redirects a stream to {location!r:.80}, which is no URL: {error}") from error
    name, other = own.hostname or "", found.hostname or ""
    is_own = name == other or (name.endswith(FIREBASES) and other.partition(".")[2] == name.partition(".")[2])
    if found.scheme != own.scheme or not is_own or "@" in found.netloc:
        raise Denied(
            f"RTDB redirects a stream to {found.scheme}://{other}, outside of the domain of {own.scheme}://{name}: it "
            "is not followed, because the access token would go there"
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
