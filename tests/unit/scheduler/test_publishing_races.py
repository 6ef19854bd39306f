"""Two threads at the catalogue's work: nothing that is asked for is lost, and what is forgotten stays forgotten."""

from __future__ import annotations

import pytest
from tests.unit.locks import replace_lock
from tests.unit.scheduler.test_publishing import Programs, Waiting, job
from tests.unit.test_races import Watched, code_of, race

from firecron import FireCron
from firecron.errors import Unavailable
from firecron.scheduler.publishing import CataloguePublisher


class Bench:
    """A program whose work at the catalogue waits until it is done."""

    def __init__(self, lock: Watched, *, begins: bool = True) -> None:
        self.programs = Programs()
        self.crons: FireCron = self.programs.program(job())
        self.publisher = self.crons.engine.publisher
        self.crew = self.publisher.crew = Waiting()
        if begins:
            self.publisher.begin()
        replace_lock(self.publisher, lock)

    def add(self, name: str = "mail") -> None:
        self.crons.registry.add(job(name))

    def work(self) -> None:
        """Do what is to be done now."""
        works, self.crew.work = self.crew.work, []
        for work in works:
            work()

    def entries(self) -> list[str]:
        return self.programs.store.keys("cron-jobs", self.crons.locks.deadline(1))


def check_both(bench: Bench) -> None:
    bench.work()
    assert bench.entries() == ["digest", "mail"]
    assert bench.crew.work == [], "nobody is left to do it again"


@pytest.mark.parametrize("name", ["_ask_for", "_start"])
def test_what_is_asked_for_while_the_work_ends_is_done(name: str) -> None:
    """By the same thread, or by another one."""
    race(Bench, lambda bench: bench.add(), lambda bench: bench.work(), code_of(CataloguePublisher, name), check_both)


def test_the_work_ends_while_something_is_asked_for() -> None:
    """The same, from the other side."""
    race(Bench, lambda bench: bench.work(), lambda bench: bench.add(), code_of(CataloguePublisher, "_take"), check_both)


def test_two_who_ask_at_once_have_one_thread() -> None:
    """And both are heard."""

    def make(lock: Watched) -> Bench:
        bench = Bench(lock)
        bench.work()
        return bench

    def check(bench: Bench) -> None:
        assert len(bench.crew.work) == 1
        bench.work()
        assert bench.entries() == ["digest", "mail", "post"]

    race(make, lambda bench: bench.add(), lambda bench: bench.add("post"), code_of(CataloguePublisher, "_start"), check)


@pytest.mark.parametrize("name", ["_put_off", "forget"])
def test_a_stop_while_the_work_fails_leaves_nothing_behind(name: str) -> None:
    """Whichever comes first: the next start looks at once."""

    def make(lock: Watched) -> Bench:
        bench = Bench(lock)
        bench.programs.store.error = Unavailable("down")
        return bench

    def check(bench: Bench) -> None:
        bench.programs.store.error = None
        bench.publisher.begin()
        bench.work()
        assert bench.entries() == ["digest"]

    def fail(bench: Bench) -> None:
        bench.work()

    def stop(bench: Bench) -> None:
        bench.publisher.forget()

    one, other = (fail, stop) if name == "_put_off" else (stop, fail)
    race(make, one, other, code_of(CataloguePublisher, name), check)


def test_a_new_start_believes_nothing_that_a_look_of_before_has_found() -> None:
    """A look whose program was stopped and started again meanwhile answers nobody: another revision may have come."""

    def make(lock: Watched) -> Bench:
        bench = Bench(lock)
        bench.programs.store.set("cron-jobs/digest", None)
        return bench

    def start_again(bench: Bench) -> None:
        bench.publisher.forget()
        bench.publisher.begin()

    def check(bench: Bench) -> None:
        told: list[int | None] = []
        bench.programs.store.set("cron-jobs/digest", {"line": "0 9 * * *", "timezone": "UTC", "since": 5})
        bench.publisher.when_known(bench.crons.registry.get("digest"), told.append)
        bench.work()
        assert told == [5]

    race(make, lambda bench: bench.work(), start_again, code_of(CataloguePublisher, "_publish"), check)
