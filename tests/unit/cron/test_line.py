"""A cron line: what is one, what it means, its times, and what is odd about it."""

from __future__ import annotations

import hashlib
from calendar import monthrange
from datetime import UTC, datetime, time, timedelta

import pytest
from croniter import croniter
from hypothesis import given
from hypothesis import strategies as st

from firecron import CronExpression, Schedule, distributed_cron
from firecron.cron.line import CronLine, parsed
from firecron.jobs.decorator import declared

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)  # a Thursday


def days(line: str, until: int = 31) -> list[int]:
    """The days of January 2026 on which it fires."""
    return [
        tick.day
        for tick in Schedule(line).between(
            datetime(2025, 12, 31, 23, 59, tzinfo=UTC), NEW_YEAR.replace(day=until, hour=23)
        )
    ]


@pytest.mark.parametrize(
    ("line", "twin"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@MIDNIGHT", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        (" @monthly ", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("  05\t07  * * *\n", "5 7 * * *"),
        ("0 0 * jan,MAR-May SUN", "0 0 * 1,3,4,5 7"),
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 0 * * 7", "0 0 0 * * 0"),
        ("0 0 0 * * 5-7", "0 0 * * 5,6,0"),
        ("0 0 * * 0-7", "0 0 * * *"),
        ("0 0 * * 0-7/2", "0 0 * * 0,2,4,6"),
        ("0 0 * * 1-7/2", "0 0 * * 1,3,5,7"),
        ("5-5 * * * *", "5 * * * *"),
        ("0 0 * * mon-mon", "0 0 * * 1"),
        ("10/25 * * * *", "10,35 * * * *"),
        ("0 22-2 * * *", "0 22,23,0,1,2 * * *"),
        ("0 22-4/3 * * *", "0 22,1,4 * * *"),
        ("0 0 1 nov-apr/3 *", "0 0 1 11,2 *"),
        ("0 0 * * fri-sun", "0 0 * * 5,6,0"),
        ("0 0 * * 7-2", "0 0 * * 0,1,2"),
        ("0 0 ? * 1", "0 0 * * 1"),
        ("0 0 10 * ?", "0 0 10 * *"),
        ("*,5 * * * *", "* * * * *"),
        ("0 0 */1 * 1", "0 0 * * 1"),
        ("0 7 8 * * *", "7 8 * * *"),
        ("0 6 l * *", "0 6 L * ?"),
        ("0 6 L,15 * *", "0 6 15,L * *"),
        ("0 6 28-31,L 1,12 *", "0 6 28-31 1,12 *"),
        ("0 6 * * 5L", "0 6 * * L5"),
        ("0 6 * * 5L", "0 6 * * friL"),
        ("0 6 * * 5L", "0 6 * * Lfri"),
        ("0 6 * * 7L", "0 6 * * 0L"),
        ("0 6 * * mon#2", "0 6 * * 1#2"),
        ("0 6 * * 7#1", "0 6 * * SUN#1"),
        ("0 6 * * 1#1,1#2,1#3,1#4,1#5", "0 6 * * 1"),
    ],
)
def test_two_ways_to_say_it(line: str, twin: str) -> None:
    """These lines mean the same: they have the same ticks, over a year and from wherever one looks."""
    one, other = Schedule(line), Schedule(twin)
    tick = NEW_YEAR
    for _ in range(120):
        assert one.after(tick) == other.after(tick)
        tick = one.after(tick)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("0 0 13 * 5", [2, 9, 13, 16, 23, 30]),
        ("0 0 13 * *", [13]),
        ("0 0 * * 5", [2, 9, 16, 23, 30]),
        ("0 0 */10 * 5", [1, 2, 9, 11, 16, 21, 23, 30, 31]),
        ("0 0 29-31 * 1-2", [5, 6, 12, 13, 19, 20, 26, 27, 29, 30, 31]),
        ("0 0 30-2 * *", [1, 2, 30, 31]),
        ("0 0 L * *", [31]),
        ("0 0 15,L * 1#2", [12, 15, 31]),
        ("0 0 13 * 5L", [13, 30]),
        ("0 0 * * THU#1,THU#5", [1, 29]),
        ("0 0 * * 6L,1#1,3", [5, 7, 14, 21, 28, 31]),
    ],
)
def test_either_day_matches_where_both_are_restricted(line: str, expected: list[int]) -> None:
    """A day fires if it has both fields, or one of them where both are restricted."""
    assert days(line) == expected


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("", "has 0 fields: use 5, or 6 with seconds first"),
        ("* * * *", "has 4 fields"),
        ("* * * * * * *", "has 7 fields"),
        ("@reboot", "is unknown: use one of @hourly, @daily"),
        ("@every 5m", "has 2 fields"),
        ("60 * * * *", "60 is not a valid minute: use 0 to 59"),
        ("60 * * * * *", "60 is not a valid second: use 0 to 59"),
        ("* 24 * * *", "24 is not a valid hour: use 0 to 23"),
        ("* * 0 * *", "0 is not a valid day of the month: use 1 to 31"),
        ("0 0 0 0 * *", "0 is not a valid day of the month: use 1 to 31"),
        ("* * 32 * *", "32 is not a valid day of the month"),
        ("* * * 13 *", "13 is not a valid month: use 1 to 12, or JAN to DEC"),
        ("* * * 0 *", "0 is not a valid month"),
        ("* * * * 8", "8 is not a valid day of the week: use 0 to 7, or SUN to SAT"),
        ("* * * * January", "JANUARY is not a valid day of the week"),
        ("* MON * * *", "MON is not a valid hour"),
        ("-1 * * * *", "'-1' is not a valid minute: use *, a number, a range such as 1-5, or a step such as */2"),
        ("1- * * * *", "'1-' is not a valid minute"),
        ("1,,2 * * * *", "'' is not a valid minute"),
        ("*/0 * * * *", "the step of '*/0' must be 1 or more"),
        ("*/x * * * *", "'*/X' is not a valid minute"),
        ("*/5/5 * * * *", "'*/5/5' is not a valid minute"),
        ("1.5 * * * *", "'1.5' is not a valid minute"),
        ("\u0665 * * * *", "'\u0665' is not a valid minute"),
        ("? * * * *", "'?' is not a valid minute"),
        ("0 0 1,? * *", "'?' is not a valid day of the month"),
        # Differing from instance to instance.
        ("R * * * *", "R is not a valid minute"),
        # What others mean different things by.
        ("0 0 15W * *", "'15W' is not a valid day of the month: W, the nearest weekday, is not supported: name the"),
        ("0 0 LW * *", "'LW' is not a valid day of the month: W, the nearest weekday"),
        ("0 0 W * *", "'W' is not a valid day of the month: W, the nearest weekday"),
        ("0 0 WED * *", "WED is not a valid day of the month: use 1 to 31"),
        ("0 0 L-3 * *", "'L-3' is not a valid day of the month: only L, the last day itself, is supported: name the"),
        (
            "0 0 * * L",
            "'L' is not a valid day of the week: an L alone may mean Saturday or the last day: write 6, or an",
        ),
        ("0 0 * * 1,L", "'L' is not a valid day of the week: an L alone"),
        ("0 0 * * 5#L", "'5#L' is not a valid day of the week: the last one of a month is written without #, as in 5L"),
        (
            "0 0 * * 1-5L",
            "'1-5L' is not a valid day of the week: a range has neither L nor #: write a list, such as 1L",
        ),
        ("0 0 * * mon-fri#2", "'MON-FRI#2' is not a valid day of the week: a range has neither L nor #"),
        ("0 0 * * 5#0", "5#0 is not a valid day of the week: use #1 to #5, or 5L for the last"),
        ("0 0 * * 5#6", "5#6 is not a valid day of the week: use #1 to #5, or 5L for the last"),
        ("0 0 * * 8#1", "8 is not a valid day of the week: use 0 to 7, or SUN to SAT"),
        ("0 0 * * L8", "8 is not a valid day of the week: use 0 to 7, or SUN to SAT"),
        ("0 0 * * octL", "OCT is not a valid day of the week"),
        ("0 0 * * 5L/2", "'5L/2' is not a valid day of the week"),
        ("0 0 L/2 * *", "L is not a valid day of the month"),
        ("0 0 15L * *", "'15L' is not a valid day of the month"),
        ("0 0 15-L * *", "L is not a valid day of the month: use 1 to 31"),
        ("L * * * *", "L is not a valid minute"),
        ("0 0 * L *", "L is not a valid month"),
        # Never.
        ("0 0 30 2 *", "it never fires"),
        ("0 0 31 2,4,6,9,11 *", "it never fires"),
        ("0 0 0 31 feb ?", "it never fires"),
    ],
)
def test_a_line_that_is_none_is_refused(line: str, problem: str) -> None:
    """The refusal has the line and what in it is wrong, with what may stand there."""
    with pytest.raises(ValueError, match="cron line") as caught:
        Schedule(line)
    assert problem in str(caught.value)
    assert repr(line) in str(caught.value)


