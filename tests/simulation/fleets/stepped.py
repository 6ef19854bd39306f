"""Jobs of a simulated fleet that do their work in recorded steps, on machines that die and freeze in between.

A step is struck before its call, and between the call and the record. The world strikes after the record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from tests.simulation.fleets.bodies import Failure, Work
from tests.simulation.greenlets import Scheduler
from tests.simulation.machines import Machine
from tests.simulation.stand_ins import sleep

from firecron.errors import ConfigurationError, StepInDoubt, StoreError
from firecron.jobs.run import Run

if TYPE_CHECKING:
    from tests.simulation.fleets.happened import Body
    from tests.simulation.fleets.oracle import Oracle

# What becomes of a step in doubt.
_DOUBTS = ("fails", "settles", "retries")


def make_stepped_body(
    name: str, work: Work, machine: Machine, scheduler: Scheduler, oracle: Oracle, strike: Callable[[], None]
) -> Callable[[Run], object]:
    """Return the function of a job on one machine. `strike` may do something to the machine."""

    book, random = oracle.steps, machine.random

    def struck() -> None:
        strike()
        scheduler.block(0)  # a machine that is dead or frozen goes no further

    def looks(begun: Body) -> None:
        at = scheduler.now
        oracle.looks(begun, at, is_lost=bool(begun.run.lost), is_cancelled=bool(begun.run.cancelled))

    def begins(begun: Body, step: str) -> None:
        struck()
        book.calls(begun, step, at_most_once=work.at_most_once)

    def ends(begun: Body, step: str) -> str:
        value = f"{begun.run.idempotency_key} {step} {machine.name} {random.getrandbits(32):08x}"
        book.returns(begun, step, value)
        struck()
        return value

    def settled(begun: Body, step: str) -> str | None:
        """Return the value that a step in doubt is settled with; None if it is called again."""
        doubt = random.choice(_DOUBTS)
        if doubt == "fails":
            raise Failure("a step is in doubt")
        if doubt == "retries":
            book.retries(begun, step)
            begun.run.retry(step)
            return None
        value = f"{begun.run.idempotency_key} {step} settled {random.getrandbits(32):08x}"
        book.returns(begun, step, value)
        return value

    def plan() -> tuple[float, list[str], bool]:
        seconds = (work.least + (work.most - work.least) * random.random()) / work.recorded
        return seconds, [f"s{number}" for number in range(work.recorded)], random.random() < work.fails

    def does(begun: Body, names: list[str], call: Callable[[str], object]) -> Generator[object, object, None]:
        """Do the steps one after another. Yields what is to be awaited in an async job, and is the answer in others."""
        run = begun.run
        for step in names:
            for _ in range(2):
                try:
                    value = yield run.step(step, call, step, at_most_once=work.at_most_once)
                except StepInDoubt:
                    book.doubts(begun, step)
                    known = settled(begun, step)
                    if known is None:
                        continue
                    value = yield run.settle(step, known)
                book.gives(begun, step, value)
                break
            else:
                raise Failure("a step is in doubt again")
            looks(begun)

    def body(run: Run) -> None:
        seconds, names, fails = plan()
        begun = oracle.begins(run, machine)

        def call(step: str) -> str:
            begins(begun, step)
            sleep(seconds)
            return ends(begun, step)

        try:
            going, answer = does(begun, names, call), None
            with suppress(StopIteration):
                while True:
                    answer = going.send(answer)
            if fails:
                raise Failure("as it was to")
        except BaseException as error:
            raise _ended(oracle, begun, error) from None
        oracle.ends(begun, None)

    async def async_body(run: Run) -> None:
        seconds, names, fails = plan()
        begun = oracle.begins(run, machine)

        async def call(step: str) -> str:
            begins(begun, step)
            await asyncio.sleep(seconds)
            return ends(begun, step)

        try:
            going = does(begun, names, call)
            with suppress(StopIteration):
                wish = next(going)
                while True:
                    try:
                        answer = await cast("Awaitable[object]", wish)
                    except BaseException as error:
                        wish = going.throw(error)
                    else:
                        wish = going.send(answer)
            if fails:
                raise Failure("as it was to")
        except BaseException as error:
            raise _ended(oracle, begun, error) from None
        oracle.ends(begun, None)

    chosen = async_body if work.manner.startswith("async") else body
    chosen.__name__ = chosen.__qualname__ = name.replace("-", "_")
    return chosen


def _ended(oracle: Oracle, begun: Body, error: BaseException) -> BaseException:
    """Note the end of a body, and return what it raises: what its steps could not do is a failure of its own."""
    if isinstance(error, ConfigurationError):
        oracle.violated("4", "{} on {} raises {!r}", begun.run, begun.machine, error)
    own = Failure(str(error)) if isinstance(error, StoreError) else error
    oracle.ends(begun, own)
    return own
