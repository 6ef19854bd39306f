"""A pytest plugin: when the tests are collected, wait for requests, and run the tests of each in a forked child.

A request is a line of JSON. The answer is lines: the child's process id, how the mutant was put there (see
`Functions.patch`), `> test` when a test begins, `! test` for the one that failed (no other runs then) or `passed`, and
`end`.
"""

from __future__ import annotations

import gc
import json
import os
import threading
import traceback
from contextlib import suppress
from typing import TextIO

import pytest
from hypothesis import Phase, settings
from tests.mutation.patching import Functions
from tests.mutation.warm import PIPES, SOURCE, Request

_functions = Functions(os.environ[SOURCE])
_functions.watch()
_failed: list[str] = []


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """A property that fails has noticed the mutant: the smallest example of it is not looked for."""
    settings.register_profile("mutants", phases=(Phase.explicit, Phase.generate))
    settings.load_profile("mutants")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Serve, in place of running all tests."""
    gc.unfreeze()  # what the collection has frozen is not found
    _functions.find()
    assert not session.testsfailed, "some tests can't be collected"
    assert threading.active_count() == 1, f"a fork would lose {threading.enumerate()}"
    gc.collect()
    gc.freeze()
    requests, answers = (int(number) for number in os.environ[PIPES].split())
    items = {item.nodeid: item for item in session.items}
    with os.fdopen(requests, "r", encoding="utf-8") as incoming, os.fdopen(answers, "w", encoding="utf-8") as outgoing:
        print("ready", file=outgoing, flush=True)
        while line := incoming.readline():
            child = os.fork()
            if not child:
                _try(json.loads(line), items, outgoing)
            os.waitpid(child, 0)
            # What its tests have left running.
            with suppress(ProcessLookupError):
                os.killpg(child, 9)
            print("end", file=outgoing, flush=True)
    return True


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _failed.append(report.nodeid)


def _try(request: Request, items: dict[str, pytest.Item], answers: TextIO) -> None:
    """In the child; never returns."""
    os.setsid()

    def tell(line: str) -> None:
        print(line, file=answers, flush=True)

    try:
        tell(str(os.getpid()))
        how = _functions.patch(request["file"], request["before"].encode(), request["after"].encode())
        # A test that isn't there would be taken for one that passes, so nothing is told then.
        left = [items[test] for test in request["tests"]]
        tell(how)
        if how == "not":
            left = []
        while left and not _failed:
            item = left.pop(0)
            tell(f"> {item.nodeid}")
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=left[0] if left else None)
        tell(f"! {_failed[0]}" if _failed else "passed")
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)  # the way out of a forked child: what is the parent's must not be ended here