@pytest.mark.parametrize("line", [None, 5, b"* * * * *", ["*"] * 5])
def test_a_line_is_a_string(line: str) -> None:
    """Anything but a string is refused with its value."""
    with pytest.raises(ValueError, match="a cron line must be a string, not") as caught:
        Schedule(line)
    assert repr(line) in str(caught.value)


@pytest.mark.parametrize("line", ["0 0 29 2 *", "0 0 31 2 5", "0 0 31 * *", "0 0 31 2,3 *"])
def test_a_rare_line_fires_after_all(line: str) -> None:
    """A day that only some years or months have, or that the weekday makes up for, is no reason to refuse."""
    assert Schedule(line).after(NEW_YEAR) > NEW_YEAR


def remedy(every: str | None) -> str:
    """The end of a warning of a step that stands alone in its line."""
    if every is None:
        return ""
    unit, _, step = every.partition("=")
    return f"; for a tick every {step} {unit}, write every=timedelta({every}) instead of the line"


@pytest.mark.parametrize(
    ("line", "step", "unit", "alone", "every"),
    [
        ("*/90 * * * *", "*/90", "minute", 0, "minutes=90"),
        ("*/60 * * * *", "*/60", "minute", 0, "minutes=60"),
        ("*/60 * * * * *", "*/60", "second", 0, "seconds=60"),
        ("0 */24 * * *", "*/24", "hour", 0, "hours=24"),
        ("30/45 * * * *", "30/45", "minute", 30, "minutes=45"),
        ("0 0 */31 * *", "*/31", "day of the month", 1, "days=31"),
        ("0 0 1 */12 *", "*/12", "month", 1, None),
        ("0 5-9/10 * * *", "5-9/10", "hour", 5, "hours=10"),
        ("*/90 9 * * *", "*/90", "minute", 0, None),
    ],
)
def test_a_step_that_is_too_big_is_warned_of(line: str, step: str, unit: str, alone: int, every: str | None) -> None:
    """A step that leads nowhere has a warning that says what the line means, and how to get such steps."""
    (warning,) = Schedule(line).warnings
    said = f"in the cron line {line!r} the step of {step} is too big for a {unit}: it matches {alone} only"
    assert warning == said + remedy(every)
    assert Schedule(line).after(NEW_YEAR) > NEW_YEAR


