"""The trace that code is part of: the trace of the request in which a trigger runs a job, for its log lines.

    with traced(trace_of(request.headers)):
        registry.trigger("send-digest", source="http")

The trace is a context variable. Code in the request's own thread or task has it, and so has a job's coroutine on the
application's loop. Firecron's own threads (renewals, the history of ticks that did not run) don't have it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

_W3C = re.compile(r"(?!ff)[0-9a-f]{2}-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?:-.*)?")
_CLOUD = re.compile(r"(?P<trace>[0-9a-f]{32})(?:/(?P<span>[0-9]{1,20}))?(?:;o=(?P<options>[0-9]))?", re.IGNORECASE)
_MOST_SPAN = 2**64


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace and the span in it, as Cloud Logging wants them: 32 and 16 hexadecimal digits."""

    trace_id: str
    span_id: str | None = None
    is_sampled: bool = False


current_trace: ContextVar[Trace | None] = ContextVar("firecron_trace", default=None)


def trace_of(headers: Mapping[str, str]) -> Trace | None:
    """Return the trace that the headers of a request name; None if they name none.

    The header is `traceparent`, or else Google's older `X-Cloud-Trace-Context`. Header names are looked up as written
    here and in lower case. A malformed header counts as no trace.
    """
    found = _W3C.fullmatch(_header(headers, "traceparent"))
    if found is not None and int(found["trace"], 16) and int(found["span"], 16):
        return Trace(found["trace"], found["span"], bool(int(found["flags"], 16) & 1))
    found = _CLOUD.fullmatch(_header(headers, "X-Cloud-Trace-Context"))
    if found is None or not int(found["trace"], 16):
        return None
    span = int(found["span"] or 0)
    return Trace(found["trace"].lower(), f"{span:016x}" if 0 < span < _MOST_SPAN else None, found["options"] == "1")


@contextmanager
def traced(trace: Trace | None) -> Iterator[None]:
    """Make this block part of the trace."""
    token = current_trace.set(trace)
    try:
        yield
    finally:
        current_trace.reset(token)


def _header(headers: Mapping[str, str], name: str) -> str:
    return (headers.get(name) or headers.get(name.lower()) or "").strip()
