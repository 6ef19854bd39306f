"""Functions that writes trigger: which, with what, and how they are called. `firebase` has the real ones."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from typing import Any

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from rtdb_emulator import Emulator
from rtdb_emulator.database import ADMIN, Access, Commit, Database
from rtdb_emulator.functions import Call, Functions, places
from rtdb_emulator.paths import split_path
from rtdb_emulator_tests.helpers.sockets import PATIENCE, socket_client, until

OWNER = {"Authorization": "Bearer owner"}
NOW = 1_700_000_000_000
TRIGGERS = ".settings/functionTriggers.json"


class Commits:
    """Remembers the commits of a database."""

    watching = 0

    def __init__(self) -> None:
        self.all: list[Commit] = []

    def committed(self, commit: Commit) -> None:
        self.all.append(commit)

    def rules_changed(self) -> None: ...


def commit(before: object, *writes: tuple[str, object], access: Access = ADMIN) -> Commit:
    """The commit of one PATCH of the root, or of a PUT for one write."""
    database, commits = Database("shop", lambda: NOW), Commits()
    database.write((), before, ADMIN)
    with database.listening(commits):
        if len(writes) == 1:
            [(place, value)] = writes
            database.write(split_path(place), value, access)
        else:
            database.update((), dict(writes), access)
    return commits.all[0]


def second(kind: str, path: str = "/orders/{order}", databases: str = "shop", region: str = "us-central1") -> object:
    """A function of the second generation, as the CLI registers it."""
    name = f"projects/demo/locations/{region}/triggers/{region}-f-0"
    event = f"google.firebase.database.ref.v1.{kind}"
    return {"name": name, "path": path.lstrip("/"), "event": event, "topic": "t", "namespacePattern": databases}


def first(kind: str, path: str = "/orders/{order}") -> object:
    """One of the first generation."""
    event = f"providers/google.firebase.database/eventTypes/ref.{kind}"
    return {"name": "projects/demo/locations/_/functions/us-central1-g-0", "path": path, "event": event, "topic": "t"}


def calls(function: object, written: Commit, database: str = "shop") -> list[Call]:
    """What this write makes of this function."""
    functions = Functions(lambda: NOW)
    functions.register(function, "shop" if "namespacePattern" not in str(function) else None, anew=False)
    functions.attach(lambda: None)
    functions.committed(database, written)
    return functions.next_calls() or []


SHOP = {"orders": {"a": {"total": 1, "tags": {"x": True}}, "b": {"total": 2}}, "open": True}


@pytest.mark.parametrize(
    ("pattern", "writes", "expected"),
    [
        # At the place, below it, and above it.
        ("/orders/{o}", [("/orders/a", 5)], ["orders/a"]),
        ("/orders/{o}", [("/orders/a/total", 5)], ["orders/a"]),
        ("/orders/{o}", [("/orders", {"a": 1, "b": {"total": 2}, "c": 1})], ["orders/a", "orders/c"]),
        ("/orders/{o}", [("/", None)], ["orders/a", "orders/b"]),
        ("/orders/{o}/total", [("/orders", None)], ["orders/a/total", "orders/b/total"]),
        ("/orders/{o}/tags/{t}", [("/orders/a/tags/y", 1)], ["orders/a/tags/y"]),
        # A literal, a star, and stars beside letters.
        ("/orders/b", [("/orders/a", 5)], []),
        ("/open", [("/open", False)], ["open"]),
        ("/orders/*/total", [("/orders/a/total", 9)], ["orders/a/total"]),
        ("/orders/{o=b*}", [("/orders", {"a": 1, "bb": 1})], ["orders/bb", "orders/b"]),
        # Elsewhere, or what changes nothing.
        ("/orders/{o}", [("/open", False)], []),
        ("/orders/{o}", [("/orders/a/total", 1)], []),
        ("/orders/{o}", [("/orders/a/.priority", 7)], []),
        # Several places of one PATCH, each once.
        ("/orders/{o}", [("orders/a/total", 3), ("orders/a/more", 4), ("orders/b", None)], ["orders/a", "orders/b"]),
        ("/", [("/open", False)], [""]),
    ],
)
def test_a_function_is_called_where_its_pattern_fits_a_change(
    pattern: str, writes: list[tuple[str, object]], expected: list[str]
) -> None:
    """Each path that the pattern stands for and whose value has changed is one call, in the order of the write."""
    segments = [segment for segment in pattern.split("/") if segment]
    assert ["/".join(path) for path in places(segments, commit(SHOP, *writes))] == expected


@pytest.mark.parametrize(
    ("write", "kinds"),
    [
        (("/orders/c", 1), {"created", "written"}),
        (("/orders/a/total", 2), {"updated", "written"}),
        (("/orders/a", None), {"deleted", "written"}),
    ],
)
def test_each_kind_of_event_has_its_functions(write: tuple[str, object], kinds: set[str]) -> None:
    """What was not there is created, what is gone is deleted, and whatever has happened is written."""
    names = {"created": "create", "updated": "update", "deleted": "delete", "written": "write"}
    written = commit(SHOP, write)
    assert {kind for kind in names if calls(second(kind), written)} == kinds
    assert {kind for kind in names if calls(first(names[kind]), written)} == kinds


def test_a_cloud_event_has_what_the_second_generation_reads() -> None:
    """The database, the path, the value before and the change, and the address of the function."""
    user = Access(admin=False, auth={"uid": "ann", "token": {}})
    [call] = calls(second("written"), commit(SHOP, ("/orders/a", {"total": 2, "new": {"n": 1}}), access=user))
    assert call.target == "/functions/projects/demo/triggers/us-central1-f-0"
    assert call.content_type.startswith("application/cloudevents+json")
    event = json.loads(call.body)
    assert event.pop("id")
    assert event.pop("data") == {
        "@type": "type.googleapis.com/google.events.firebase.database.v1.ReferenceEventData",
        "data": {"total": 1, "tags": {"x": True}},
        "delta": {"total": 2, "tags": None, "new": {"n": 1}},
    }
    assert event == {
        "specversion": "1.0",
        "type": "google.firebase.database.ref.v1.written",
        "time": "2023-11-14T22:13:20.000Z",
        "source": "//firebasedatabase.googleapis.com/projects/_/locations/us-central1/instances/shop",
        "subject": "refs/orders/a",
        "datacontenttype": "application/json",
        "location": "us-central1",
        "instance": "shop",
        "ref": "orders/a",
        "firebasedatabasehost": "firebaseio.com",
        "authtype": "app_user",
        "authid": "ann",
    }


def test_a_background_event_has_what_the_first_generation_reads() -> None:
    """The resource, the parameters, who wrote, the value before and the change."""
    user = Access(admin=False, auth={"uid": "ann", "token": {"sub": "ann"}})
    [call] = calls(first("write"), commit(SHOP, ("/orders/a/total", 2), access=user))
    assert call.target == "/functions/projects/demo/triggers/us-central1-g-0"
    event = json.loads(call.body)
    assert event["context"].pop("eventId")
    assert event == {
        "context": {
            "timestamp": "2023-11-14T22:13:20.000Z",
            "eventType": "providers/google.firebase.database/eventTypes/ref.write",
            "resource": {"service": "firebaseio.com", "name": "projects/_/instances/shop/refs/orders/a"},
            "params": {"order": "a"},
            "auth": {"admin": False, "variable": {"uid": "ann", "token": {"sub": "ann"}}},
        },
        "data": {"data": {"total": 1, "tags": {"x": True}}, "delta": {"total": 2}},
    }


@pytest.mark.parametrize(
    ("access", "second_says", "first_says"),
    [
        (ADMIN, {"authtype": "admin"}, {"admin": True}),
        (Access(admin=False), {"authtype": "unauthenticated"}, {"admin": False}),
    ],
)
def test_who_wrote_is_told(access: Access, second_says: dict[str, str], first_says: dict[str, object]) -> None:
    """An administrator, or nobody who has signed in."""
    written = commit(SHOP, ("/orders/c", 1), access=access)
    [modern], [old] = calls(second("created"), written), calls(first("create"), written)
    assert json.loads(modern.body).items() >= second_says.items()
    assert "authid" not in json.loads(modern.body)
    assert json.loads(old.body)["context"]["auth"] == first_says


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "x"]),
    lambda inner: st.dictionaries(st.sampled_from(["a", "b", "0", "1"]), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, VALUES)
def test_the_change_of_a_value_leads_to_the_new_one(before: object, after: object) -> None:
    """Put together as `firebase-functions` does, the old value and the change are what is in the database."""
    written = commit({"x": before, "keep": 1}, ("/x", after))
    for call in calls(second("written", "/x"), written):
        data = json.loads(call.body)["data"]
        assert typed(applied(data["data"], data["delta"])) == typed(as_stored(after))


def typed(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def as_stored(value: object) -> object:
    """The value without what the database doesn't keep: nulls and empty objects."""
    if not isinstance(value, dict):
        return value
    kept = {key: as_stored(inner) for key, inner in value.items()}
    return {key: inner for key, inner in kept.items() if inner is not None} or None


