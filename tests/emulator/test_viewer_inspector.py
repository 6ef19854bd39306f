"""One open page, kept up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest
from tests.emulator.sockets import socket_client
from tests.emulator.test_rest_wire import call

from rtdb_emulator.database import ADMIN, Access
from rtdb_emulator.errors import BadRequest
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator.store import Operation, Store
from rtdb_emulator.viewer import MOST_WINDOWS, Inspector, Json

LOCKS = {"show": {"w": {"path": "/cron-locks", "start": None}}}


class Page:
    """An inspector, and what it has sent."""

    def __init__(self) -> None:
        self.store = Store(lambda: 0)
        self.database = self.store.database("shop")
        self.states: asyncio.Queue[Json] = asyncio.Queue()
        self.inspector = Inspector(self.store, self.database, self.states.put_nowait)

    async def next(self) -> Json:
        """The next state, which the page then has seen."""
        state = await asyncio.wait_for(self.states.get(), 10)
        self.inspector.receive({"seen": state["state"]})
        return state

    def write(self, path: str, value: object) -> None:
        self.database.write(tuple(path.strip("/").split("/")), value, ADMIN)


Scene: TypeAlias = Callable[[Page], Awaitable[None]]


def operations(state: Json) -> list[Json]:
    found = state["operations"]
    assert isinstance(found, list)
    return found


def play(scene: Scene) -> None:
    async def run() -> Page:
        page = Page()
        await scene(page)
        page.inspector.close()
        assert page.database.listeners == 0
        return page

    page = asyncio.run(run())
    # Nobody is told of what comes after the end: it would fail here, where the loop is closed.
    page.store.database("after").write((), 1, ADMIN)
    page.store.operations.add(lambda: Operation(0, "shop", "GET", "/", None, "allowed"))


def test_a_page_gets_what_it_shows_and_then_what_changes_there() -> None:
    """A write elsewhere sends it nothing."""

    async def scene(page: Page) -> None:
        page.write("/cron-locks/digest/slot", "a")
        assert (await page.next())["databases"] == ["shop"]
        page.inspector.receive(LOCKS)
        rows = [{"key": "digest", "count": 1, "peek": [("slot", "a")]}]
        assert (await page.next())["windows"] == {
            "w": {"count": 1, "peek": [], "first": 0, "rows": rows, "previous": None, "next": None, "last": None}
        }
        page.write("/elsewhere", 1)
        page.write("/cron-locks", None)
        assert await page.next() == {"state": 3, "windows": {"w": {"value": None}}}

    play(scene)


def test_a_page_that_has_not_seen_a_state_gets_no_other() -> None:
    """However much is written meanwhile, one state waits, and it is the newest."""

    async def scene(page: Page) -> None:
        page.inspector.receive({"show": {"w": {"path": "/n", "start": None}}})
        first = await page.states.get()
        for number in range(1000):
            page.write("/n", number)
        for _ in range(10):
            await asyncio.sleep(0)
        assert page.states.empty()
        page.inspector.receive({"seen": first["state"]})
        assert (await page.next())["windows"] == {"w": {"value": 999}}
        assert page.states.empty()

    play(scene)


def test_writes_of_another_thread_are_seen() -> None:
    """A test writes from its own."""

    async def scene(page: Page) -> None:
        page.inspector.receive({"show": {"w": {"path": "/n", "start": None}}})
        await page.next()
        await asyncio.to_thread(page.write, "/n", 1)
        while (await page.next()).get("windows") != {"w": {"value": 1}}:
            pass

    play(scene)


def test_databases_come_and_go() -> None:
    """The list is sent when it is another one."""

    async def scene(page: Page) -> None:
        await page.next()
        page.store.database("other").write((), 1, ADMIN)
        assert (await page.next())["databases"] == ["other"]
        page.store.drop("other")
        assert (await page.next())["databases"] == []

    play(scene)


def test_operations_of_the_page_s_own_database_are_sent_once() -> None:
    """Each has its verdict; those of another database are left out."""

    def operation(namespace: str) -> Callable[[], Operation]:
        return lambda: Operation(0, namespace, "PUT", "/a", Access(admin=False), "allowed")

    async def scene(page: Page) -> None:
        page.store.operations.add(operation("shop"))
        page.store.operations.add(operation("other"))
        page.store.operations.add(operation("shop"))
        first, second = operations(await page.next())
        assert (first["number"], second["number"]) == (1, 3)
        assert (first["how"], first["path"], first["who"], first["verdict"]) == (
            "PUT",
            "/a",
            "a client not signed in",
            "allowed",
        )
        page.store.operations.add(operation("shop"))
        assert [row["number"] for row in operations(await page.next())] == [4]

    play(scene)


def test_what_no_page_asks_is_refused() -> None:
    """Unknown messages, and more windows than a page has."""

    async def scene(page: Page) -> None:
        many = {str(number): {"path": "/", "start": None} for number in range(MOST_WINDOWS + 1)}
        messages: list[Json] = [
            {},
            {"show": 1},
            {"show": {"w": {}}},
            {"show": many},
            {"show": {"w": {"path": "/$"}}},
            {"read": 1},
        ]
        for message in messages:
            with pytest.raises(BadRequest):
                page.inspector.receive(message)

    play(scene)


def test_a_value_is_read_whole() -> None:
    """With the hash that a conditional write needs."""

    async def scene(page: Page) -> None:
        page.write("/a/b", 1)
        answer = page.inspector.receive({"read": "/a"})
        assert answer == {"text": '{\n  "b": 1\n}', "hash": page.database.root.child("a").hash}

    play(scene)


def test_looking_on_is_no_operation_and_no_request(rtdb: Rtdb) -> None:
    """And only an administrator may."""
    with socket_client(rtdb.emulator, rtdb.namespace) as socket:
        assert socket.ask("inspect", show={}) == ("permission_denied", "Permission denied")
        socket.ask("gauth", cred="owner")
        operations = rtdb.emulator.operations.since(0)
        show = {"w": {"path": "/", "start": None}}
        assert socket.ask("inspect", show=show) == ("ok", {})
        assert socket.ask("inspect", read="/") == ("ok", {"text": "null", "hash": ""})
        assert socket.ask("inspect", nonsense=1)[0] == "failed"
        call(rtdb, "GET", "/", headers={"accept": "text/html"})
        call(rtdb, "GET", "/.inspect/databases.json")
        assert [request.method for request in tuple(rtdb.emulator.requests)[-3:]] == ["GAUTH", "GET", "GET"]
        assert rtdb.emulator.operations.since(0)[-1:] == operations[-1:]
        assert rtdb.emulator.listeners(rtdb.namespace) == 1
        socket.ask("unauth")
        assert rtdb.emulator.listeners(rtdb.namespace) == 0
