"""The span around each run: what OpenTelemetry's own exporter gets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from firecron import FireCron, LeaseLost, Run, Stopping, distributed_cron
from firecron.base.events import Events
from firecron.jobs.job import Around
from firecron.otel import instrument

NINE = "2026-11-18T09:00:00Z"


class Spans:
    """A provider of tracers, and the spans that have ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def read(self) -> list[ReadableSpan]:
        return [*self._exporter.get_finished_spans()]


@pytest.fixture
def spans() -> Spans:
    return Spans()


def crons_of(spans: Spans, function: Callable[..., object], *around: Around, retries: int = 0) -> FireCron:
    declared = distributed_cron("job", "0 9 * * *", lock_ttl=60, retries=retries, retry_backoff=0)(function)
    crons = FireCron(declared, enabled=False, around=around)
    instrument(crons, tracer_provider=spans.provider)
    return crons


def attributes(span: ReadableSpan) -> dict[str, object]:
    return {name.removeprefix("firecron."): value for name, value in (span.attributes or {}).items()}


@pytest.mark.parametrize("is_async", [False, True])
def test_a_span_is_around_each_try(spans: Spans, is_async: bool) -> None:
    """Each try has a span with job, tick, attempt, trigger, fence and outcome. The job is inside of it,
    and so is all that the program has put around its runs.
    """
    tries: list[Run] = []
    current: list[object] = []

    @contextmanager
    def around(run: Run) -> Iterator[None]:
        current.append(trace.get_current_span().get_span_context())
        yield

    def work(run: Run) -> None:
        tries.append(run)
        current.append(trace.get_current_span().get_span_context())
        if len(tries) == 1:
            raise ValueError("password=hunter2secret")

    async def work_async(run: Run) -> None:
        await asyncio.sleep(0)
        work(run)

    crons = crons_of(spans, work_async if is_async else work, around, retries=1)
    with crons.testing("2026-11-18T08:59:00Z") as test:
        test.move_to(NINE)
        test.advance(1)
    first, second = spans.read()
    known = {"job": "job", "slot": NINE, "attempt": 1, "trigger": "schedule", "fence": tries[0].fence}
    assert (first.name, attributes(first)) == ("run job", {**known, "outcome": "failed"})
    assert (second.name, attributes(second)) == ("run job", {**known, "outcome": "succeeded"})
    assert current == [first.context, first.context, second.context, second.context]
    assert not trace.get_current_span().get_span_context().is_valid
    assert (first.status.status_code, first.status.description) == (StatusCode.ERROR, "ValueError: password=[redacted]")
    assert second.status.status_code is StatusCode.UNSET
    (raised,) = first.events
    assert not second.events
    found = dict(raised.attributes or {})
    assert (raised.name, found["exception.type"]) == ("exception", "ValueError")
    assert found["exception.message"] == "ValueError: password=[redacted]"
    assert "in work" in str(found["exception.stacktrace"])
    assert "hunter2" not in f"{found}"


def test_a_run_by_hand_has_no_slot(spans: Spans) -> None:
    """What isn't known is no attribute."""
    with crons_of(spans, lambda: None).testing() as test:
        test.run("job")
    (span,) = spans.read()
    assert attributes(span).keys() == {"job", "attempt", "trigger", "fence", "outcome"}


@pytest.mark.parametrize(
    ("error", "lost", "outcome", "status", "description"),
    [
        (Stopping(), False, "interrupted", StatusCode.UNSET, None),
        (LeaseLost(), True, "lost", StatusCode.ERROR, "LeaseLost: "),
        (None, True, "lost", StatusCode.ERROR, "its lease was lost"),
        (ValueError("no"), True, "lost", StatusCode.ERROR, "ValueError: no"),
    ],
)
def test_the_outcome_is_the_runs(
    spans: Spans, error: Exception | None, lost: bool, outcome: str, status: StatusCode, description: str | None
) -> None:
    """A span has the outcome of the run; only a failure and a loss are errors."""

    def work(run: Run) -> None:
        if lost:
            run.lost.set()
        if error is not None:
            raise error

    crons = crons_of(spans, work)
    with crons.testing() as test:
        assert test.run("job").outcome == outcome
    (span,) = spans.read()
    assert attributes(span)["outcome"] == outcome
    assert span.status.status_code is status
    assert (span.status.description or "").startswith(description or "")


def test_what_swallows_the_error_does_not_hide_it(spans: Spans) -> None:
    """A context manager further in that suppresses the error leaves the span its failure."""
    crons = crons_of(spans, lambda: 1 / 0, lambda run: suppress(Exception))
    with crons.testing() as test:
        test.run("job")
    (span,) = spans.read()
    assert (attributes(span)["outcome"], span.status.status_code) == ("failed", StatusCode.ERROR)


def test_a_run_that_a_request_triggers_is_below_its_span(spans: Spans) -> None:
    """Where a span is under way, the run's is its child."""
    crons = crons_of(spans, lambda: None)
    with crons.testing() as test, spans.provider.get_tracer("web").start_as_current_span("POST /job") as request:
        test.run("job")
    run, _ = spans.read()
    assert run.parent is not None
    assert run.parent.span_id == request.get_span_context().span_id


def test_no_span_is_opened_any_more(spans: Spans) -> None:
    """The function that `instrument` returns takes the spans away, and a source of events alone has none."""
    declared = distributed_cron("job", "0 9 * * *", lock_ttl=60)(lambda: None)
    crons = FireCron(declared, enabled=False)
    stop = instrument(crons, tracer_provider=spans.provider)
    stop()
    with crons.testing() as test:
        assert test.run("job").outcome == "succeeded"

    class Alone:
        events = Events()

    instrument(Alone(), tracer_provider=spans.provider)()
    assert spans.read() == []
