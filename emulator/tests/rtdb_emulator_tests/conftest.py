"""Clients of the test's database: apps of the official SDK, and a socket; and how a run is set up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest
from firebase_admin import db

from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.firebase_apps import MakeApp, Reference, make_app
from rtdb_emulator_tests.helpers.processes import run, run_pytest, start
from rtdb_emulator_tests.helpers.session import (
    deep,
    no_firebase_app_outlives_its_test,
    pytest_collection,
    pytest_configure,
    pytest_runtest_makereport,
    pytest_xdist_make_scheduler,
)
from rtdb_emulator_tests.helpers.sockets import SocketClient, socket_client

__all__ = [
    "deep",
    "make_app",
    "no_firebase_app_outlives_its_test",
    "pytest_collection",
    "pytest_configure",
    "pytest_runtest_makereport",
    "pytest_xdist_make_scheduler",
    "run",
    "run_pytest",
    "start",
]

ReferenceTo: TypeAlias = Callable[[str], Reference]


@pytest.fixture
def reference(make_app: MakeApp) -> ReferenceTo:
    """References of an admin app into the test's database."""
    app = make_app()
    return lambda path: db.reference(path, app)


@pytest.fixture
def client(rtdb: Rtdb) -> Iterator[SocketClient]:
    """A client on a socket."""
    with socket_client(rtdb.emulator, rtdb.namespace) as connected:
        yield connected
