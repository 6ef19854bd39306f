"""Metrics for OpenTelemetry, computed from firecron's events, and a span around each run. Needs `pip install
'firecron[otel]'`.

    from firecron.otel import instrument

    stop = instrument(crons)  # or a LockService alone

Each instance counts only what it has seen itself. If one instance runs a tick and three others are refused its lock,
the metrics show one run, and three acquisitions with the outcome `slot_done` or `held`. A tick that passed while no
instance was running is in no metric: the log has it as the bookkeeper's `books.missed`.

The attributes of metrics are the name of the job or lock, the outcome, and the trigger of a run, never a key, a holder
or a slot. Each process keeps the first thousand names that it sees. Any further name is reported as `_other`, so that
locks named after data (`invoice-4711`) can't make metrics without end.

A span is around each try of a run (`FireCron(around=…)`, outside of the program's own), so what the job does is inside
it. It ends before the lock is released: a loss that only the release finds is not in its outcome.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

try:
    from opentelemetry.metrics import MeterProvider, Observation, get_meter_provider
    from opentelemetry.trace import Span, StatusCode, TracerProvider, get_tracer_provider
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"{error}: pip install 'firecron[otel]'", name=error.name) from error

from firecron import __version__
from firecron.app import FireCron
from firecron.base.events import Event, Events
from firecron.base.flag import in_each_process
from firecron.base.instants import to_text
from firecron.base.texts import described, redacted
from firecron.jobs.run import Run
from firecron.runs.body import outcome_of
from firecron.store import split_name

OTHER = "_other"
MOST_NAMES = 1_000

# Seconds: OpenTelemetry's default boundaries suit milliseconds. A run may take a day.
_DURATIONS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14_400, 43_200, 86_400)
_LAGS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600, 86_400)

_ENDED = frozenset(f"run.{outcome}" for outcome in ("succeeded", "failed", "lost", "interrupted", "cancelled"))
_UNRUN = frozenset(("run.skipped", "run.missed", "run.abandoned", "books.cancelled"))
_LEADS = {"leader.elected": 1, "leader.lost": 0, "leader.stepped_down": 0, "leader.failed": 0}


class HasEvents(Protocol):
    """A FireCron, or a LockService."""

    @property
    def events(self) -> Events: ...


def instrument(
    crons: HasEvents,
    meter_provider: MeterProvider | None = None,
    tracer_provider: TracerProvider | None = None,
    *,
    now: Callable[[], float] = time.time,
) -> Callable[[], None]:
    """Measure from now on, and open a span around each run. Return a function that ends this.

    Call it once: if two calls measure the same jobs, everything counts twice.

    Args:
        crons: A FireCron, or a LockService, which has no runs.
        meter_provider: The provider that makes the instruments; without one, the global provider.
        tracer_provider: The provider of the tracer; without one, the global provider.
        now: Returns the Unix time of a success, in seconds; for tests.
    """
    measures = _Measures(meter_provider or get_meter_provider(), now)
    unsubscribe = crons.events.subscribe(measures.hear)
    spans = _spans(tracer_provider or get_tracer_provider())
    unwrap = crons.registry.wrap(spans) if isinstance(crons, FireCron) else None

    def stop() -> None:
        unsubscribe()
        if unwrap is not None:
            unwrap()
        measures.forget()

    return stop


def _spans(provider: TracerProvider) -> Callable[[Run], AbstractContextManager[None]]:
    tracer = provider.get_tracer("firecron", __version__)

    @contextmanager
    def around(run: Run) -> Iterator[None]:
        attributes = {
            "firecron.job": run.name,
            "firecron.slot": None if run.slot is None else to_text(run.slot),
            "firecron.attempt": run.attempt,
            "firecron.trigger": run.trigger,
            "firecron.fence": run.fence,
        }
        known = {name: value for name, value in attributes.items() if value is not None}
        # OpenTelemetry would record an error with its secrets.
        with tracer.start_as_current_span(
            f"run {run.name}", attributes=known, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield
            except BaseException as error:
                _end(span, run, error)
                raise
            _end(span, run, None)

    return around


def _end(span: Span, run: Run, error: BaseException | None) -> None:
    outcome = "lost" if run.lost else outcome_of(run, error)
    span.set_attribute("firecron.outcome", outcome)
    if outcome in ("failed", "lost"):
        span.set_status(StatusCode.ERROR, "its lease was lost" if error is None else described(error))
    if error is not None:
        trace = redacted("".join(traceback.format_exception(error))).encode("utf-8", "replace").decode()
        kind = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
        recorded = {"exception.type": kind, "exception.message": described(error), "exception.stacktrace": trace}
        span.add_event("exception", recorded)


class _Measures:
    """The instruments, and the rule that says which event is recorded by which instrument."""

    def __init__(self, provider: MeterProvider, now: Callable[[], float]) -> None:
        self._now = now
        self._names: set[str] = set()
        in_each_process(self._begin_process)
        meter = provider.get_meter("firecron", __version__)
        self._runs = meter.create_counter(
            "firecron.runs", "{run}", "Runs by outcome, and ticks that did not run as this instance saw it."
        )
        self._duration = meter.create_histogram(
            "firecron.run.duration",
            "s",
            "How long runs took, from the claim to the release.",
            explicit_bucket_boundaries_advisory=_DURATIONS,
        )
        self._lag = meter.create_histogram(
            "firecron.run.lag",
            "s",
            "How long after their slot runs started.",
            explicit_bucket_boundaries_advisory=_LAGS,
        )
        self._acquisitions = meter.create_counter(
            "firecron.lock.acquisitions",
            "{acquisition}",
            "Locks that were asked for, for a run or by the program: acquired, or the reason of the refusal.",
        )
        self._renewals_failed = meter.create_counter(
            "firecron.lock.renewals_failed", "{renewal}", "Renewals that failed and were tried again."
        )
        self._leases_lost = meter.create_counter(
            "firecron.lock.leases_lost", "{lease}", "Leases that were over before they were released."
        )
        meter.create_observable_gauge(
            "firecron.run.last_success",
            [lambda _: self._observed(self._successes)],
            "s",
            "When the last run that succeeded on this instance ended, in seconds of Unix time.",
        )
        meter.create_observable_gauge(
            "firecron.leader",
            [lambda _: self._observed(self._leading)],
            "{leader}",
            "1 while this instance leads, 0 after that.",
        )

    def hear(self, event: Event) -> None:
        fields = event.fields
        name = self._name(split_name(event.name)[0])  # without the key of a stored schedule: there may be thousands
        outcome = event.slug.partition(".")[2]
        if event.slug == "run.started":
            # Acquiring a run's lock emits no event of its own.
            self._acquisitions.add(1, {"firecron.lock": name, "firecron.outcome": "acquired"})
            if isinstance(lag := fields.get("lag"), int):
                # A claim may be early by up to the margin.
                self._lag.record(max(0, lag) / 1000, {"firecron.job": name, "firecron.trigger": str(fields["trigger"])})
        elif event.slug in _ENDED:
            attributes = {"firecron.job": name, "firecron.outcome": outcome}
            self._runs.add(1, {**attributes, "firecron.trigger": str(fields["trigger"])})
            if isinstance(took := fields.get("took"), int):
                self._duration.record(took / 1000, attributes)
            if outcome == "succeeded":
                with self._lock:
                    self._successes[name] = self._now()
        elif event.slug in _UNRUN:
            count = fields.get("count", 1)
            self._runs.add(count if isinstance(count, int) else 1, {"firecron.job": name, "firecron.outcome": outcome})
        elif event.slug in _LEADS:
            with self._lock:
                self._leading[name] = _LEADS[event.slug]
            if event.slug == "leader.elected":
                # As with a run, acquiring the lock emits no event of its own.
                self._acquisitions.add(1, {"firecron.lock": name, "firecron.outcome": "acquired"})
        elif event.slug in ("lock.acquired", "lock.refused", "lock.unavailable"):
            outcome = str(fields.get("reason", "acquired"))
            self._acquisitions.add(1, {"firecron.lock": name, "firecron.outcome": outcome})
        elif event.slug == "lock.renewal_failed":
            self._renewals_failed.add(1, {"firecron.lock": name})
        elif event.slug == "lock.lost":
            self._leases_lost.add(1, {"firecron.lock": name})

    def _begin_process(self) -> None:
        """Begin without any success: those of before a fork are the parent's."""
        self._lock = threading.Lock()
        self._successes: dict[str, float] = {}
        self._leading: dict[str, int] = {}

    def forget(self) -> None:
        """Report no success any more: an instrument can't be removed, but it can report nothing."""
        with self._lock:
            self._successes.clear()
            self._leading.clear()

    def _observed(self, values: Mapping[str, float]) -> list[Observation]:
        with self._lock:
            return [Observation(value, {"firecron.job": name}) for name, value in values.items()]

    def _name(self, name: str) -> str:
        with self._lock:
            if name not in self._names:
                if len(self._names) >= MOST_NAMES:
                    return OTHER
                self._names.add(name)
            return name
