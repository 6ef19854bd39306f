"""The fixtures of the tests of messages about jobs; named in the module's `pytest_plugins`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.process.channel_server import BOUND, ChannelServer, channel_server
from tests.process.notifying import Fleet

from firecron import outbox


@pytest.fixture(scope="module")
def started() -> Iterator[ChannelServer]:
    with channel_server() as made:
        yield made


@pytest.fixture
def server(started: ChannelServer, production: None) -> ChannelServer:
    """The channels, which have got nothing yet and behave well."""
    for kept in (started.posted, started.reached, started.replies, started.bad):
        kept.clear()
    return started


@pytest.fixture
def production(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process speaks, and hurries."""
    monkeypatch.setenv("RUNTIME_INSTANCE", "production")
    monkeypatch.setattr(outbox, "PAUSE", 0.0)
    monkeypatch.setattr(outbox, "LAST_MOMENTS", 2 * BOUND)


@pytest.fixture
def fleet(server: ChannelServer) -> Iterator[Fleet]:
    made = Fleet(server)
    yield made
    for instance in made.instances:
        instance.end()
