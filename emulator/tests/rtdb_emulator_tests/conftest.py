"""Clients of the test's database: apps of the official SDK, and a socket."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeAlias

import firebase_admin
import pytest
from firebase_admin import db
from tests.emulator.sockets import SocketClient, socket_client

from rtdb_emulator.pytest_plugin import Rtdb

# firebase-admin ships no types.
App: TypeAlias = Any
Reference: TypeAlias = Any


class MakeApp(Protocol):
    def __call__(self, url: str | None = None, **options: object) -> App: ...


ReferenceTo: TypeAlias = Callable[[str], Reference]


@pytest.fixture
def make_app(rtdb: Rtdb) -> Iterator[MakeApp]:
    """Makes apps of the test's database (or of another `databaseURL`), and deletes them after the test."""
    made: list[App] = []

    def make(url: str | None = None, **options: object) -> App:
        name = f"{rtdb.namespace}-{len(made)}"
        app = firebase_admin.initialize_app(options={"databaseURL": url or rtdb.url, **options}, name=name)
        made.append(app)
        return app

    yield make
    for app in made:
        firebase_admin.delete_app(app)


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
