"""A database that asks for patience, and an instance whose network is mended."""

from __future__ import annotations

from tests.simulation.instance import Instance

from firecron import Unavailable


def up(instance: Instance) -> None:
    instance.network.is_down = False


def mend(instance: Instance) -> None:
    instance.network.before = lambda method, path: None
    up(instance)


def busy(method: str, path: str) -> None:
    raise Unavailable("too many requests", retry_after=30)
