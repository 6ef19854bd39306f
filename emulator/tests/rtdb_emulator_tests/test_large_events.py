"""What a large commit changes is found out after it, in slices: the same is said, in the same order."""

from __future__ import annotations

import asyncio
import json
import random
from collections import deque
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from rtdb_emulator import Emulator, large, table
from rtdb_emulator.database import ADMIN, Database
from rtdb_emulator.http import sse
from rtdb_emulator.http.sse import Event, Subscription, View
from rtdb_emulator.jsondata import parse, render
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator.query import arranging, parse_query
from rtdb_emulator.steps import Later, at_once, in_slices, made_in_slices
from rtdb_emulator.tree import Node, Path, comparing
from rtdb_emulator.ws import listens as ws_listens
from rtdb_emulator.ws import server, session
from rtdb_emulator.ws.listens import Listens
from rtdb_emulator.ws.messages import Message, Request
from rtdb_emulator.ws.session import Session
from rtdb_emulator_tests.helpers.sockets import PATIENCE, socket_client, until
from rtdb_emulator_tests.helpers.wire import call, stream
from rtdb_emulator_tests.test_large_reads import RULES, Served
from rtdb_emulator_tests.test_stream_events import Commits
from rtdb_emulator_tests.test_ws_fresh_listeners import FORMS, INDEXED, PLACE, Form, _write

_DONE = object()


class Slow:
    """A session with one listen, whose messages are made a step at a time."""

    def __init__(self, listens: Listens, asked: Form | None) -> None:
        self.heard: list[str] = []
        self.messages: deque[Message] = deque()
        self._steps: Iterator[None] | None = None
        self._session = Session(listens, self.send, lambda: pytest.fail("nothing inspects"))
        listen = {"p": "/l", "h": ""} if asked is None else {"p": "/l", "q": asked, "t": 1, "h": ""}
        assert self._session.handle(Request(1, "q", listen)).status == "ok"

    def send(self, message: Message) -> None:
        self.messages.append(message)

    def step(self) -> bool:
        """Do a step for the oldest message. Return whether there was one."""
        if not self.messages:
            return False
        if self._steps is None:
            self._steps = self.messages[0].making() if self.messages[0].is_long else iter(())
        if next(self._steps, _DONE) is _DONE:
            self._steps = None
            if text := self.messages.popleft().text:
                self.heard.append(text)
        return True

    def finish(self) -> list[str]:
        while self.step():
            pass
        return self.heard

    def leave(self) -> None:
        at_once(self._session.ending(writes=False))


