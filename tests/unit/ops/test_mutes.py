"""Mutes: what is written, what is pruned, and what a verdict makes of one."""

from __future__ import annotations

import pytest
from tests.unit.lock.records import MARGIN, NOW, released_node, slot
from tests.unit.ops.declared import JOB

from firecron.base.instants import to_datetime
from firecron.errors import ConfigurationError, Denied
from firecron.jobs.catalogue import Group, dissenting
from firecron.lock.database import Database
from firecron.ops.health import evaluate
from firecron.ops.mutes import Mute, Mutes, read_mutes
from firecron.ops.operator import Operator
from firecron.settings import load
from firecron.testing import FakeTiming, MemoryStore

HOUR = 3_600_000
MUTE = Mute(NOW + HOUR, "ann", "known")
ANY = (Group("0" * 16, None, None, 0, NOW + 10**12),)


class Bench:
    def __init__(self) -> None:
        self.timing = FakeTiming(wall=NOW)
        self.store = MemoryStore(self.timing.now)
        self.database = Database(settings=load(), store=self.store, timing=self.timing, has_threads=False)
        self.mutes = Mutes(self.database)


def test_a_mute_says_who_why_and_until_when() -> None:
    """In one write with its act; the next one replaces it, and removes those that are over."""
    bench = Bench()
    found = bench.mutes.mute("digest", to_datetime(NOW + HOUR), "password=hunter2", by="ann")
    node = {"until": NOW + HOUR, "by": "ann", "why": "password=[redacted]"}
    assert bench.store.get("cron-mutes") == {"digest": node}
    assert found == Mute(NOW + HOUR, "ann", "password=[redacted]")
    bench.mutes.mute("mail", to_datetime(NOW + 2 * HOUR), "x", by="bob")
    bench.timing.advance(3600)
    bench.mutes.mute("import", to_datetime(NOW + 2 * HOUR), "x", by="bob")
    assert set(read_mutes(bench.store.get("cron-mutes"))) == {"mail", "import"}
    acts = Operator(bench.database).acts("digest")
    assert [(act.act, act.who, act.why) for act in acts] == [("mute", "ann", "password=[redacted]")]


def test_a_mute_ends_at_once_by_an_unmute() -> None:
    """Which leaves an act; without a mute it changes nothing."""
    bench = Bench()
    assert not bench.mutes.unmute("digest", by="ann")
    bench.mutes.mute("digest", to_datetime(NOW + HOUR), "x", by="ann")
    bench.timing.advance(1)
    assert bench.mutes.unmute("digest", "mended", by="bob")
    assert bench.store.get("cron-mutes") is None
    assert [(act.act, act.why) for act in Operator(bench.database).acts("digest")][-1] == ("unmute", "mended")


def test_a_mute_that_is_asked_for_wrongly() -> None:
    """One that is over, or has no reason, is refused, and nothing is written."""
    bench = Bench()
    for until, why, said in ((NOW, "x", "is over already"), (NOW + 1, " ", "needs a reason")):
        with pytest.raises(ConfigurationError, match=said):
            bench.mutes.mute("digest", to_datetime(until), why)
    assert bench.store.get("cron-mutes") is None


def test_rules_that_do_not_know_mutes() -> None:
    """They refuse it, and the error says what to deploy."""

    class Old(MemoryStore):
        def read(self, path: str, deadline: object) -> object:  # type: ignore[override]  # it never returns
            raise Denied("no")

    bench = Bench()
    bench.store.__class__ = Old
    with pytest.raises(Denied, match="firecron rules"):
        bench.mutes.mute("digest", to_datetime(NOW + HOUR), "x")


def test_a_job_that_is_forgotten_is_muted_no_more() -> None:
    """Its mute goes with its entry."""
    bench = Bench()
    bench.store.set("cron-jobs/digest", JOB.to_node())
    bench.mutes.mute("digest", to_datetime(NOW + HOUR), "x")
    operator = Operator(bench.database)
    (entry,) = operator.entries(["digest"])
    assert operator.forget(entry)
    assert bench.store.get("cron-mutes") is None


FAILED = released_node(slot=slot(-60), outcome="failed", failures=1)


@pytest.mark.parametrize(("mute", "is_alarm"), [(None, True), (MUTE, False), (Mute(NOW, "ann", "x"), True)])
def test_the_verdict_of_a_muted_job_is_no_alarm(mute: Mute | None, is_alarm: bool) -> None:
    """It is the same verdict, with the mute; one that is over counts no more."""
    found = evaluate(JOB, FAILED, ANY, NOW, MARGIN, mute=mute)
    assert (found.word, found.is_alarm, found.mute) == ("failing", is_alarm, mute if not is_alarm else None)
    assert found.to_json() == evaluate(JOB, FAILED, ANY, NOW, MARGIN).to_json()


def test_a_muted_alarm_is_no_warning_either() -> None:
    """Where live instances disagree about the schedule, too, the sentence of an alarm stays first."""
    others = (Group("0" * 16, frozenset({JOB.name}), "old", 0, NOW, 30, {JOB.name: "????"}), *ANY)
    assert dissenting(JOB, others, NOW)
    found = evaluate(JOB, FAILED, others, NOW, MARGIN, mute=MUTE)
    assert (found.is_alarm, found.is_warning) == (False, False)


def test_a_mute_is_read_whatever_it_holds() -> None:
    """What says no end is none; texts are safe to print."""
    nodes = {"a": {"until": 5}, "b": {"until": "x"}, "c": 7, "d": {"until": 5, "by": "a\x1b[31m", "why": 9}}
    found = read_mutes(nodes)
    assert found.keys() == {"a", "d"}
    assert str(found["a"]).startswith("muted by an operator until 1970-01-01")
    assert found["d"].by.isprintable()
    assert read_mutes(None) == read_mutes([1]) == {}
