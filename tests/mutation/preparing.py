"""A pytest plugin: before any test is collected, wait for requests, and let a forked child collect and run each.

A request is a line of JSON: pytest's arguments. The answer is two lines: the child's process id, and its exit code.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from contextlib import suppress
from importlib import import_module

import pytest
from tests.mutation.prepared import PIPES

# What is tested imports these: once here, not in each child.
for _name in ("pydantic_settings", "requests"):
    import_module(_name)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> bool | None:
    """Serve; in a child, go on as pytest does."""
    assert "firecron" not in sys.modules, "a mutant would not be imported"
    assert threading.active_count() == 1, f"a fork would lose {threading.enumerate()}"
    requests, answers = (int(number) for number in os.environ.pop(PIPES).split())
    with os.fdopen(requests, "r", encoding="utf-8") as incoming, os.fdopen(answers, "w", encoding="utf-8") as outgoing:
        while line := incoming.readline():
            sys.stdout.flush()
            child = os.fork()
            if not child:
                _become(session.config, json.loads(line))
                return None
            print(child, file=outgoing, flush=True)
            _, status = os.waitpid(child, 0)
            # What its tests have left running.
            with suppress(ProcessLookupError):
                os.killpg(child, 9)
            print(os.waitstatus_to_exitcode(status), file=outgoing, flush=True)
    return True


def _become(config: pytest.Config, arguments: list[str]) -> None:
    """Take these arguments, and a session and an output of its own."""
    os.setsid()
    os.ftruncate(sys.stdout.fileno(), 0)
    os.lseek(sys.stdout.fileno(), 0, os.SEEK_SET)
    parser = argparse.ArgumentParser()
    parser.add_argument("-k", dest="keyword", default="")
    parser.add_argument("places", nargs="+")
    parsed = parser.parse_args(arguments)
    config.option.keyword = parsed.keyword
    config.args = parsed.places
