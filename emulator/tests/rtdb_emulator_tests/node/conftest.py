"""Fixtures for the tests that run real Node clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

import pytest

from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.nodejs import Scene, Stage, needed


class Play(Protocol):
    def __call__(self, scene: str, **given: object) -> Any: ...


class Begin(Protocol):
    def __call__(self, scene: str, **given: object) -> AbstractContextManager[Scene]: ...


@pytest.fixture(scope="session")
def node_executable() -> str:
    """The Node.js that runs the clients; without one, the test is skipped."""
    return needed()


@pytest.fixture(scope="session")
def stages() -> Iterator[list[Stage]]:
    """The process of this session, and those that it replaced because a scene went wrong."""
    made: list[Stage] = []
    yield made
    for stage in made:
        stage.close()


@pytest.fixture
def stage(stages: list[Stage], node_executable: str) -> Stage:
    """The process that plays this test's scenes."""
    if not stages or stages[-1].process.poll() is not None:
        stages.append(Stage(node_executable))
    return stages[-1]


@pytest.fixture
def begin(stage: Stage, rtdb: Rtdb) -> Begin:
    """Begins a scene in the test's database, for a test that talks to it."""
    return lambda scene, **given: stage.play(scene, rtdb.emulator.host, rtdb.namespace, **given)


@pytest.fixture
def play(begin: Begin) -> Play:
    """Plays a scene in the test's database to its end, and returns its result."""

    def to_its_end(scene: str, **given: object) -> Any:
        with begin(scene, **given) as playing:
            return playing.end()

    return to_its_end
