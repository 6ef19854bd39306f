"""What happens to locks and runs, as events for logs, metrics and tests.

An event is one frozen value with a stable `slug` and scalar fields. It goes to the listeners and to the log. Neither
can break the lock: a listener or log handler that raises is reported, and the lock goes on.

What was said of many things, or is known of them, is remembered within bounds by `LastValues`. Lines that somebody
outside can cause as often as they like are counted by `Seldom`: of each kind one a minute is logged.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeAlias, TypeVar

from firecron.base.clocks import Deadline
from firecron.base.flag import in_each_process
from firecron.base.texts import redacted

K = TypeVar("K")
V = TypeVar("V")

Scalar: TypeAlias = str | int | float | bool

# The slugs of all events. docs/reference/logs-and-metrics.md describes each of them.
Slug: TypeAlias = Literal[
    "lock.acquired",
    "lock.suspicious",
    "lock.large",
    "lock.refused",
    "lock.unavailable",
    "lock.renewed",
    "lock.renewal_failed",
    "lock.lost",
    "lock.cancelled",
    "lock.released",
    "lock.release_failed",
    "run.started",
    "run.succeeded",
    "run.failed",
    "run.lost",
    "run.interrupted",
    "run.cancelled",
    "run.retried",
    "run.left_behind",
    "loop.blocked",
    "run.delayed",
    "run.skipped",
    "run.missed",
    "run.coalesced",
    "run.abandoned",
    "books.skipped",
    "books.missed",
    "books.cancelled",
    "leader.elected",
    "leader.lost",
    "leader.lingers",
    "leader.stepped_down",
    "leader.failed",
    "job.registered",
    "job.suspicious",
    "database.unknown_host",
    "settings.unknown",
    "job.schedule_differs",
    "ask.taken",
    "ask.lapsed",
    "ask.failed",
    "job.late",
    "job.failing",
    "job.stuck",
    "job.unattended",
    "job.recovered",
    "health.unknown",
    "crons.started",
    "crons.disabled",
    "crons.not_started",
    "crons.no_jobs",
    "crons.unclaimed",
    "crons.unstarted",
    "crons.stopped",
    "crons.forked",
    "clock.unavailable",
    "clock.available",
    "trigger.open",
    "trigger.denied",
    "trigger.unreadable",
    "trigger.off_schedule",
    "trigger.failed",
    "page.open",
    "page.insecure",
    "page.denied",
    "page.failed",
    "watch.failed",
    "ticker.stalled",
    "ticker.failed",
    "heartbeat.failed",
    "heartbeat.no_ticket",
    "act.failed",
    "history.failed",
    "catalogue.failed",
    "schedules.failed",
    "schedules.no_index",
    "schedules.crowded",
    "schedules.malformed",
    "hold.failed",
    "ping.failed",
    "notify.failed",
    "sentry.left_out",
    "sentry.not_initialised",
    "listener.failed",
    "worker.failed",
]

# Labels that Google's log handlers write: the lock of a log line (a job's lock has the job's name), and the run's key.
LOCK_LABEL = "firecron_lock"
RUN_LABEL = "firecron_run"

logger = logging.getLogger("firecron")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened: `slug` for programs, `message` for people, `fields` for both.

    Args:
        slug: The kind of event, such as `run.failed`.
        name: The job or lock; `clock`, `ticker`, `heartbeat` or `firecron` for the instance.
        level: The level of the log line.
        message: The sentence in the log.
        fields: Numbers and words, by name.
    """

    slug: Slug
    name: str
    level: int
    message: str
    fields: Mapping[str, Scalar] = field(default_factory=dict)


Listener: TypeAlias = Callable[[Event], None]