def applied(old: object, change: object) -> object:
    """What `applyChange` of `firebase-functions` returns."""
    if not isinstance(old, dict) or not isinstance(change, dict):
        return change
    merged = {key: applied(old.get(key), value) for key, value in change.items() if value is not None}
    return {**{key: value for key, value in old.items() if key not in change}, **merged}


@pytest.mark.parametrize(
    ("function", "database", "count"),
    [
        (second("created", databases="shop"), "other", 0),
        (second("created", databases="*"), "other", 1),
        (second("created", databases="sh*"), "shop", 1),
        (first("create"), "other", 0),
        (second("created", region="europe-west1"), "shop", 0),
        (second("created", "/orders/{rest=**}"), "shop", 0),
        (second("createdWithAuthContext"), "shop", 0),
    ],
)
def test_a_function_is_for_some_databases_and_events(function: object, database: str, count: int) -> None:
    """Those that its pattern matches. One in a region that has no emulated database, for an event or a path that is not
    known here, is never called.
    """
    assert len(calls(function, commit(SHOP, ("/orders/c", 1)), database)) == count


# --- with a server that is called


class Server:
    """Plays the functions emulator: `heard` has what it is called with; `answer` may wait, and says the status."""

    def __init__(self) -> None:
        self.heard: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        self.answer: Callable[[Any], int] = lambda event: 200

        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                event = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.heard.put((self.path.rpartition("/")[2], event))
                self.send_response(outer.answer(event))
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *arguments: object) -> None: ...

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.http.server_address[1]}"

    def refs(self, count: int) -> list[str]:
        """The places of the next events."""
        return [self.heard.get(timeout=PATIENCE)[1]["ref"] for _ in range(count)]


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    thread = threading.Thread(target=server.http.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.http.shutdown()
        thread.join()
        server.http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Server()) as server:
        yield server