@pytest.mark.parametrize(
    ("line", "step", "period", "written_out", "every"),
    [
        ("*/45 * * * *", "*/45", "hour", "0,45", "minutes=45"),
        ("*/59 * * * *", "*/59", "hour", "0,59", "minutes=59"),
        ("5/25 * * * *", "5/25", "hour", "5,30,55", "minutes=25"),
        ("*/40 * * * * *", "*/40", "minute", "0,40", "seconds=40"),
        ("0 */7 * * *", "*/7", "day", "0,7,14,21", "hours=7"),
        ("0 0 */10 * *", "*/10", "month", "1,11,21,31", "days=10"),
        ("0 0 1 */5 *", "*/5", "year", "1,6,11", None),
        ("0 0 * * */2", "*/2", "week", "0,2,4,6", "days=2"),
        # No even steps would do, because the line has more to say.
        ("*/45 9-17 * * *", "*/45", "hour", "0,45", None),
        ("*/45 * * * 1-5", "*/45", "hour", "0,45", None),
        ("0,30 */7 * * *", "*/7", "day", "0,7,14,21", None),
        ("*/7,3 * * * *", "*/7", "hour", "0,7,14,21,28,35,42,49,56", None),
        ("0 0 */10 * 1", "*/10", "month", "1,11,21,31", None),
    ],
)
def test_an_uneven_step_is_warned_of(line: str, step: str, period: str, written_out: str, every: str | None) -> None:
    """A step that doesn't divide its field has a warning with the line written out, which has none, and with `every`
    where even steps are what may have been meant.
    """
    schedule = Schedule(line)
    assert schedule.warnings == (
        f"in the cron line {line!r} {step} is uneven: it starts again with each {period}; write {written_out} if you "
        f"want that{remedy(every)}",
    )
    same = Schedule(line.replace(step, written_out))
    assert same.warnings == ()
    year = (NEW_YEAR, NEW_YEAR + timedelta(days=2))
    assert list(same.between(*year)) == list(schedule.between(*year))


