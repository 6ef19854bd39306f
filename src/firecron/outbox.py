"""What channels to services outside have in common: which runs they report, and an outbox that delays none of these.

A channel reports runs to a service that raises the alarm if one doesn't come: `pings` by an outbox, `sentry` by the
queue of Sentry's SDK. Or it tells people, as `notify` does. A channel is a function that hears of the runs:

    outbox = Outbox("pings", courier, lambda: last_moments(crons))
    end = report_runs(crons, lambda event: outbox.add(...), outbox.flush)

Only the instance that runs a tick speaks, so any number of instances make one report of a run. A run without a tick,
such as a run by hand, is not reported, and neither is a run outside of production.

A message waits in the outbox: a queue of bounded length, which one thread empties in order. Each message has two tries.
If the service takes it at neither, or the queue is full, the courier says that it is lost, and nothing else is. What
still waits when the instance stops, the channel is ended or the process exits has two more seconds, within the
instance's grace. In a forked child nothing waits: the parent sends its messages.

What the outbox doesn't promise: that a message arrives once. A service whose reply was lost may get it twice.

Couriers that speak HTTP share `Http`, which follows no redirect. A message's URL is a secret: it is in no error.
"""

from __future__ import annotations

import atexit
import threading
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from firecron import __version__
from firecron.base.clocks import Deadline, SystemTiming
from firecron.base.events import Event
from firecron.base.flag import in_each_process
from firecron.rtdb.failures import NoReply
from firecron.rtdb.transport import Reply, Transport
from firecron.scheduler.startup import evaluate_guard

if TYPE_CHECKING:
    from firecron.app import FireCron

# --- which runs are reported

LAST_MOMENTS = 2.0


def report_runs(
    crons: FireCron, hear: Callable[[Event], object], flush: Callable[[], object], also: Collection[str] = ()
) -> Callable[[], None]:
    """Call `hear` with each event of a run to report, and with `crons.started`. Return a function that ends this.

    In production events with the slugs in `also` are reported, too, whatever they are of. `flush` sends what waits,
    within the `last_moments`. It is called when the instance stops, and at the end.
    """

    def pass_on(event: Event) -> None:
        if event.slug == "crons.stopped":
            flush()
        elif event.slug == "crons.started" or ((event.slug in also or _is_of_tick(event)) and may_speak(crons)):
            hear(event)

    unsubscribe = crons.events.subscribe(pass_on)

    def end() -> None:
        unsubscribe()
        flush()

    return end


def last_moments(crons: FireCron) -> float:
    """Return how many seconds what waits still has: two, but no more than is left of a stop's grace."""
    return crons.engine.seconds_left(LAST_MOMENTS)


def may_speak(crons: FireCron) -> bool:
    """Return whether this process is one of production."""
    # A service that scales to zero has enabled=False, and runs its jobs nevertheless: there the variable decides.
    return crons.verdict.may_tick or evaluate_guard(None, crons.settings).may_tick


def _is_of_tick(event: Event) -> bool:
    return event.slug.startswith("run.") and "slot" in event.fields


# --- the outbox

MOST_WAITING = 1_000
TRIES = 2
PAUSE = 1.0

MessageT = TypeVar("MessageT")
MessageT_contra = TypeVar("MessageT_contra", contravariant=True)


class NotTaken(Exception):
    """A service didn't take a message. If `is_final`, another try would fail, too.

    If `may_have_it`, no reply came once the message was sent: the service may have taken it.
    `pause` is the wait in seconds that the service has asked for, or None.
    """

    def __init__(
        self, why: str, *, is_final: bool = False, pause: float | None = None, may_have_it: bool = False
    ) -> None:
        super().__init__(why)
        self.is_final = is_final
        self.may_have_it = may_have_it
        self.pause = pause


class Courier(Protocol[MessageT_contra]):
    """Brings messages to a service. All but `lost` is called on the outbox's thread alone."""

    def send(self, message: MessageT_contra) -> None:
        """Send a message once, within a time of its own. Raises NotTaken if the service doesn't take it."""

    def lost(self, message: MessageT_contra, why: str) -> None:
        """Say that a message was lost."""

    def close(self) -> None:
        """Close the connections: no message comes any more."""


