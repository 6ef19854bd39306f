"""The emulator's page: its files, its windows, and what an open page is sent."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from importlib.resources import files

import pytest

from rtdb_emulator.database import ADMIN, Access
from rtdb_emulator.errors import BadRequest
from rtdb_emulator.jsondata import parse
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator.store import Operation, Store
from rtdb_emulator.viewer import LARGEST_VALUE, LONGEST_TEXT, MOST_WINDOWS, ROWS, Inspector, Json, whole, window
from rtdb_emulator_tests.helpers.sockets import socket_client
from rtdb_emulator_tests.helpers.wire import call

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


def operations(state: Json) -> list[Json]:
    found = state["operations"]
    assert isinstance(found, list)
    return found


def played(scene: Callable[[Page], Awaitable[None]]) -> Callable[[], None]:
    """A test that plays the scene on a page, to its end."""

    def test() -> None:
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

    test.__doc__ = scene.__doc__
    return test


@played
async def test_a_page_gets_what_it_shows_and_then_what_changes_there(page: Page) -> None:
    """A write elsewhere sends it nothing."""
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


@played
async def test_a_page_that_has_not_seen_a_state_gets_no_other(page: Page) -> None:
    """However much is written meanwhile, one state waits, and it is the newest."""
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


@played
async def test_writes_of_another_thread_are_seen(page: Page) -> None:
    """A test writes from its own."""
    page.inspector.receive({"show": {"w": {"path": "/n", "start": None}}})
    await page.next()
    await asyncio.to_thread(page.write, "/n", 1)
    while (await page.next()).get("windows") != {"w": {"value": 1}}:
        pass


@played
async def test_databases_come_and_go(page: Page) -> None:
    """The list is sent when it is another one."""
    await page.next()
    page.store.database("other").write((), 1, ADMIN)
    assert (await page.next())["databases"] == ["other"]
    page.store.drop("other")
    assert (await page.next())["databases"] == []


@played
async def test_operations_of_the_page_s_own_database_are_sent_once(page: Page) -> None:
    """Each has its verdict; those of another database are left out."""

    def operation(namespace: str) -> Callable[[], Operation]:
        return lambda: Operation(0, namespace, "PUT", "/a", Access(admin=False), "allowed")

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


@played
async def test_what_no_page_asks_is_refused(page: Page) -> None:
    """Unknown messages, and more windows than a page has."""
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


@played
async def test_a_value_is_read_whole(page: Page) -> None:
    """With the hash that a conditional write needs."""
    page.write("/a/b", 1)
    answer = page.inspector.receive({"read": "/a"})
    assert answer == {"text": '{\n  "b": 1\n}', "hash": page.database.root.child("a").hash}


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


def of(data: object, start: str | None = None) -> Json:
    return window(parse(data, now=0), start)


def rows(shown: Json) -> list[Json]:
    found = shown["rows"]
    assert isinstance(found, list)
    return found


def keys(shown: Json) -> list[object]:
    return [row["key"] for row in rows(shown)]


MANY = {f"key-{number:04}": number for number in range(250)}


def test_a_window_has_so_many_rows_and_leads_to_those_beside_it() -> None:
    """The first one leads to the second and the last, the last one back."""
    first = of(MANY)
    assert (first["count"], first["first"], len(keys(first))) == (250, 0, ROWS)
    assert (first["previous"], first["next"], first["last"]) == (None, "key-0100", "key-0200")
    last = of(MANY, "key-0200")
    assert (last["first"], len(keys(last))) == (200, 50)
    assert (last["previous"], last["next"], last["last"]) == ("key-0100", None, None)


def test_a_window_begins_at_the_first_key_that_is_not_before_its_start() -> None:
    """The start need not be there, and may come after all keys."""
    assert keys(of(MANY, "key-0009x"))[0] == "key-0010"
    assert (keys(of(MANY, "zzz")), of(MANY, "zzz")["previous"]) == ([], "key-0150")


def test_keys_are_in_the_databases_order() -> None:
    """Integers come first, by their number."""
    assert keys(of({"10": 1, "9": 1, "b": 1, "a": 1})) == ["9", "10", "a", "b"]
    assert keys(of({"10": 1, "9": 1, "b": 1, "a": 1}, "10")) == ["10", "a", "b"]


def test_an_object_shows_its_leaves_and_no_more_of_what_lies_below() -> None:
    """A row of an object has the number of its children and a few values."""
    (row,) = rows(of({"job": {"slot": "x" * 60, "paused": True, "below": {"a": 1}}}))
    assert row == {"key": "job", "count": 3, "peek": [("paused", True), ("slot", "x" * 48 + "…")]}


def test_a_row_is_bounded() -> None:
    """A long text is cut, and says how long it is; an object with many children shows none of them."""
    shown = of({"long": "x" * (LONGEST_TEXT + 1), "many": MANY})
    long, many = rows(shown)
    assert (long["value"], long["length"]) == ("x" * LONGEST_TEXT + "…", LONGEST_TEXT + 1)
    assert many == {"key": "many", "count": 250, "peek": []}


def test_a_leaf_and_nothing_have_no_rows() -> None:
    """They are a value, and null."""
    assert of({".value": 1, ".priority": "p"}) == {"value": 1, "priority": "p"}
    assert of(None) == {"value": None}


def test_an_integer_that_a_browser_would_round_is_a_text_as_well() -> None:
    """2^53 + 1 is no double."""
    assert of(2**53 + 1) == {"value": 2**53 + 1, "exactly": "9007199254740993"}
    assert of(2**53) == {"value": 2**53}


@pytest.mark.parametrize("data", [None, 2**53 + 1, "a", {".value": 1, ".priority": 2}, {"1": True, "0": "é"}])
def test_a_whole_value_reads_back_as_itself(data: object) -> None:
    """Its text is its export, with its hash."""
    node = parse(data, now=0)
    shown = whole(node)
    assert isinstance(shown["text"], str)
    assert parse(json.loads(shown["text"]), now=0) == node
    assert shown["hash"] == node.hash


def test_a_large_value_is_not_sent_whole() -> None:
    """More leaves than an editor can show are counted only."""
    most = {"a": {f"k{number}": 1 for number in range(LARGEST_VALUE)}}
    assert "text" in whole(parse(most, now=0))
    assert whole(parse({**most, "b": 1}, now=0)) == {"count": 2}


BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
NAMES = sorted(file.name for file in files("rtdb_emulator.viewer").joinpath("static").iterdir())
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
)


def test_a_browser_gets_the_page_and_everybody_else_what_they_got(rtdb: Rtdb) -> None:
    """What accepts HTML is a browser."""
    page = call(rtdb, "GET", "/", headers=BROWSER)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for headers in ({}, {"accept": "*/*"}, {"accept": "application/json"}):
        assert call(rtdb, "GET", "/", headers=headers).text == "rtdb-emulator is ready\n"
    assert call(rtdb, "GET", "/.json", headers=BROWSER).json() is None
    assert call(rtdb, "GET", "/a", headers=BROWSER).status_code == 404


def test_the_page_lets_nobody_else_in(rtdb: Rtdb) -> None:
    """No script, style, frame or connection of another origin; nothing is kept."""
    headers = call(rtdb, "GET", "/?path=/a", headers=BROWSER).headers
    assert headers["content-security-policy"] == POLICY
    assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_served_with_its_type(rtdb: Rtdb, name: str) -> None:
    """And with the policy of the page."""
    file = call(rtdb, "GET", f"/.inspect/viewer/{name}")
    kinds = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    assert file.status_code == 200
    assert file.headers["content-type"].startswith(kinds[name.rpartition(".")[2]])
    assert file.headers["content-security-policy"] == POLICY


def test_nothing_else_is_served(rtdb: Rtdb) -> None:
    """Neither a file beside the page's, nor a way out of their folder."""
    for path in ("viewer.py", "", "../viewer.js", "..%2f__init__.py", "static/viewer.js"):
        assert call(rtdb, "GET", f"/.inspect/viewer/{path}").status_code == 404
    assert call(rtdb, "PUT", "/.inspect/viewer/viewer.js", "1").status_code == 404


def test_the_page_is_small_and_makes_no_markup_of_data() -> None:
    """All of it has at most 60 KB, in scripts that set texts only, and load nothing from elsewhere."""
    contents = {
        file.name: file.read_text("utf-8") for file in files("rtdb_emulator.viewer").joinpath("static").iterdir()
    }
    assert sum(len(text.encode()) for text in contents.values()) <= 60_000
    for name, text in contents.items():
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|style=|https?://(?!www\.w3\.org/2000/svg)",
            text,
        ), name