@pytest.mark.parametrize(
    "line", ["*/30 * * * * *", "*/1 * * * *", "20/15 * * * *", "0-50/20 * * * *", "0 */12 1 */6 *", *CronExpression]
)
def test_other_lines_have_no_warning(line: str) -> None:
    """A step that leads somewhere, or none, is not warned of."""
    assert Schedule(line).warnings == ()


def test_one_day_that_exists_is_enough() -> None:
    """A line whose days don't all exist in its months fires on those that do."""
    assert Schedule("0 0 5,31 2 *").after(NEW_YEAR) == datetime(2026, 2, 5, tzinfo=UTC)


@pytest.mark.parametrize("month", range(1, 13))
def test_each_month_has_its_days(month: int) -> None:
    """The last day that a month can have is one, and the day after it is none."""
    last = monthrange(2024, month)[1]
    assert Schedule(f"0 0 {last} {month} *").after(NEW_YEAR).day == last
    if last < 31:
        with pytest.raises(ValueError, match="it never fires"):
            Schedule(f"0 0 {last + 1} {month} *")


@pytest.mark.parametrize(
    ("line", "said"), [("5", "has 1 fields: use 5"), ("@often", "is unknown: use one of @hourly"), ("", "has 0 fields")]
)
def test_one_word_is_an_alias_or_too_little(line: str, said: str) -> None:
    """A single word is looked for among the aliases only if it is written like one."""
    with pytest.raises(ValueError, match=said):
        Schedule(line)


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("0 9 * * 1 0", "0 0 9 * * 1"),
        ("30 2 * * 1-5 0", "0 30 2 * * 1-5"),
        ("0 9 * * * 00", "0 0 9 * * *"),
        ("*/5 * * * * 0", "0 */5 * * * *"),
    ],
)
def test_a_line_that_seems_to_have_its_seconds_last_gets_a_warning(line: str, meant: str) -> None:
    """With the seconds last it would be a plain line, which the warning writes with the seconds first."""
    (warning,) = Schedule(line).warnings
    assert f"if it is meant for the seconds, write {meant!r}; if not, write SUN" in warning
    assert Schedule(meant).warnings == ()


@pytest.mark.parametrize(
    "line", ["0 0 9 * * 0", "0 30 8 * * 1", "0 9 * * 1", "0 9 * * 1 SUN", "0 0 9 * * *", "5 0 0 1 1 0"]
)
def test_a_line_with_its_seconds_first_gets_none(line: str) -> None:
    """Nor does one that names Sunday, or that has no seconds."""
    assert Schedule(line).warnings == ()


def test_a_line_that_only_fits_with_its_seconds_last_says_so() -> None:
    """There is no month 0, so the line is refused, with the line that may be meant."""
    with pytest.raises(ValueError, match=r"Seconds come first: is '0 0 9 \* \* 0' meant\?$"):
        Schedule("0 9 * * 0 0")


# Of "NAME=line" lines, sorted, taken from @nestjs/schedule's own list.
DIGEST = "b82e2fb191274d484837f0a3153b790247e564ff7ad04fd748b510fbc2336eff"


def test_the_list_is_the_one_that_users_know() -> None:
    """All 83 names are there with their values, and no other."""
    text = "\n".join(sorted(f"{name}={line.value}" for name, line in CronExpression.__members__.items()))
    assert len(CronExpression.__members__) == 83
    assert hashlib.sha256(text.encode()).hexdigest() == DIGEST


