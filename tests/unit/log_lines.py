"""The log as a test reads it: what `setup` writes to a stream, line by line."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

import pytest

import firecron.logging
from firecron.base.identity import VARIABLES

Line: TypeAlias = "dict[str, object]"
LABELS = "logging.googleapis.com/labels"
TRACE = "logging.googleapis.com/trace"
PROJECT = "demo-project"
ENVIRONMENT = (*VARIABLES, "GOOGLE_CLOUD_PROJECT")


@contextmanager
def root_of_nowhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[logging.Logger]:
    """The root logger of a machine that isn't on Cloud Run; it has its handlers and its level back afterwards."""
    for variable in ENVIRONMENT:
        monkeypatch.delenv(variable, raising=False)
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield root
    root.handlers[:] = handlers
    root.setLevel(level)


class Log:
    """What was written since `setup`."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    def text(self) -> str:
        return self.stream.getvalue()

    def lines(self) -> list[Line]:
        """Each line as Cloud Logging reads it; one that is no JSON object fails the test."""
        found = [json.loads(line, parse_constant=refuse) for line in self.text().splitlines()]
        assert all(isinstance(line, dict) for line in found)
        return found

    def line(self) -> Line:
        [found] = self.lines()
        return found


def refuse(constant: str) -> object:
    raise AssertionError(f"{constant} is no JSON")


def on_cloud_run(monkeypatch: pytest.MonkeyPatch) -> Log:
    """The log of a service on Cloud Run, of a project that it knows."""
    monkeypatch.setenv("K_SERVICE", "api")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", PROJECT)
    log = Log()
    firecron.logging.setup(stream=log.stream)
    return log
