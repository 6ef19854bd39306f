"""The order of the tests for several workers. How a run is set up is the same as in the emulator's tests."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rtdb_emulator_tests.helpers.processes import run, run_pytest, start
from rtdb_emulator_tests.helpers.session import (
    deep,
    no_firebase_app_outlives_its_test,
    pytest_collection,
    pytest_configure,
    pytest_runtest_makereport,
    pytest_xdist_make_scheduler,
)

__all__ = [
    "deep",
    "no_firebase_app_outlives_its_test",
    "pytest_collection",
    "pytest_configure",
    "pytest_runtest_makereport",
    "pytest_xdist_make_scheduler",
    "run",
    "run_pytest",
    "start",
]

HERE = Path(__file__).parent

# Each worker begins with one of these parts, and goes on with a share of the short tests. The first part waits most of
# its time and the others compute: a processor has work while a worker waits. The short tests are left for the end, so
# that no worker is alone with a long one then.
HEADS = (("process",), ("simulation",), ("interleaving",), ("mutation", "invariants"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers > 1:
        items[:] = spread(items, workers)


def spread(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """The tests in the order in which each worker is handed, at first, as many as the others: its head and the next of
    those that are in no head.
    """
    heads: list[list[pytest.Item]] = [[] for _ in range(workers)]
    rest: list[pytest.Item] = []
    part_of = {folder: number % workers for number, folders in enumerate(HEADS) for folder in folders}
    for item in items:
        # Those of the emulator lie elsewhere, and are short.
        part = part_of.get(item.path.relative_to(HERE).parts[0]) if item.path.is_relative_to(HERE) else None
        (rest if part is None else heads[part]).append(item)
    ordered: list[pytest.Item] = []
    for number, head in enumerate(heads, 1):
        added = max(0, len(items) * number // workers - len(ordered) - len(head))
        ordered += head + rest[:added]
        rest = rest[added:]
    return ordered + rest


@pytest.fixture(autouse=True)
def no_log_handler_outlives_its_test() -> Iterator[None]:
    """A handler that is left writes into what later tests read, or complains there that its own stream is closed."""
    before = handlers()
    yield
    assert handlers() == before, "this test has set up logging, and left it so"


@pytest.fixture(autouse=True)
def no_django_project_outlives_its_test() -> Iterator[None]:
    """Where a project is set up jobs close its connections, which takes a thread: later tests don't expect one."""
    yield
    conf = sys.modules.get("django.conf")
    if conf is not None and conf.settings.configured:
        conf.settings._wrapped = sys.modules["django.utils.functional"].empty  # a program sets one up once


def handlers() -> list[logging.Handler]:
    """Those of all logs and of firecron's that write, but for pytest's own."""
    found = logging.getLogger().handlers + logging.getLogger("firecron").handlers
    quiet = logging.NullHandler
    return [one for one in found if not (isinstance(one, quiet) or type(one).__module__.startswith("_pytest"))]


@pytest.fixture(params=("asgi", "flask", "django"))
def shell(request: pytest.FixtureRequest) -> Any:
    """Each framework that the page and the triggers are served by: they must not differ."""
    return request.param
