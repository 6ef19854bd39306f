"""A fleet: instances of one world that have the same job."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.simulation.instance import Instance
from tests.simulation.world import NAME, World

from firecron import Run, distributed_cron
from firecron.base.instants import to_text
from firecron.jobs.registry import Result
from firecron.lock.refusal import Refusal


class Fleet:
    """Live instances with the same job; `body` is what it does, `runs` are all that were begun."""

    def __init__(self, line: str | None = "* * * * *", **options: object) -> None:
        self.world = World()
        self.body: Callable[[Run], object] = lambda run: None
        self.runs: list[Run] = []
        self._line = line
        self._options: dict[str, object] = {"lock_ttl": 30, **options}

    def instance(
        self,
        line: str | None = None,
        *,
        options: dict[str, object] | None = None,
        wall_error: float = 0.0,
        hears: bool = False,
        **settings: object,
    ) -> Instance:
        """One more instance; its job's line or options may be others."""

        words = {**self._options, **(options or {})}

        @distributed_cron(NAME, line or self._line, **words)  # type: ignore[arg-type]  # options by their words
        def work(run: Run) -> None:
            self.runs.append(run)
            try:
                self.body(run)
            except (AssertionError, pytest.fail.Exception) as error:
                self.world.failure = error
                raise

        instance = Instance(self.world, work, wall_error=wall_error, hears=hears, **settings).live()
        # The looks for late jobs have tests of their own. Here they would be among the requests for the lock.
        instance.crons.engine.lateness.evaluator = None
        return instance

    def slots(self) -> list[str | None]:
        """The slots of all runs that were begun, in their order."""
        return [None if run.slot is None else to_text(run.slot) for run in self.runs]


def refusal_of(results: list[Result]) -> Refusal:
    """The one refusal that came of a turn."""
    (result,) = results
    assert result.refusal is not None, result
    return result.refusal
