"""The Firebase apps of this process, and those of a test's database."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Protocol, TypeAlias, cast

import pytest

from rtdb_emulator.pytest_plugin import Rtdb

# firebase-admin ships no types.
App: TypeAlias = Any
Reference: TypeAlias = Any


class MakeApp(Protocol):
    def __call__(self, url: str | None = None, **options: object) -> App: ...


def firebase_apps() -> dict[str, Any]:
    """All apps by their names, without loading firebase-admin where nobody has."""
    firebase_admin = sys.modules.get("firebase_admin")
    # firebase-admin has no other list of them.
    return {} if firebase_admin is None else dict(cast("dict[str, Any]", firebase_admin._apps))


def delete_firebase_apps() -> None:
    """Delete them all, so that none decides which database another test is given."""
    for app in firebase_apps().values():
        sys.modules["firebase_admin"].delete_app(app)


@pytest.fixture
def make_app(rtdb: Rtdb) -> Iterator[MakeApp]:
    """Makes apps of the test's database (or of another `databaseURL`), and deletes them after the test."""
    import firebase_admin  # where a run needs no app, it isn't loaded

    made: list[App] = []

    def make(url: str | None = None, **options: object) -> App:
        name = f"{rtdb.namespace}-{len(made)}"
        app = firebase_admin.initialize_app(options={"databaseURL": url or rtdb.url, **options}, name=name)
        made.append(app)
        return app

    yield make
    for app in made:
        firebase_admin.delete_app(app)