@pytest.fixture
def emulator(server: Server) -> Iterator[Emulator]:
    with Emulator(functions=server.address) as emulator:
        yield emulator


def ask(emulator: Emulator, method: str, target: str, data: object = None) -> requests.Response:
    body = json.dumps(data)
    return requests.request(method, f"{emulator.url}/{target}", data=body, headers=OWNER, timeout=PATIENCE)


def test_every_kind_of_write_calls_functions(emulator: Emulator, server: Server) -> None:
    """Over REST and a socket, in process, and when a client disconnects; one with `disableTriggers` calls none."""
    assert ask(emulator, "POST", TRIGGERS, second("written")).json() == {"status": "ok"}
    ask(emulator, "PUT", "orders/import.json?ns=shop&disableTriggers=true", 1)
    ask(emulator, "PUT", "orders/rest.json?ns=shop", 1)
    ask(emulator, "PATCH", "orders.json?ns=shop", {"patch": 1})
    emulator.set("shop", "/orders/process", 1)
    with socket_client(emulator, "shop") as client:
        client.ask("p", p="/orders/socket", d=1)
        client.ask("o", p="/orders/gone", d=1)
    expected = ["rest", "patch", "process", "socket", "gone"]
    assert sorted(server.refs(5)) == sorted(f"orders/{name}" for name in expected)
    assert server.heard.empty()


