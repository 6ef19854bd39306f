"""The oracle of the steps: which of them were called, what they brought, and what the database has of that.

    46. A recorded step is not called again, and its result stays.
    47. A zombie's result never replaces its successor's.
    48. An intent without a result is taken for neither: a step that may be called once is called once.
    49. The steps of one tick are never seen by another.

A body calls steps whose results are texts that nobody else returns, so each value tells where it is from. A record is
rightful if its fence was the lock's when it was written: the rules ask for no less, and half of the worlds have them.
An operator who deletes a node or unlocks a lease lets two runs trust themselves, so such a job is not judged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from firecron.jobs.run import Run

if TYPE_CHECKING:
    from tests.simulation.fleets.database import Database
    from tests.simulation.fleets.happened import Body, History
    from tests.simulation.fleets.oracle import Oracle

# The path of the steps' nodes.
STEPS = "cron-steps/"
Key: TypeAlias = tuple[str, str, str]


@dataclass(eq=False)
class _Known:
    """What is known of one step of one tick."""

    calls: int = 0
    # How often a body has asked for another call of a step in doubt.
    retries: int = 0
    # How often its node was written, and how often that was as a body has asked for another call.
    writes: int = 0
    allowed: dict[int, int] = field(default_factory=dict)
    values: set[object] = field(default_factory=set)
    is_recorded: bool = False


class StepBook:
    """The steps of one run of the world."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._known: dict[Key, _Known] = {}
        # What each body was given, by the step's name; and what its own calls have returned.
        self._given: dict[int, tuple[Body, dict[str, object]]] = {}
        self._own: dict[tuple[int, str], object] = {}

    def wrote(self, path: str, before: object, after: object, lock: object) -> None:
        """A write has changed the node of a step. `lock` is the node of its job's lock at this moment."""
        name, tick, step = path.removeprefix(STEPS).split("/")
        old, new = _fields(before), _fields(after)
        if not new or self._is_meddled_with(name):
            return
        known = self._of((name, _short(tick), step))
        known.writes += 1
        if _fence(old) > _fence(new):
            self._oracle.violated("1", "the step {} of fence {} is replaced by {}", path, _fence(old), new)
        if old.get("result") is not None and _fence(old) == _fence(new):
            self._oracle.violated("1", "the result of {} is changed: {}", path, new)
        if new.get("result") is None:
            return
        if json.loads(str(new["result"])) not in known.values:
            self._oracle.violated("1", "{} records {}, which no call of it has returned", path, new["result"])
        holder = _fields(lock)
        if _fence(holder) == _fence(new) and holder.get("releasedAt") is None:
            known.is_recorded = True

    def calls(self, body: Body, name: str, *, at_most_once: bool) -> None:
        """The function of a step is called, and does from here on what can't be undone."""
        known, was_recorded = self._at(body, name), self._at(body, name).is_recorded
        known.calls += 1
        if self._is_meddled_with(body.job):
            return
        # Who knows that its lease is over has called nothing: it was frozen on its way from the look to the call.
        if was_recorded and not body.run.lost:
            self._oracle.violated("1", "{} calls {} of {}, which is recorded", body.machine, name, body.run)
        if at_most_once and known.calls > 1 + known.retries:
            self._oracle.violated("1", "{} calls {} of {} once more", body.machine, name, body.run)

    def returns(self, body: Body, name: str, value: object) -> None:
        """The function of a step has returned this, or the body settles the step with it."""
        self._at(body, name).values.add(value)
        self._own[id(body), name] = value

    def retries(self, body: Body, name: str) -> None:
        """The body lets a step in doubt be called once more."""
        known = self._at(body, name)
        known.retries += 1
        known.allowed[id(body)] = known.writes

    def doubts(self, body: Body, name: str) -> None:
        """The body is told that a step is in doubt: not if it has allowed the call, and nobody else has written."""
        known = self._at(body, name)
        if known.allowed.get(id(body)) == known.writes and not self._is_meddled_with(body.job):
            self._oracle.violated("1", "{} may not call {} of {} again", body.machine, name, body.run)

    def gives(self, body: Body, name: str, value: object) -> None:
        """The body is given this for a step."""
        self._given.setdefault(id(body), (body, {}))[1][name] = value
        own = self._own.get((id(body), name), value)
        if (value not in self._at(body, name).values or value != own) and not self._is_meddled_with(body.job):
            self._oracle.violated("1", "{} is given {!r} for {} of {}", body.machine, value, name, body.run)

    def check(self, job: History, database: Database) -> None:
        """Add what the database lacks of the steps of a run that succeeded, or has otherwise."""
        if self._is_meddled_with(job.spec.name):
            return
        there = _fields(database.store.get(f"{STEPS}{job.spec.name}"))
        recorded = {_short(tick): _fields(steps) for tick, steps in there.items()}
        for claim in job.claims:
            body, given = self._given.get(id(claim.body), (None, {}))
            if body is None or claim.outcome != "succeeded":
                continue
            for name, value in given.items():
                # Without the rules a late write may replace another one that a later attempt has found.
                is_sure = database.has_rules or (id(body), name) in self._own
                result = _fields(recorded.get(_tick(body.run), {}).get(name)).get("result")
                if result is None or (is_sure and json.loads(str(result)) != value):
                    self._oracle.violated(
                        "1", "{} was given {!r} for {} of {}, and recorded is {}",
                        body.machine, value, name, body.run, result,
                    )  # fmt: skip

    def _at(self, body: Body, name: str) -> _Known:
        return self._of((body.job, _tick(body.run), name))

    def _of(self, key: Key) -> _Known:
        return self._known.setdefault(key, _Known())

    def _is_meddled_with(self, name: str) -> bool:
        job = self._oracle.jobs[name]
        return bool(job.deleted or job.unlocked)


def refusal_of_step(path: str, new: Mapping[str, object], old: object, lock: object) -> str | None:
    """Return why the rules refuse this write of a step; None if they don't."""
    holder, before = _fields(lock), _fields(old)
    if _fence(holder) != _fence(new) or holder.get("releasedAt") is not None:
        return f"{path} is written with the fence {_fence(new)}, and the lock has {_fence(holder)}"
    if before.get("doneAt") is not None and _fence(before) >= _fence(new):
        return f"{path} is recorded"
    return None


def _tick(run: Run) -> str:
    if run.slot is None:
        return run.idempotency_key.rpartition(":")[2]
    return f"{run.slot:%Y-%m-%dT%H:%M:%SZ}"


def _short(tick: str) -> str:
    """Return the tick of a path; of a run by hand, what is its own."""
    return tick.rpartition("-manual-")[2]


def _fields(node: object) -> dict[str, object]:
    return node if isinstance(node, dict) else {}


def _fence(node: Mapping[str, object]) -> int:
    fence = node.get("fence")
    return int(fence) if isinstance(fence, int | float) else 0