@pytest.mark.parametrize("line", CronExpression, ids=lambda line: str(line.name))
def test_each_makes_a_schedule(line: CronExpression) -> None:
    """Each is a string that makes a schedule without a warning, and fires within a year."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    schedule = Schedule(line)
    assert isinstance(line, str)
    assert schedule.warnings == ()
    assert start < schedule.after(start) <= datetime(2027, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (CronExpression.EVERY_5_SECONDS, "2026-11-18T12:00:05+00:00"),
        (CronExpression.EVERY_MINUTE, "2026-11-18T12:01:00+00:00"),
        (CronExpression.EVERY_30_MINUTES, "2026-11-18T12:30:00+00:00"),
        (CronExpression.EVERY_7_HOURS, "2026-11-18T14:00:00+00:00"),
        (CronExpression.EVERY_DAY_AT_9AM, "2026-11-19T09:00:00+00:00"),
        (CronExpression.EVERY_WEEKEND, "2026-11-21T00:00:00+00:00"),
        (CronExpression.EVERY_QUARTER, "2027-01-01T00:00:00+00:00"),
        (CronExpression.MONDAY_TO_FRIDAY_AT_11_30AM, "2026-11-19T11:30:00+00:00"),
        (CronExpression.EVERY_30_MINUTES_BETWEEN_9AM_AND_5PM, "2026-11-18T12:30:00+00:00"),
    ],
)
def test_a_name_says_when(line: CronExpression, expected: str) -> None:
    """On a Wednesday at noon, the next tick is what the name promises."""
    assert Schedule(line).after(datetime(2026, 11, 18, 12, tzinfo=UTC)).isoformat() == expected


def test_the_decorator_takes_a_name() -> None:
    """A constant serves wherever a line does, and is shown as the line it is."""

    @distributed_cron("digest", CronExpression.EVERY_DAY_AT_9AM)
    def digest() -> None: ...

    (options,) = declared(digest)
    assert f"{options.schedule.line}" == "0 09 * * *"


SECOND = timedelta(seconds=1)
# Wall times, without a zone.
WALLS = st.datetimes(datetime(2024, 1, 1), datetime(2031, 12, 31)).map(lambda wall: wall.replace(microsecond=0))  # noqa: DTZ001


def field(size: int) -> st.SearchStrategy[str]:
    """A field of so many numbers: any of them, all, or those that a step leaves."""
    some = st.sets(st.integers(0, size - 1), min_size=1).map(lambda found: ",".join(map(str, sorted(found))))
    steps = st.builds("{}/{}".format, st.integers(0, size - 1), st.integers(1, size - 1))
    return st.one_of(some, st.just("*"), steps)


@given(
    st.tuples(field(60), field(60), field(24)),
    st.sampled_from(["* * *", "* * 1-5", "29 2 *", "L * *", "1 */3 MON"]),
    st.lists(WALLS, min_size=1, max_size=3),
)
def test_the_search_finds_what_the_iteration_finds(
    times: tuple[str, str, str], days: str, walls: list[datetime]
) -> None:
    """After any wall time, the next time of the line is the one to which croniter counts on the days of the line."""
    line = CronLine(f"{' '.join(times)} {days}")
    plain = (",".join(map(str, sorted(found))) for found in (line.seconds, line.minutes, line.hours))
    iterated = croniter(f"{' '.join(plain)} * * *", walls[0], ret_type=datetime, second_at_beginning=True)
    for wall in walls:
        iterated.set_current(wall)
        found = iterated.get_next()
        if not line.days.match(found.date()):
            iterated.set_current(datetime.combine(line.days.after(found.date()), time()) - SECOND)
            found = iterated.get_next()
        assert line.after(wall) == found


def test_a_line_is_read_once() -> None:
    """Jobs with the same line share what was read; its text is a plain one, whatever was given first."""
    assert parsed("7 9 * * *") is parsed("7 9 * * *")
    assert Schedule("7 9 * * *") == Schedule("7 9 * * *", "UTC")
    assert type(parsed("7 9 * * *").line) is str