class Events:
    """Sends events to the listeners and to the log.

    Listeners are called on the thread that emits the event, so they must be quick.
    """

    def __init__(self) -> None:
        # Read and changed without a lock, because a forked child keeps it: each change is one step of a dict.
        self._listeners: dict[object, Listener] = {}

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every event from now on. Return a function that ends this.

        Args:
            listener: Called with each `Event`, on the thread that emits it.
        """
        mark = object()
        self._listeners[mark] = listener
        return lambda: self._listeners.pop(mark, None) and None

    def are_heard(self, level: int) -> bool:
        """Return whether anybody hears events of this level. If not, what is costly to say need not be made."""
        return bool(self._listeners) or logger.isEnabledFor(level)

    def emit(
        self,
        slug: Slug,
        name: str,
        level: int,
        message: str,
        error: BaseException | None = None,
        /,
        **fields: Scalar | None,
    ) -> None:
        """Send an event to all listeners, and write it to the log with the traceback of `error`.

        Fields whose value is None are left out. Secrets, which an exception may quote, are redacted in the message and
        fields.
        """
        if not self.are_heard(level):
            return
        event = Event(slug, name, level, redacted(message), _clean(fields))
        for listener in list(self._listeners.values()):
            try:
                listener(event)
            except BaseException as raised:
                # Ctrl-C interrupts only the main thread, and an exit is meant to end only that one.
                if not isinstance(raised, Exception) and threading.current_thread() is threading.main_thread():
                    raise
                _report(slug, raised)
        _log(event, error)


def _clean(fields: Mapping[str, Scalar | None]) -> dict[str, Scalar]:
    return {
        name: redacted(value) if isinstance(value, str) else value
        for name, value in fields.items()
        if value is not None
    }


def _log(event: Event, error: BaseException | None) -> None:
    fields = {"event": event.slug, "lock": event.name, **event.fields}
    labels = {LOCK_LABEL: event.name}
    if event.slug.startswith("run.") and "key" in event.fields:
        labels[RUN_LABEL] = str(event.fields["key"])
    _write(event.level, event.message, fields, labels, error)


def _report(slug: Slug, error: BaseException) -> None:
    fields: dict[str, Scalar] = {"event": "listener.failed", "listened_to": slug}
    _write(logging.ERROR, f"An event listener raised an exception at {slug}; firecron goes on", fields, {}, error)


def _write(
    level: int, message: str, fields: dict[str, Scalar], labels: dict[str, str], error: BaseException | None
) -> None:
    try:
        # The caller of `emit` is four frames up. The log names it as the origin of the line.
        extra = {"json_fields": fields, "labels": labels}
        logger.log(level, "%s", message, exc_info=error, stacklevel=4, extra=extra)
    except Exception:
        # A handler or filter raised. The log itself is broken, so the message goes to standard error, as logging's own
        # complaints do.
        if logging.lastResort is not None:
            text = f"firecron: a log handler raised an exception at this message: {message}"
            logging.lastResort.handle(logging.makeLogRecord({"msg": text}))


# --- what is remembered of many things


class LastValues(Generic[K, V]):
    """The latest value of each of the `most` keys that were put last, oldest first."""

    most = 10_000

    def __init__(self) -> None:
        self._values: OrderedDict[K, V] = OrderedDict()

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[K]:
        return iter(self._values)

    def get(self, key: K) -> V | None:
        return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Remember the value, and make its key the newest."""
        self._values.pop(key, None)
        self._values[key] = value
        if len(self._values) > self.most:
            self._values.popitem(last=False)

    def forget(self, key: K) -> None:
        self._values.pop(key, None)


# --- lines that come often

MOST_KINDS = 100
_OTHERS = ""
_PAUSE = 60.0


class Seldom:
    """Counts the lines of each kind. `deadline` makes the deadline in so many seconds.

    The first line of a kind is logged at once. Of those that follow within a minute, none is. The first one after the
    minute has their number. The last lines of a burst are counted in the next one, if there ever is one. A kind may
    come from outside as well: after `MOST_KINDS` kinds all others are one kind.
    """

    def __init__(self, deadline: Callable[[float], Deadline]) -> None:
        self._deadline = deadline
        self._silences: dict[str, Deadline] = {}
        self._counts: dict[str, int] = {}
        in_each_process(self._begin_process)

    def _begin_process(self) -> None:
        self._lock = threading.Lock()

    def count(self, kind: str) -> int | None:
        """Return how many lines of this kind the present one stands for; None if it is not to be logged."""
        with self._lock:
            if kind not in self._silences and len(self._silences) >= MOST_KINDS:
                kind = _OTHERS
            self._counts[kind] = self._counts.get(kind, 0) + 1
            silence = self._silences.get(kind)
            if silence is not None and silence.remaining() > 0:
                return None
            self._silences[kind] = self._deadline(_PAUSE)
            return self._counts.pop(kind)


def how_often(count: int) -> str:
    """Return the words to add to a line that stands for several."""
    return "" if count == 1 else f"; with {count - 1:,} more since the last such line"
