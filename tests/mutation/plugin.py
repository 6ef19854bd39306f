"""A pytest plugin with two uses, told by the environment: note what tests reach, or run a choice of tests in its order.

With MUTATION_NOTES each test's seconds and outcome are written to that file, and the lines that it reaches are
recorded by coverage under the test's id, also those that its child processes reach. With MUTATION_CHOICE only the
tests whose ids are in that file run, in the order in which they are there.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

NOTES = "MUTATION_NOTES"
CHOICE = "MUTATION_CHOICE"
# The context of what a child process reaches.
TEST = "MUTATION_TEST"

_seconds: defaultdict[str, float] = defaultdict(float)
_failed: set[str] = set()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Attribute what is reached from here on to this test."""
    if NOTES in os.environ:
        import coverage  # it takes as long as many a test that only has to fail

        measuring = coverage.Coverage.current()
        if measuring is not None:
            measuring.switch_context(item.nodeid)
            os.environ[TEST] = item.nodeid
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid] += report.duration
    if not report.passed:
        _failed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    notes = os.environ.get(NOTES)
    if notes is not None:
        # A test that fails, or is skipped, where nothing is broken can't tell that something is.
        passed = {test: seconds for test, seconds in _seconds.items() if test not in _failed}
        Path(notes).write_text(json.dumps({"passed": passed, "others": sorted(_failed)}), "utf-8")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    choice = os.environ.get(CHOICE)
    if choice is not None:
        order = {test: number for number, test in enumerate(json.loads(Path(choice).read_text("utf-8")))}
        items[:] = sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])
