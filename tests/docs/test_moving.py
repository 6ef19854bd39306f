"""The scripts that move what users have made elsewhere: each is run on what the other program would give it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import ModuleType, SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.docs.documents import ROOT

from firecron import LockService
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.markdown import blocks

PAGE = ROOT / "docs" / "how-to" / "moving-stored-jobs.md"
CHRISTMAS = datetime(2126, 12, 24, 18, tzinfo=UTC)
BEFORE = datetime(2026, 11, 18, 8, 0, 0, 5, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
NINE = {
    "second": "0",
    "minute": "0",
    "hour": "9",
    "day": "*",
    "month": "*",
    "day_of_week": "*",
    "year": "*",
    "week": "*",
}


def script(file: str) -> Any:
    """A file that the page says to save."""
    (block,) = (one for one in blocks(PAGE) if one.file == file)
    module: Any = ModuleType("moving")
    exec(compile(block.text, file, "exec"), vars(module))
    return module


def cron(**fields: str) -> SimpleNamespace:
    """A trigger as APScheduler has it: the text of a field is its expressions."""

    class Field:
        def __init__(self, name: str, text: str) -> None:
            self.name, self.text = name, text

        def __str__(self) -> str:
            return self.text

    named = [Field(name, text) for name, text in {**NINE, **fields}.items()]
    return SimpleNamespace(fields=named, timezone=BERLIN, start_date=None, end_date=CHRISTMAS)


def test_a_job_store_of_apscheduler_is_moved(rtdb: Rtdb) -> None:
    """Each kind of trigger, by the id, with the arguments. Its Monday is 0, and a paused job stays behind."""
    move, service = script("move_jobs.py").move, LockService()
    interval = SimpleNamespace(interval=timedelta(minutes=45), start_date=BEFORE, end_date=None, timezone=BERLIN)
    triggers = {
        "date": SimpleNamespace(run_date=CHRISTMAS),
        "interval": interval,
        "cron": cron(day_of_week="0-4"),
        "named": cron(day_of_week="sat,sun", hour="*/2"),
    }
    jobs = [
        SimpleNamespace(id=name, kwargs={"event": name}, trigger=trigger, next_run_time=BEFORE)
        for name, trigger in triggers.items()
    ]
    paused = SimpleNamespace(id="paused", kwargs={}, trigger=cron(), next_run_time=None)
    for _ in range(2):
        move([*jobs, paused], service.schedules.put)
    found = {one.key: one for one in service.schedules.list("remind")}
    assert {key: one.args["event"] for key, one in found.items()} == dict(zip(triggers, triggers, strict=True))
    shown = {key: one.to_json() for key, one in found.items()}
    assert shown["date"]["at"] == "2126-12-24T18:00:00Z"
    assert (shown["interval"]["every"], shown["interval"]["starting"]) == (2_700, "2026-11-18T08:00:00Z")
    assert [shown[key]["line"] for key in ("cron", "named")] == ["0 0 9 * * MON-FRI", "0 0 */2 * * sat,sun"]
    assert (shown["cron"]["timezone"], shown["cron"]["until"]) == ("Europe/Berlin", "2126-12-24T18:00:00Z")
    for wrong in ({"week": "1"}, {"year": "2027"}, {"day": "1", "day_of_week": "mon"}, {"day_of_week": "*/2"}):
        with pytest.raises(ValueError, match="a cron line can't say"):
            move(
                [SimpleNamespace(id="x", kwargs={}, trigger=cron(**wrong), next_run_time=BEFORE)], service.schedules.put
            )


def task(number: int, **schedule: Any) -> SimpleNamespace:
    nothing = dict.fromkeys(("clocked", "interval", "crontab", "solar", "start_time", "expires"))
    return SimpleNamespace(pk=number, name=f"task {number}", kwargs='{"event": "42"}', **{**nothing, **schedule})


def test_the_tables_of_django_celery_beat_are_moved(rtdb: Rtdb) -> None:
    """Each kind of schedule, by the number, with the arguments and the name."""
    move, service = script("move_tasks.py").move, LockService()
    fields = {"minute": "0, 30", "hour": "9", "day_of_month": "*", "month_of_year": "*", "day_of_week": "1-5"}
    crontab = SimpleNamespace(**fields, timezone=BERLIN)
    tasks = [
        task(1, clocked=SimpleNamespace(clocked_time=CHRISTMAS)),
        task(2, interval=SimpleNamespace(every=2, period="hours"), start_time=BEFORE),
        task(3, crontab=crontab, expires=CHRISTMAS),
    ]
    for _ in range(2):
        move(tasks, service.schedules.put)
    found = [one.to_json() for one in service.schedules.list("remind")]
    assert [(one["key"], one["args"], one["by"]) for one in found] == [
        (str(number), {"event": "42"}, f"task {number}") for number in (1, 2, 3)
    ]
    assert [one["at"] for one in found] == ["2126-12-24T18:00:00Z", None, None]
    assert (found[1]["every"], found[1]["starting"]) == (7_200, "2026-11-18T08:00:00Z")
    assert (found[2]["line"], found[2]["timezone"]) == ("0,30 9 * * 1-5", "Europe/Berlin")
    assert found[2]["until"] == "2126-12-24T18:00:00Z"
    both = SimpleNamespace(**{**fields, "day_of_month": "1"}, timezone=BERLIN)
    for wrong in (task(4, crontab=both), task(4, solar=object())):
        with pytest.raises(ValueError, match="can't say when task 4 is due"):
            move([wrong], service.schedules.put)
