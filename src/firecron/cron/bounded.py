"""The schedule of an entry: what a `Schedule` can be, or one tick `at` an instant. It is stored as fields of a node.

It is a `Schedule`, so whatever counts ticks counts these. `read_fields` reads what `Bounded.to_fields` has written, and
what somebody has typed in its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from firecron.base.instants import Duration, in_utc, to_datetime, to_milliseconds, to_text
from firecron.cron.schedule import DEFAULT_ZONE, EPOCH, Schedule

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

_SECOND = timedelta(seconds=1)
# What a schedule of one tick is made of, in seconds, before it gets its tick.
_ANY = 60
# The fields that say when an entry ticks. What they leave out is not stored. `written` is for people: the line with its
# `H`, beside the numbers that it stands for.
FIELDS = ("line", "written", "timezone", "every", "starting", "at", "until")


class Bounded(Schedule):
    """The schedule of an entry. Raise ValueError for what can't be one.

    Args:
        line, timezone, name, every, starting, until: As of a `Schedule`.
        at: Instead of these, the only tick: an aware `datetime`. It is rounded up to a whole second.
    """

    __slots__ = ("at",)

    def __init__(
        self,
        line: str | None = None,
        timezone: str | ZoneInfo = DEFAULT_ZONE,
        *,
        name: str | None = None,
        every: Duration | None = None,
        starting: datetime | None = None,
        until: datetime | None = None,
        at: datetime | None = None,
    ) -> None:
        self.at = None if at is None else _rounded_up(at)
        if self.at is None:
            super().__init__(line, timezone, name=name, every=every, starting=starting, until=until)
            return
        given = {"line": line, "every": every, "starting": starting, "until": until}
        if (found := next((name for name, value in given.items() if value is not None), None)) is not None:
            raise ValueError(f"at={at!r} is the only tick, so leave {found}={given[found]!r} out, or at")
        if timezone is not DEFAULT_ZONE:
            raise ValueError(f"timezone={timezone!r} is only for a cron line: give at={at!r} its own zone")
        super().__init__(every=_ANY)
        shown = to_text(self.at).replace("T", " ").removesuffix("Z").removesuffix(":00")
        self.line = "by stored schedules" if self.at == EPOCH else f"once, at {shown} UTC"
        self.every = self.starting = None
        self._after = partial(_only, self.at)

    @property
    def has_line(self) -> bool:
        """Whether it has a cron line; else it has `every`, or `at`."""
        return self.at is None and super().has_line

    def tick_after(self, instant: int) -> int | None:
        """Return the first tick after the instant, both in milliseconds; None if there is none."""
        tick = self.next_after(to_datetime(instant))
        return None if tick is None else to_milliseconds(tick)

    def to_fields(self) -> dict[str, object]:
        """Return the fields of a stored schedule, without those that it leaves out."""
        return dict(self._fields())

    def arguments(self) -> list[str]:
        """Return its arguments, as they would be written."""
        return super().arguments() if self.at is None else [f"at={self.at!r}"]

    def _fields(self) -> Iterator[tuple[str, object]]:
        if self.at is not None:
            yield "at", to_text(self.at)
            return
        if self.every is None:
            yield "line", str(self.line)
            if self.written is not None:
                yield "written", self.written
            yield "timezone", self.timezone
        else:
            yield "every", int(self.every.total_seconds())
        if self.starting is not None:
            yield "starting", in_utc(self.starting)
        if self.until is not None:
            yield "until", in_utc(self.until)


def read_fields(fields: Mapping[str, object]) -> Bounded | None:
    """Return the schedule that a node's fields describe; None if there is none. Raise ValueError for a wrong one."""
    if not any(fields.get(name) is not None for name in ("line", "every", "at")):
        return None
    every = fields.get("every")
    if every is not None and (isinstance(every, bool) or not isinstance(every, int | float)):
        raise ValueError(f"every={every!r:.40} is no number of seconds")
    line, zone, starting, at, until = (_text(fields.get(name), name) for name in _TEXTS)
    return _read(line, zone, every, starting, at, until)


_TEXTS = ("line", "timezone", "starting", "at", "until")


# A look, a claim and a release read the same node six times, within a second or so. More would only keep memory.
@lru_cache(250)
def _read(
    line: str | None, zone: str | None, every: float | None, starting: str | None, at: str | None, until: str | None
) -> Bounded:
    return Bounded(
        line,
        DEFAULT_ZONE if zone is None else zone,
        every=every,
        starting=_instant(starting),
        at=_instant(at),
        until=_instant(until),
    )


def _text(value: object, name: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise ValueError(f"{name}={value!r:.40} is no text")


def _instant(text: str | None) -> datetime | None:
    return None if text is None else to_datetime(text)


def _only(at: datetime, instant: datetime) -> datetime:
    """Return the only tick, if it is after the instant. After it comes none in all the years of a datetime."""
    if instant < at:
        return at
    raise OverflowError


def _rounded_up(at: object) -> datetime:
    if not isinstance(at, datetime) or at.utcoffset() is None:
        raise ValueError(f"at={at!r} must be an aware datetime, such as datetime(2026, 12, 24, 18, tzinfo=UTC)")
    second = at.astimezone(UTC).replace(microsecond=0)
    return second + _SECOND if at.microsecond else second


# What a stored job has for itself: no tick to come. No entry can have this instant.
NO_TICKS = Bounded(at=EPOCH)