class Outbox(Generic[MessageT]):
    """A bounded queue of messages, and the thread that sends them. `name` is what the messages are, in the plural.

    `seconds_left` returns how long a `flush` may last.
    """

    def __init__(self, name: str, courier: Courier[MessageT], seconds_left: Callable[[], float]) -> None:
        self._name = name
        self._courier = courier
        self._seconds_left = seconds_left
        in_each_process(self._begin_process)
        # A program may end without a stop. Registered before the jobs start, so it comes after their stop.
        atexit.register(self.flush)

    def _begin_process(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[MessageT] = deque()
        self._is_sending = False
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def add(self, message: MessageT) -> None:
        """Put a message into the queue, or report that it is lost. It never waits for the service."""
        with self._changed:
            if self._is_closed:
                return
            if len(self._waiting) < MOST_WAITING:
                self._waiting.append(message)
                self._changed.notify_all()
                why = self._start()
            else:
                why = f"{MOST_WAITING} {self._name} wait already: the service is too slow"
        if why is not None:
            self._courier.lost(message, why)

    def flush(self) -> None:
        """Return when nothing waits any more, or the time for it is over."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._waiting or self._is_sending), self._seconds_left())

    def close(self) -> None:
        """Send nothing any more: what still waits is dropped."""
        atexit.unregister(self.flush)
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _start(self) -> str | None:
        """Start the thread unless it runs. Return why it can't be started; None if it runs."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"firecron-{self._name}", daemon=True)
            try:
                self._thread.start()
            except RuntimeError as error:
                self._thread = None
                self._waiting.clear()
                return str(error)
        return None

    def _run(self) -> None:
        while (message := self._next()) is not None:
            why = self._send(message)
            if why is not None:
                self._courier.lost(message, why)
        self._courier.close()

    def _next(self) -> MessageT | None:
        """Wait for the next message, and return it; None once there will be none."""
        with self._changed:
            self._is_sending = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            self._is_sending = not self._is_closed
            return None if self._is_closed else self._waiting.popleft()

    def _send(self, message: MessageT) -> str | None:
        """Send a message, in two tries at most. Return why the service didn't take it; None if it did."""
        tries = 0
        while True:
            try:
                self._courier.send(message)
            except NotTaken as error:
                tries += 1
                if error.is_final or tries == TRIES:
                    return str(error)
                pause = PAUSE if error.pause is None else error.pause
            except Exception as error:
                return f"{type(error).__name__}: {error}"
            else:
                return None
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed, pause)


# --- HTTP

# Bytes of a reply. Its status is all that counts.
_MOST_READ = 10_000
# A service that asks for a longer pause gets no second try.
LONGEST_PAUSE = 10.0


def is_url(text: str) -> bool:
    """Return whether something can be sent to this: http or https, with a host."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


class Http:
    """Connections to the services of one courier, one to each host. All threads may use it."""

    def __init__(self) -> None:
        self._timing = SystemTiming()
        in_each_process(self._begin_process)

    def _begin_process(self) -> None:
        self._transports: dict[str, Transport] = {}

    def send(self, url: str, headers: Mapping[str, str], body: bytes | None, timeout: float) -> Reply:
        """Get the URL, or post the body to it, and return the reply. A user and password in the URL are sent.

        Raise NotTaken, without the URL, if no reply comes within `timeout` seconds.
        """
        parts = urlsplit(url)
        credentials, _, place = parts.netloc.rpartition("@")
        host = f"{parts.scheme}://{place}"
        transport = self._transports.get(host)
        if transport is None:
            transport = self._transports[host] = Transport(host, 1, most=_MOST_READ)
        target = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        sent = {"User-Agent": f"firecron/{__version__}", **headers}
        if credentials:
            sent["Authorization"] = f"Basic {b64encode(unquote(credentials).encode()).decode()}"
        deadline = Deadline.after(self._timing, timeout)
        try:
            return transport.send("GET" if body is None else "POST", target, sent, body, deadline)
        except NoReply as error:
            raise NotTaken(str(error), may_have_it=error.was_sent) from error

    def close(self) -> None:
        """Close the connections."""
        for transport in self._transports.values():
            transport.close()


def check_reply(reply: Reply) -> None:
    """Raise NotTaken unless the service has taken the message."""
    status = reply.status
    if 200 <= status < 300:
        return
    # Its own words for the status may quote the URL.
    why = f"the service returned {status}"
    if 300 <= status < 400:
        raise NotTaken(f"{why}: redirects are not followed; give the URL that this one leads to", is_final=True)
    pause = _asked_pause(reply.headers.get("retry-after")) if status in (429, 503) else None
    if pause is not None and pause > LONGEST_PAUSE:
        raise NotTaken(f"{why}, and asks for a pause of {pause:g} s", is_final=True)
    raise NotTaken(why, is_final=status < 500 and status != 429, pause=pause)


def _asked_pause(text: str | None) -> float | None:
    """Return the seconds of a `Retry-After`; None without one, or if it is a date."""
    return float(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else None
