"""The store over REST: transactions, merges and keys, against the emulator."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from tests.stores.raw_server import answering, serving

from firecron import LockService, Refusal
from firecron.base.clocks import Deadline, SystemTiming
from firecron.errors import Denied, EmulatorDown, Unavailable
from firecron.rtdb import transport
from firecron.rtdb.store import RtdbStore
from firecron.rtdb.target import Target, find_target
from firecron.testing import MemoryStore
from rtdb_emulator.pytest_plugin import Rtdb

TIMING = SystemTiming()


def soon(seconds: float = 10.0) -> Deadline:
    return Deadline.after(TIMING, seconds)


@pytest.fixture
def store(rtdb: Rtdb) -> RtdbStore:
    return RtdbStore(lambda: find_target(None, rtdb.url), TIMING)


def test_a_merge_replaces_the_children_named_and_no_others(rtdb: Rtdb, store: RtdbStore) -> None:
    """A merge writes and deletes the children that it names, resolves server values, and leaves the rest."""
    rtdb.set("/m", {"a": 1, "b": 2, "c": 3})
    stored = store.merge("m", {"a": 5, "b": None, "at": {".sv": "timestamp"}}, soon())
    assert isinstance(stored, dict)
    found = rtdb.get("/m")
    assert found == {"a": 5, "c": 3, "at": stored["at"]}


@pytest.mark.parametrize(("node", "keys"), [(None, []), ("leaf", []), ({"b": 1, "a": {"c": 1}}, ["a", "b"])])
def test_keys_are_the_names_of_the_children(rtdb: Rtdb, store: RtdbStore, node: object, keys: list[str]) -> None:
    """Keys come sorted and without what is below them; nothing and a leaf have none."""
    rtdb.set("/k", node)
    assert store.keys("k", soon()) == keys
    assert rtdb.emulator.requests[-1].facts.parameters["shallow"] == "true"


@pytest.mark.parametrize(
    ("node", "newest"),
    [(None, None), ("leaf", None), ({"2026-09": 1, "2026-11": {"c": 1}, "2026-10": 3}, ("2026-11", {"c": 1}))],
)
def test_the_newest_child_comes_alone(rtdb: Rtdb, store: RtdbStore, node: object, newest: object) -> None:
    """The child with the last name comes with what it holds, in an answer that has none of the others."""
    rtdb.set("/k", node)
    memory = MemoryStore(lambda: 0)
    memory.set("k", node)
    assert store.newest("k", soon()) == memory.newest("k", soon()) == newest
    assert rtdb.emulator.requests[-1].response_bytes < 400


def test_an_error_names_its_own_cause(store: RtdbStore, rtdb: Rtdb) -> None:
    """What the caller was handling when it asked is not taken for the trouble of the request."""
    rtdb.faults.drop_request(path="/k", times=None)
    try:
        raise ValueError("the card of bob")
    except ValueError:
        with pytest.raises(Unavailable) as raised:
            store.read("k", soon())
    assert "bob" not in str(raised.value)


def test_an_error_of_several_parts_is_told_by_its_first(store: RtdbStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library's error that has a text and more is told by the text, and one without any by its kind."""
    for error, said in (
        (OSError("aborted", None, 3, None, 5, 6), "OSError: aborted"),
        (TimeoutError(), "TimeoutError"),
    ):

        def fail(*arguments: object, error: OSError = error) -> None:
            raise requests.ConnectionError(error) from error

        monkeypatch.setattr(transport, "send", fail)
        with pytest.raises(Unavailable, match=rf"can't be reached at http://\S+: {said}$"):
            store.read("k", soon())


def test_an_emulator_that_is_not_running_is_told_as_such() -> None:
    """Where nobody listens at the emulator's address, the error says how to start it; it is unavailable as well."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody else listens there meanwhile
        port = taken.getsockname()[1]
        store = RtdbStore(lambda: find_target(None, f"http://127.0.0.1:{port}/?ns=x"), TIMING)
        said = f"no emulator listens at http://127.0.0.1:{port}: start it (firecron emulator --port {port}), or name "
        with pytest.raises(EmulatorDown, match=re.escape(said)):
            store.read("k", soon())
        refusal = LockService(store=store).acquire("job", 60)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "unavailable"
    assert refusal.message.startswith(
        'Emulator not running - lock "job" could not be acquired. Job will NOT run. no em'
    )


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("Permission denied", "Check the security rules"),
        ("Auth token is expired", "The access token isn't accepted"),
        ("Could not parse auth token.", "The access token isn't accepted"),
        ("Unauthorized request.", "The access token isn't accepted"),
    ],
)
def test_a_401_of_the_rules_is_told_from_one_of_the_token(rtdb: Rtdb, store: RtdbStore, text: str, remedy: str) -> None:
    """What the rules refuse has another remedy than a token that the database doesn't take."""
    rtdb.faults.answer(401, body=json.dumps({"error": text}).encode(), path="/k")
    with pytest.raises(Denied, match=re.escape(f"RTDB answered 401: {text.rstrip('.')}. {remedy}")):
        store.read("k", soon())


def test_what_the_rules_refuse_is_denied(rtdb: Rtdb) -> None:
    """A client without rights is told that it is denied, with what to look at, for each kind of request."""
    rtdb.set_rules({"rules": {".read": False, ".write": False}})
    target = find_target(None, rtdb.url)
    nobody = Target(target.base_url, {**target.parameters, "auth_variable_override": "null"}, None)
    store = RtdbStore(lambda: nobody, TIMING)
    asks: list[Callable[[], object]] = [
        lambda: store.read("a", soon()),
        lambda: store.merge("a", {"b": 1}, soon()),
        lambda: store.keys("a", soon()),
        lambda: store.timestamp("a", soon()),
    ]
    for ask in asks:
        with pytest.raises(Denied, match="security rules"):
            ask()


def test_one_store_serves_many_threads(rtdb: Rtdb, store: RtdbStore) -> None:
    """Threads that share a store get their own answers, over no more connections than there are threads."""
    rtdb.set("/t", {f"k{number}": number for number in range(8)})
    barrier = threading.Barrier(8)

    def read(number: int) -> object:
        barrier.wait(10)
        return [store.read(f"t/k{number}", soon()).node for _ in range(20)]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(read, range(8))) == [[number] * 20 for number in range(8)]


@pytest.mark.parametrize("body", [b"true", b"1.5", b'"1794992400000"', b"null"])
def test_what_is_no_time_is_not_taken_for_one(body: bytes) -> None:
    """Who is asked for RTDB's time and answers with something else than a whole number has not told it."""
    reply = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with serving(answering(reply)) as server:
        store = RtdbStore(lambda: find_target(None, f"http://127.0.0.1:{server.port}?ns=test"), TIMING)
        with pytest.raises(Unavailable, match="RTDB was asked for its time and answered"):
            store.timestamp("cron-instances/clock/seenAt", soon())
        store.close()
