"""Revisions that disagree about a job, as whole programs on one database: when it is said, and when it ends."""

from __future__ import annotations

import pytest
from tests.unit.scheduler.test_publishing import HOUR, Job, Programs, job

from firecron import FireCron
from firecron.ops.health import JobVerdict
from firecron.ops.status import Status

NINE, TEN = "0 9 * * *", "0 10 * * *"


class Rollout(Programs):
    """Programs that beat by hand, every 30 s."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: list[FireCron] = []

    def deploy(self, *jobs: Job, revision: str, service: str = "api") -> FireCron:
        """Start an instance of this revision, which beats from now on."""
        crons = self.begin(*jobs, revision=revision, service=service)
        crons.engine.heartbeat.beat()
        self.alive.append(crons)
        return crons

    def beats(self, times: int = 1) -> None:
        for _ in range(times):
            self.timing.advance(30)
            for crons in self.alive:
                crons.engine.heartbeat.beat()

    def verdict(self, name: str = "digest") -> JobVerdict:
        """What an operator is told of the job, with no more requests than without it."""
        status = Status(self.program().locks.database)
        nodes = status.read()
        return next(one for one in status.verdicts(nodes) if one.job == name)

    def warned(self) -> list[bool]:
        return [self.verdict(name).is_warning for name in ("digest", "mail")]


@pytest.fixture
def rollout() -> Rollout:
    return Rollout()


def test_a_rolling_deployment(rollout: Rollout) -> None:
    """From the old revision's next beat, and of the job whose line differs alone, until three beats after its last."""
    old = rollout.deploy(job(line=NINE), job("mail"), revision="api-1")
    rollout.beats(3)
    assert rollout.warned() == [False, False]
    rollout.timing.advance(1)
    rollout.deploy(job(line=TEN), job("mail"), revision="api-2")
    assert rollout.warned() == [False, False], "the old one may be gone"
    rollout.beats()
    assert rollout.warned() == [True, False]
    assert rollout.verdict().why.startswith(
        "live instances of api run it by another schedule than [0 10 * * *] (UTC), which api-2 declared last; "
    )
    assert rollout.verdict().word == "ok"
    rollout.alive.remove(old)
    rollout.beats(3)
    assert rollout.warned() == [True, False]
    rollout.beats()
    assert rollout.warned() == [False, False]


def test_an_old_revision_that_starts_late(rollout: Rollout) -> None:
    """Its entry stands and the new one dissents, until a run of the new one has put the entry right."""
    new = rollout.deploy(job(line=TEN), revision="api-2")
    rollout.timing.advance(1)
    old = rollout.deploy(job(line=NINE), revision="api-1")
    rollout.beats()
    assert "than [0 9 * * *] (UTC), which api-1 declared last" in rollout.verdict().why
    rollout.beats(120)
    rollout.win(new)
    rollout.beats()
    assert "than [0 10 * * *] (UTC), which api-2 declared last" in rollout.verdict().why
    rollout.alive.remove(old)
    rollout.beats(4)
    assert rollout.verdict().is_warning is False


def test_a_program_that_is_replaced_at_once_leaves_no_warning(rollout: Rollout) -> None:
    """Its group is live for three more beats, but nobody has been seen in it since."""
    rollout.deploy(job(line=NINE), revision="api-1")
    rollout.beats(2)
    rollout.alive.clear()
    rollout.timing.advance(1)
    rollout.deploy(job(line=TEN), revision="api-2")
    for _ in range(4):
        assert rollout.verdict().is_warning is False
        rollout.beats()


def test_a_job_that_gets_another_line_while_its_program_runs(rollout: Rollout) -> None:
    """The one program agrees with itself, whether it beats before or after; one that hasn't followed dissents."""
    one = rollout.deploy(job(line=NINE), revision="api-1")
    rollout.beats()
    rollout.timing.advance(1)
    one.registry.remove("digest")
    one.registry.add(job(line=TEN))
    for _ in range(3):
        assert rollout.verdict().is_warning is False
        rollout.beats()
    other = rollout.deploy(job(line=NINE), revision="api-1")
    rollout.beats()
    assert rollout.verdict().is_warning is True
    rollout.timing.advance(1)
    other.registry.remove("digest")
    other.registry.add(job(line=TEN))
    rollout.beats(4)
    assert rollout.verdict().is_warning is False