def test_functions_are_listed_replaced_and_forgotten(emulator: Emulator, server: Server) -> None:
    """POST adds or replaces one of the same name, GET lists them, and PUT leaves those of the request alone."""
    ask(emulator, "POST", TRIGGERS, second("written", "/before"))
    ask(emulator, "POST", TRIGGERS, second("written", "/orders/{o}"))
    ask(emulator, "POST", f"{TRIGGERS}?ns=shop", first("write"))
    listed = ask(emulator, "GET", TRIGGERS).json()["functionTriggers"]
    assert [(one["path"], one["namespacePattern"]) for one in listed] == [
        ("orders/{o}", "shop"),
        ("/orders/{order}", "shop"),
    ]
    ask(emulator, "PUT", TRIGGERS, {"functionTriggers": [second("created", "/only")]})
    assert [one["path"] for one in ask(emulator, "GET", TRIGGERS).json()["functionTriggers"]] == ["only"]
    ask(emulator, "PUT", TRIGGERS, [])
    emulator.set("shop", "/only", 1)
    ask(emulator, "POST", TRIGGERS, second("created", "/end"))
    emulator.set("shop", "/end", 1)
    assert server.refs(1) == ["end"]
    assert ask(emulator, "DELETE", TRIGGERS).status_code == 405


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "A function has the texts name, path and event"),
        ([{"name": "f", "path": 1, "event": "e"}], "A function has the texts name, path and event"),
        ({"name": "f", "path": "/", "event": "e"}, "name 'f' isn't projects/"),
        ({"name": "f", "path": "/", "event": "e", "namespacePattern": 1}, "namespacePattern is a text"),
    ],
)
def test_what_is_no_function_is_refused(emulator: Emulator, body: object, said: str) -> None:
    """The error says what is wrong, and nothing is registered."""
    response = ask(emulator, "POST", TRIGGERS, body)
    assert response.status_code == 400
    assert said in response.json()["error"]
    assert ask(emulator, "GET", TRIGGERS).json() == {"functionTriggers": []}


def test_functions_run_side_by_side(emulator: Emulator, server: Server) -> None:
    """One that waits for another doesn't hold that one up."""
    both = threading.Barrier(2, timeout=PATIENCE)

    def answer(event: Any) -> int:
        both.wait()
        return 200

    server.answer = answer
    ask(emulator, "POST", TRIGGERS, second("written"))
    emulator.set("shop", "/orders/a", 1)
    emulator.set("shop", "/orders/b", 1)
    assert sorted(server.refs(2)) == ["orders/a", "orders/b"]


def test_no_write_is_forgotten(emulator: Emulator, server: Server) -> None:
    """Two threads write while the calls for other writes are made: each write is one call."""
    ask(emulator, "POST", TRIGGERS, second("written"))

    def write(name: str) -> None:
        for number in range(100):
            emulator.set("shop", f"/orders/{name}{number}", 1)

    writers = [threading.Thread(target=write, args=(name,)) for name in "ab"]
    for writer in writers:
        writer.start()
    assert sorted(server.refs(200)) == sorted(f"orders/{name}{n}" for name in "ab" for n in range(100))
    for writer in writers:
        writer.join()


@pytest.mark.parametrize(("status", "level"), [(500, logging.WARNING), (404, logging.INFO)])
def test_a_function_that_fails_is_a_line(
    emulator: Emulator, server: Server, caplog: pytest.LogCaptureFixture, status: int, level: int
) -> None:
    """The log names it, and the next event is sent as usual. One that the CLI no longer has is no warning."""
    caplog.set_level(logging.INFO, "rtdb_emulator")
    server.answer = lambda event: status if event["ref"] == "orders/a" else 200
    ask(emulator, "POST", TRIGGERS, second("written"))
    emulator.set("shop", "/orders/a", 1)
    [record] = until(lambda: [one for one in caplog.records if "us-central1-f-0" in one.getMessage()])
    assert record.levelno == level
    emulator.set("shop", "/orders/b", 1)
    assert server.refs(2) == ["orders/a", "orders/b"]


def test_functions_that_nobody_answers_for_are_a_line(caplog: pytest.LogCaptureFixture) -> None:
    """The log says so, without the address of the functions emulator and with one where nothing listens. The writes are
    done.
    """
    for address, said in ((None, "--functions HOST:PORT"), ("127.0.0.1:1", "the functions emulator at 127.0.0.1:1")):
        with Emulator(functions=address) as emulator:
            ask(emulator, "POST", TRIGGERS, second("written"))
            emulator.set("shop", "/orders/a", 1)
            until(lambda: said in caplog.text)  # noqa: B023 (it is called here)
            assert emulator.get("shop") == {"orders": {"a": 1}}


def test_stopping_gives_up_what_runs(server: Server) -> None:
    """`stop` waits for no function, and a function of the time before is called after the next start."""
    goes_on = threading.Event()

    def answer(event: Any) -> int:
        goes_on.wait(PATIENCE)
        return 200

    server.answer = answer
    emulator = Emulator(functions=server.address).start()
    ask(emulator, "POST", TRIGGERS, second("written"))
    emulator.set("shop", "/orders/a", 1)
    assert server.refs(1) == ["orders/a"]
    emulator.stop()
    assert not goes_on.is_set()
    goes_on.set()
    emulator.start()
    emulator.set("shop", "/orders/b", 1)
    assert server.refs(1) == ["orders/b"]
    emulator.stop()
