"""What happens to locks and runs, as events for logs, metrics and tests.

An event is one frozen value with a stable `slug` and scalar fields. It goes to the listeners and to the log. Neither
can break the lock: a listener or log handler that raises is reported, and the lock goes on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from firecron.base.texts import redacted

Scalar: TypeAlias = str | int | float | bool

# The slugs of all events. docs/logs-and-metrics.md describes each of them.
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
    "job.late",
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
    "ping.failed",
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