@pytest.mark.parametrize("seed", [1])
def test_what_is_found_out_later_is_the_same(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Listeners that hear of commits in steps, while others write, come and go, hear what others hear at once."""
    chance = random.Random(seed)
    is_later = [False]
    monkeypatch.setattr(ws_listens, "takes_long", lambda place, commit: is_later[0] and chance.random() < 0.5)
    monkeypatch.setattr(ws_listens, "STEP", 1)
    monkeypatch.setattr(table, "SMALL", 2)
    databases = [Database("demo", lambda: 1, INDEXED) for _ in range(2)]
    works: list[Generator[object, None, object]] = []
    rooms = [Listens(databases[0]), Listens(databases[1], works.append)]
    forms: dict[str, Form | None] = {"no query": None, **FORMS}
    here: list[tuple[str, list[Slow]]] = [
        (name, [Slow(room, form) for room in rooms]) for name, form in forms.items() for _ in range(2)
    ]
    gone = []
    for step in range(30):
        written = chance.random()
        for number, database in enumerate(databases):
            is_later[0] = number == 1
            _write(random.Random(written), database)
        is_later[0] = False
        for _ in range(chance.randrange(60)):
            chance.choice(here)[1][1].step()
        if chance.random() < 0.3:
            next(chance.choice(works), None) if works else None
        if chance.random() < 0.5:
            left = here.pop(chance.randrange(len(here)))
            for client in left[1]:
                client.leave()
            gone.append(left)
        if chance.random() < 0.5:
            name = chance.choice([*forms])
            here.append((name, [Slow(room, forms[name]) for room in rooms]))
        if step % 10 == 9:
            for name, (prompt, slow) in here + gone:
                assert slow.finish() == prompt.finish(), f"seed {seed}, write {step}, {name}"


def test_a_window_goes_on_where_nobody_takes_its_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that takes nothing leaves no commit waiting: the emulator's own work finds out what it says."""
    monkeypatch.setattr(ws_listens, "takes_long", lambda place, commit: True)
    database = Database("demo", lambda: 1, INDEXED)
    works: list[Generator[object, None, object]] = []
    client = Slow(Listens(database, works.append), FORMS["key, first two"])
    database.write(PLACE, {"a": 1, "b": 2}, ADMIN)
    database.write(PLACE, {"b": 2}, ADMIN)
    for work in reversed(works):
        at_once(work)
    monkeypatch.setattr(ws_listens, "takes_long", lambda place, commit: False)
    database.write((*PLACE, "c"), 3, ADMIN)
    assert [message.is_long for message in client.messages] == [False, True, True, False]
    shown = [json.loads(text)["d"]["b"]["d"] for text in client.finish()]
    assert shown == [None, {"a": 1, "b": 2}, None, 3]


VIEWS = {
    "a node": View(PLACE),
    "below it": View((*PLACE, "a")),
    "above it": View(()),
    **{
        f"{order}, {limit}": View(PLACE, parse_query({"orderBy": f'"{order}"', **limit}))
        for order in ("$key", "$value", "$priority", "s", "d/n")
        for limit in ({"limitToFirst": "2"}, {"startAt": '"a"'})
    },
}


@pytest.mark.parametrize("seed", [1])
def test_large_events_are_the_same(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """A stream's events, made in steps and as pieces of JSON, are those that are made at once."""
    chance = random.Random(seed)
    database = Database("demo", lambda: 1, INDEXED)
    recorder = Commits()
    with database.listening(recorder):
        for _ in range(30):
            _write(chance, database)
    for name, view in VIEWS.items():
        at_once_ = [_said(view.events(commit)) for commit in recorder.heard]
        with monkeypatch.context() as patch:
            patch.setattr(large, "LARGE", chance.choice([1, 4, 8]))
            patch.setattr(large, "WEIGHT", 2)
            patch.setattr(sse, "STEP", 1)
            in_pieces = [
                _said(event for event in view.following(commit) if event is not None) for commit in recorder.heard
            ]
            assert at_once_ == in_pieces, f"seed {seed}, {name}"


def _said(events: Any) -> list[tuple[str, str, object]]:
    def data(event: Event) -> object:
        return json.loads(b"".join(event.data)) if isinstance(event.data, Iterator) else event.data

    return [(event.name, event.path, data(event)) for event in events]


@pytest.mark.parametrize(
    ("where", "name", "step"), [(sse, "writing", b""), (Subscription, "_following", b"")], ids=["JSON", "events"]
)
def test_a_large_event_holds_nobody_up(
    rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch, where: Any, name: str, step: object
) -> None:
    """While a stream's large event is made, another client is served; the events behind it come after it."""
    served = Served()
    with stream(rtdb.emulator, rtdb.namespace, "/l.json") as listener:
        assert listener.event() == ("put", "/", None)
        monkeypatch.setattr(large, "LARGE", 4)
        monkeypatch.setattr(where, name, served.before(getattr(where, name), step))
        large_value = {"a": "text", "b": [1, 2]}
        try:
            rtdb.set("/l", large_value)
            assert served.begun.wait(PATIENCE)
            assert call(rtdb, "PUT", "/other.json", "1").json() == 1
        finally:
            served.ended.set()
        rtdb.set("/l/c", 1)
        frames = b""
        while not frames.endswith(b'"data":1}\n\n'):
            frames += listener.frame()
        put = b'event: put\ndata: {"path":"%s","data":%s}\n\n'
        assert frames == put % (b"/", json.dumps(large_value, separators=(",", ":")).encode()) + put % (b"/c", b"1")


def test_a_replaced_node_under_a_query_holds_nobody_up(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a query's new window is found out, another client is served; its writer's answer comes after the push."""
    rtdb.set_rules(RULES)
    served = Served()
    asked = {"i": "n", "l": 1, "vf": "r"}
    with socket_client(rtdb.emulator, rtdb.namespace) as client, socket_client(rtdb.emulator, rtdb.namespace) as other:
        client.listen("/l", q=asked, t=1)
        monkeypatch.setattr(large, "LARGE", 4)
        monkeypatch.setattr(ws_listens, "arranging", served.before(arranging, None))
        number = client.send("p", p="/l", d={"a": {"n": 1}, "b": {"n": 2}})
        try:
            assert served.begun.wait(PATIENCE)
            assert other.ask("p", p="/l/c", d={"n": 3}) == ("ok", "")
            new = other.send("q", p="/l", q=asked, t=1, h="")
        finally:
            served.ended.set()
        assert client.answer(number) == ("ok", "")
        assert client.push() == {"a": "d", "b": {"p": "l", "d": {"b": {"n": 2}}, "t": 1}}
        moved = client.push()["b"]
        assert (moved["p"], moved["d"]) == ("l", {"c": {"n": 3}})
        assert other.answer(new)[0] == "ok"
        assert [push["b"]["d"] for push in other.pushes] == [{"c": {"n": 3}}]


def _hold_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let slices of sessions' ends wait until the emulator stops."""

    async def never(steps: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(server, "in_slices", never)
    monkeypatch.setattr(session, "WRITES", 1)


MANY = {f"k{number}": number for number in range(20)}


def test_many_writes_of_one_client_hold_nobody_up(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are served between the onDisconnect writes of a client that is gone, and its listens are gone already."""
    _hold_up(monkeypatch)
    with socket_client(rtdb.emulator, rtdb.namespace) as client:
        client.ask("om", p="/l", d=MANY)
        client.ask("q", p="/l", h="")
    assert until(lambda: rtdb.get("/l")) == {"k0": 0}
    assert rtdb.emulator.listeners(rtdb.namespace) == 0
    assert call(rtdb, "PUT", "/other.json", "1").json() == 1
    assert rtdb.get("/l") == {"k0": 0}


@pytest.mark.parametrize("fault", [False, True])
def test_a_client_that_is_back_finds_all_its_writes(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch, fault: bool) -> None:
    """A connection that names its last session gets its hello after all onDisconnect writes, faults or not."""
    _hold_up(monkeypatch)
    with socket_client(rtdb.emulator, rtdb.namespace) as client:
        client.ask("om", p="/l", d=MANY)
    until(lambda: rtdb.get("/l"))
    if fault:
        rtdb.faults.delay(0.001, method="OPEN")
    with socket_client(rtdb.emulator, rtdb.namespace, ls=str(client.hello["s"])):
        assert rtdb.get("/l") == MANY


def test_a_stop_leaves_no_writes_half_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """The onDisconnect writes of a client that was gone before the emulator stops are all done."""
    _hold_up(monkeypatch)
    with Emulator() as emulator:
        with socket_client(emulator, "demo") as client:
            client.ask("om", p="/l", d=MANY)
        until(lambda: emulator.get("demo", "/l"))
    assert emulator.get("demo", "/l") == MANY


def test_works_take_turns() -> None:
    """However many works there are, others get the loop after one slice."""
    turns: list[str] = []
    ticks = iter(range(1_000))

    def work() -> Generator[None]:
        for _ in range(3):
            turns.append("work")
            yield

    async def other() -> None:
        while turns.count("work") < 12:
            turns.append("other")
            await asyncio.sleep(0)

    async def both() -> None:
        works = [in_slices(work(), clock=lambda: next(ticks)) for _ in range(4)]
        await asyncio.gather(other(), *works)

    asyncio.run(both())
    assert "work,work" not in ",".join(turns)


def test_bytes_made_in_slices_are_whole() -> None:
    """Pieces come together in larger ones, in order; a slice that makes none sends none."""
    pieces = [b"", b"a" * 70_000, b"", b"b", b"c"]
    ticks = iter(range(1_000))

    async def made(**clock: Any) -> list[bytes]:
        return [piece async for piece in made_in_slices(iter(pieces), **clock)]

    assert asyncio.run(made()) == [b"a" * 70_000, b"bc"]
    assert asyncio.run(made(clock=lambda: next(ticks))) == [b"a" * 70_000, b"b", b"c"]


def test_large_and_small_nodes_are_written_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The JSON of several nodes has each of them once, in their order, whatever their sizes."""
    monkeypatch.setattr(large, "LARGE", 4)
    monkeypatch.setattr(large, "WEIGHT", 2)
    values = {"a": 1, "b": "large text", "c": 2, "d": 3, "e": 4, "f": {"k": "large text"}, "g": None}
    nodes = [(key, parse(value, now=0)) for key, value in values.items()]
    assert json.loads(b"".join(large.writing_all(nodes, large.WIRE)), object_pairs_hook=list) == [
        *((key, value) for key, value in values.items() if key not in ("f", "g")),
        ("f", [("k", "large text")]),
        ("g", None),
    ]


def test_an_error_in_a_step_reaches_all_that_wait() -> None:
    """None of those who make a value together takes an error for a value."""

    def steps() -> Generator[None, None, str]:
        yield
        raise ValueError("broken")

    later = Later(steps())
    first = later.making()
    next(first)
    for making in (first, later.making(), later.making()):
        with pytest.raises(ValueError, match="broken"):
            at_once(making)


def test_comparing_in_steps_says_what_comparing_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that share their past, or none of it, with hashes or without them: the steps and `==` agree."""
    monkeypatch.setattr(table, "SMALL", 2)
    chance = random.Random(3)

    def value(depth: int) -> object:
        if depth == 0 or chance.random() < 0.3:
            return chance.choice([None, 1, True, "a", 2**53, 2**53 + 1, {".value": 1, ".priority": 1}])
        children = {f"k{number}": value(depth - 1) for number in range(chance.randrange(6))}
        return {**children, ".priority": 1} if chance.random() < 0.2 else children

    equal = 0
    for _ in range(2_000):
        left: Node = parse(value(3), now=0)
        path: Path = tuple(f"k{chance.randrange(5)}" for _ in range(chance.randrange(3)))
        if chance.random() < 0.2:
            right = left.with_priority(chance.choice([None, 1, 2]))
            assert at_once(comparing(left, right)) == (left == right), f"{left!r} {right!r}"
        right = left.put(path, parse(value(1), now=0))
        if chance.random() < 0.5:
            right = parse(render(right, priorities=True, arrays=False), now=0)
        if chance.random() < 0.5:
            _ = left.hash, right.hash
        assert at_once(comparing(left, right)) == (left == right), f"{left!r} {right!r}"
        equal += left == right
    assert equal > 200
