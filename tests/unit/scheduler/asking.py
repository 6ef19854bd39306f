"""A fleet and an operator who asks for runs."""

from __future__ import annotations

from typing import Any

from tests.simulation.fleet import Fleet
from tests.simulation.instance import Instance
from tests.simulation.world import NAME

from firecron.lock.asks import AskedRun, AskKind, Asks, new_ask

NEVER = "0 0 1 1 *"


class Bench(Fleet):
    """A fleet whose job ticks once a year, so that all that runs was asked for."""

    def __init__(self, line: str = NEVER, **options: object) -> None:
        super().__init__(line, **options)
        self.operator = Instance(self.world)
        self.operator.live()

    def several(self, number: int, **settings: Any) -> list[Instance]:
        found = [self.instance(**settings) for _ in range(number)]
        for one in found:
            one.start()
        self.world.advance(90)
        assert self.runs == []
        return found

    def ask(self, kind: AskKind = "run", tick: str | None = None, name: str = NAME) -> AskedRun:
        ask = new_ask(name, "ann@laptop", self.world.now(), "late feed", kind, tick)
        assert Asks(self.operator.locks.database).make(ask) is None
        return ask

    def node(self, name: str = NAME) -> Any:
        return self.world.store.get(f"cron-asks/{name}")

    def lapses(self) -> list[str]:
        acts: Any = self.world.store.get("cron-acts") or {}
        found = [acts[key] for key in sorted(acts)]
        return [act["why"].rpartition("not run: ")[2] for act in found if act["act"] == "lapse"]

    def keys(self) -> list[str]:
        return [run.idempotency_key for run in self.runs]