def test_a_job_that_only_the_new_revision_has_disabled(rollout: Rollout) -> None:
    """It is paused by what was declared, and the old one goes on to run it."""
    old = rollout.deploy(job(), revision="api-1")
    rollout.timing.advance(1)
    rollout.deploy(job(disabled=True), revision="api-2")
    rollout.beats()
    assert (rollout.verdict().word, rollout.verdict().is_warning) == ("paused", True)
    rollout.alive.remove(old)
    rollout.beats(4)
    assert (rollout.verdict().word, rollout.verdict().is_warning) == ("paused", False)


def test_equal_schedules_of_two_services_agree(rollout: Rollout) -> None:
    """A worker pool and a service of the same application; and options that differ are no other schedule."""
    rollout.deploy(job(), revision="api-1")
    rollout.timing.advance(1)
    rollout.deploy(job(grace=90), revision="pool-1", service="pool")
    rollout.beats(2)
    assert rollout.verdict().is_warning is False


def test_an_instance_that_does_not_write_schedules_is_passed_over(rollout: Rollout) -> None:
    """That of an older version: by which schedule it runs the job isn't known."""
    rollout.deploy(job(line=NINE), revision="api-1")
    (group,) = rollout.store.keys("cron-groups", rollout.alive[0].locks.deadline(1))
    rollout.store.set(f"cron-groups/{group}/schedules", None)
    rollout.timing.advance(1)
    rollout.deploy(job(line=TEN), revision="api-2")
    rollout.beats()
    assert rollout.verdict().is_warning is False


def test_a_trigger_does_not_hide_who_ticks(rollout: Rollout) -> None:
    """A service runs a job by hand that a worker pool ticks for. Its entry stays the pool's while the pool lives, so it
    is missed once it is gone. After that, only triggers run the job.
    """
    rollout.deploy(job(), revision="pool-1", service="pool")
    service = rollout.program(job(), job("mail"), service="api", revision="api-7")
    rollout.beats()
    rollout.store.since()
    service.registry.served(service.registry.get("digest"))
    assert rollout.store.since() == ["read cron-jobs", "read cron-groups", "merge 1", "read cron-hold"]
    assert [rollout.entry(name)["service"] for name in ("digest", "mail")] == ["pool", "api"]
    rollout.alive.clear()
    rollout.beats(4)
    assert rollout.verdict().word == "unattended"
    rollout.timing.advance(HOUR)
    service.registry.served(service.registry.get("digest"))
    assert (rollout.entry()["ticks"], rollout.entry()["service"]) == (False, "api")
    assert rollout.verdict().word != "unattended"


def test_a_trigger_declares_where_groups_can_not_be_read(rollout: Rollout) -> None:
    """Whose rules are older than the groups declares as before."""
    rollout.deploy(job(), revision="pool-1", service="pool")
    service = rollout.program(job(), service="api")
    rollout.store.denied = "cron-groups"
    service.registry.served(service.registry.get("digest"))
    assert (rollout.entry()["ticks"], rollout.entry()["service"]) == (False, "api")


def test_a_trigger_reads_no_groups_if_nobody_ticked(rollout: Rollout) -> None:
    """Another revision declares its jobs with one read and one write, and an hour later it takes one read."""
    for revision, calls in (
        ("api-1", ["read cron-jobs", "merge 2", "read cron-hold"]),
        ("api-2", ["read cron-jobs", "merge 2", "read cron-hold"]),
    ):
        service = rollout.program(job(), job("mail"), revision=revision)
        service.registry.served(service.registry.get("digest"))
        assert rollout.store.since() == calls
    rollout.timing.advance(HOUR)
    service.registry.served(service.registry.get("digest"))
    assert rollout.store.since() == ["read cron-jobs/digest"]
