"""The store over REST: transactions, merges and keys, against the emulator."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime

import pytest
from tests.stores.raw_server import Raw, Wire, answering, serving

from firecron import LockService, Refusal
from firecron.base.clocks import Deadline, SystemTiming
from firecron.errors import ConfigurationError, Denied, EmulatorDown, StoreError, Unavailable
from firecron.rtdb.failures import NoReply
from firecron.rtdb.store import RtdbStore, StaticToken
from firecron.rtdb.target import Target, find_target
from firecron.rtdb.transport import Transport
from firecron.settings import load
from firecron.store import ONE_MORE, SERVER_TIME, Node
from firecron.testing import MemoryStore
from rtdb_emulator import Emulator
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
    stored = store.merge("m", {"a": 5, "b": None, "d": {"x": 1, "y": {}}, "at": {".sv": "timestamp"}}, soon())
    assert isinstance(stored, dict)
    found = rtdb.get("/m")
    assert found == {"a": 5, "c": 3, "d": {"x": 1}, "at": stored["at"]}


def test_a_merge_reaches_any_path_at_once(rtdb: Rtdb, store: RtdbStore) -> None:
    """The keys of a merge may be paths, also from the root, and an increment tells the number that it has made."""
    path = "groups/g/beats"
    values = {"a/b": {"at": SERVER_TIME, "n": 1}, path: ONE_MORE, "c": None}
    assert [store.merge("", values, soon())[path] for _ in range(2)] == [1, 2]
    rtdb.set("/ops/groups/g/beats", "many")
    assert store.merge("ops", values, soon())[path] == 1
    found = rtdb.get("/")
    assert isinstance(found, dict)
    assert found["groups"] == {"g": {"beats": 2}}
    assert found["ops"]["groups"] == {"g": {"beats": 1}}


def test_a_merge_without_echo_is_not_sent_back() -> None:
    """It is written as any other, and nothing of it is told."""
    text = "x" * 10_000
    with Emulator() as emulator:
        store = RtdbStore(lambda: find_target(None, emulator.database_url("ns")), TIMING)
        assert store.merge("m", {"a": text, "at": SERVER_TIME}, soon(), echo=False) == {"a": None, "at": None}
        (request,) = emulator.requests
        found = store.read("m", soon()).node
        store.close()
    assert request.response_bytes < 500 < len(text) < request.request_bytes
    assert isinstance(found, dict)
    assert found["a"] == text


@pytest.mark.parametrize(
    ("body", "number"),
    [
        (b'{"a/b":{"at":1794992400000},"g/beats":7}', 7),
        (b'{"a":{"b":{"at":1794992400000}},"g":{"beats":7}}', 7),
        (b'{"a/b":{"at":1794992400000}}', None),
        (b'{"a/b":{"at":1794992400000},"g/beats":{".sv":{"increment":1}}}', {".sv": {"increment": 1}}),
    ],
)
def test_a_merge_of_paths_is_told_flat_or_nested(body: bytes, number: object) -> None:
    """The answer has the paths as keys, or nodes within nodes. A number that is left out is not known."""
    with replying(body) as (store, _):
        stored = store.merge("", {"a/b": {"at": SERVER_TIME}, "g/beats": ONE_MORE}, soon())
    assert stored == {"a/b": {"at": 1_794_992_400_000}, "g/beats": number}


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
            raise NoReply(error) from error

        monkeypatch.setattr(Transport, "send", fail)
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
        ("Auth token is expired", "RTDB does not accept the access token"),
        ("Could not parse auth token.", "RTDB does not accept the access token"),
        ("Unauthorized request.", "RTDB does not accept the access token"),
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


# The beginnings of the years 2020 and 10000.
EARLIEST, LATEST = 1_577_836_800_000, 253_402_300_799_000


@contextmanager
def replying(body: bytes, status: bytes = b"200 OK", headers: bytes = b"") -> Iterator[tuple[RtdbStore, Raw]]:
    """A store whose database answers everything with this, and that database."""
    reply = b"HTTP/1.1 %s\r\nContent-Length: %d\r\n%s\r\n%s" % (status, len(body), headers, body)
    with serving(answering(reply)) as server:
        store = RtdbStore(lambda: Target(f"http://127.0.0.1:{server.port}", {}, None), TIMING)
        yield store, server
        store.close()


@pytest.mark.parametrize("now", [EARLIEST, LATEST])
def test_what_can_be_a_time_is_one(now: int) -> None:
    """RTDB's time is believed from the year 2020 to the year 9999."""
    with replying(b"%d" % now) as (store, _):
        assert store.timestamp("clock", soon()) == now


@pytest.mark.parametrize(
    ("status", "kind", "rejected"),
    [
        (b"302 Found", Unavailable, 0),
        (b"400 Bad Request", Denied, 0),
        (b"401 Unauthorized", Denied, 1),
        (b"403 Forbidden", Denied, 0),
        (b"408 Request Timeout", Unavailable, 0),
        (b"429 Too Many Requests", Unavailable, 0),
        (b"499 Whatever", Denied, 0),
        (b"500 Internal Server Error", Unavailable, 0),
        (b"503 Service Unavailable", Unavailable, 0),
    ],
)
def test_a_status_is_a_no_or_no_answer(
    monkeypatch: pytest.MonkeyPatch, status: bytes, kind: type[StoreError], rejected: int
) -> None:
    """A 4xx says no, but for a timeout and too many requests; all else may be over soon. Only a 401 is about the
    token.
    """
    rejections: list[None] = []
    monkeypatch.setattr(StaticToken, "rejected", lambda token: rejections.append(None))
    with (
        replying(b"", status) as (store, _),
        pytest.raises(kind, match=status.decode().replace(" ", ": ", 1)) as raised,
    ):
        store.read("k", soon())
    assert type(raised.value) is kind
    assert len(rejections) == rejected


def test_a_refusal_without_any_text_is_told() -> None:
    """Where neither the body nor the status line gives a reason, the error says that."""
    with replying(b"", b"404 ") as (store, _), pytest.raises(Denied, match="RTDB answered 404: no reason given"):
        store.read("k", soon())


# A date beyond what a computer can count.
NEVER = b"Mon, 01 Jan 99999999999999999999 00:00:00 GMT"


@pytest.mark.parametrize(
    ("status", "headers", "seconds"),
    [
        (b"429 Slow", b"Retry-After:  7 ", 7.0),
        (b"429 Slow", b"Retry-After: %s" % (b"9" * 400), 86_400.0),
        (b"429 Slow", b"Retry-After: \xb2", None),
        (b"429 Slow", b"Retry-After: soon", None),
        (b"429 Slow", b"Retry-After: Wed, 18 Nov 2026 09:00:30 GMT\r\nDate: Wed, 18 Nov 2026 09:00:00 GMT", 30.0),
        (b"429 Slow", b"Retry-After: Wed, 18 Nov 2026 08:00:00 GMT\r\nDate: Wed, 18 Nov 2026 09:00:00 GMT", 0.0),
        (b"429 Slow", b"Retry-After: Wed, 18 Nov 2036 09:00:00 GMT\r\nDate: Wed, 18 Nov 2026 09:00:00 GMT", 86_400.0),
        (b"429 Slow", b"Retry-After: Wed, 18 Nov 2026 09:00:30 GMT", None),
        (b"429 Slow", b"Retry-After: 86401", 86_400.0),
        (b"429 Slow", b"Retry-After: %s\r\nDate: %s" % (NEVER, NEVER), None),
        (b"503 Slow", b"Retry-After: 7", None),
    ],
)
def test_a_server_that_has_too_much_says_for_how_long(status: bytes, headers: bytes, seconds: float | None) -> None:
    """Only a 429 has its Retry-After respected, in seconds or as a date by the server's own clock, up to a day."""
    with replying(b"{}", status, headers + b"\r\n") as (store, _), pytest.raises(Unavailable) as raised:
        store.read("k", soon())
    assert raised.value.retry_after == seconds


@pytest.mark.parametrize(
    ("date", "at"),
    [
        ("Wed, 18 Nov 2026 09:00:00 GMT", 1_794_992_400_500),
        ("Wed, 18 Nov 99999999999999999999 09:00:00 GMT", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_an_answer_has_the_time_to_the_second(rtdb: Rtdb, store: RtdbStore, date: str, at: int | None) -> None:
    """Who may only read knows the time from the date of an answer, and nothing is written for it."""
    with rtdb.faults.answer(200, headers={"date": date}, body=b"null"):
        assert store.date("cron-instances/clock/seenAt", soon()) == at
    assert store.date("cron-instances/clock/seenAt", soon()) is None
    assert rtdb.get("/") is None


def test_a_reader_has_the_time_of_the_answers(rtdb: Rtdb) -> None:
    """What is shown to who may only read is by the database's clock, not by this machine's; no lock is taken by it."""
    rtdb.set_rules({"rules": {".read": "auth.uid === 'reader'"}})
    locks = LockService(settings=load(database_url=rtdb.url, uid="reader"))
    headers = {"date": "Wed, 18 Nov 2026 09:00:00 GMT"}
    with rtdb.faults.answer(200, headers=headers, body=b"null", method="GET", path="/cron-instances/clock/seenAt"):
        assert 0 <= locks.database.now(soon()) - 1_794_992_400_500 < 5_000
    sent = len(rtdb.emulator.requests)
    locks.database.now(soon())
    assert len(rtdb.emulator.requests) == sent
    refusal = locks.acquire("job", 60)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "denied"
    assert "which see the user 'reader' here: FIRECRON_UID, or the app's" in refusal.message


def test_the_database_is_looked_for_once() -> None:
    """However often it connects, a store finds its database once, says so once, and keeps its connection."""
    found: list[Target] = []
    noted: list[Target] = []
    with serving(answering(b"HTTP/1.1 200 OK\r\nETag: e\r\nContent-Length: 4\r\n\r\nnull")) as server:
        target = Target(f"http://127.0.0.1:{server.port}", {}, None)

        def find() -> Target:
            found.append(target)
            return target

        store = RtdbStore(find, TIMING, noted.append)
        for _ in range(2):
            store.connect()
            assert found == noted == [target]
            store.read("k", soon())
        assert (found, noted, server.connections) == ([target], [target], 1)
        store.close()


def test_a_forked_child_has_a_connection_of_its_own() -> None:
    """After a fork the parent's connection is not used, and the lock that its thread may hold is not waited for."""
    with replying(b"null", headers=b"ETag: e\r\n") as (store, server):
        store.read("k", soon())
        assert store.connecting.acquire(timeout=1)
        store.after_fork()
        store.read("k", soon())
        assert server.connections == 2


def test_every_worker_keeps_its_connection(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many connections are kept as there are workers and some other threads, so that a burst opens none anew."""
    sizes: list[int] = []

    class Noting(Transport):
        def __init__(self, url: str, pool_size: int) -> None:
            sizes.append(pool_size)
            super().__init__(url, pool_size)

    monkeypatch.setattr("firecron.rtdb.transport.Transport", Noting)
    for settings in (load(), load(workers=7)):
        assert LockService(settings=settings).acquire("job", 60)
        rtdb.set("/cron-locks", None)
    assert sizes == [82, 39]


def test_closing_ends_the_connections() -> None:
    """A store that is closed, also twice, has no connection left; the next request makes one."""
    ended = threading.Semaphore(0)

    def behave(wire: Wire) -> None:
        answering(b'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{"a":1}\n')(wire)
        ended.release()

    with serving(behave) as server:
        store = RtdbStore(lambda: Target(f"http://127.0.0.1:{server.port}", {}, None), TIMING)
        for connections in (1, 2):
            assert store.keys("k", soon()) == ["a"]
            assert server.connections == connections
            store.close()
            store.close()
            assert ended.acquire(timeout=10)
        assert server.requests[0].startswith(b"GET /k.json?shallow=true HTTP")


@pytest.mark.parametrize(
    ("body", "etag", "node", "written"),
    [
        (b'{"a":1}', b"", {"a": 1}, "unknown"),
        (b"null", b"", None, "null_etag"),
        (b'{"a":2}', b"ETag: new", {"a": 1}, "new"),
        (b'{"a":1}', b'ETag: W/"x"', {"a": 1}, 'W/"x"'),
        (b'{"a":2}', b'ETag: W/"x"', {"a": 1}, None),
        (b'{"a":2}', b"", {"a": 1}, None),
    ],
)
def test_a_swap_is_confirmed_by_an_etag_or_by_its_echo(
    body: bytes, etag: bytes, node: Node, written: str | None
) -> None:
    """A 200 confirms a write if it has an ETag of RTDB's, or what was written; a web server's page has neither."""
    with replying(body, headers=etag and etag + b"\r\n") as (store, _):
        if written is None:
            with pytest.raises(Unavailable, match=r"RTDB answered .* to a write, but"):
                store.swap("k", "e", node, soon())
        else:
            assert store.swap("k", "e", node, soon()) == written


WRITTEN, TOLD = r"RTDB answered .* to a write, but", r"RTDB answered .* to a request for its time, but"


@pytest.mark.parametrize(
    ("body", "headers", "ask", "said"),
    [
        (b"null", b"", lambda store: store.read("k", soon()), "without an ETag"),
        (b"<html>", b"ETag: e\r\n", lambda store: store.read("k", soon()), "not JSON"),
        (b"[" * 100_000, b"ETag: e\r\n", lambda store: store.read("k", soon()), "not JSON"),
        (b"[1]", b"", lambda store: store.merge("k", {"a": 1}, soon()), WRITTEN),
        (b"[1]", b"", lambda store: store.merge("k", {"a": None}, soon()), WRITTEN),
        (b'{"at":5}', b"", lambda store: store.merge("k", {"at": SERVER_TIME}, soon()), WRITTEN),
        (b"[1]", b"", lambda store: store.merge("k", {"a": 1}, soon(), echo=False), WRITTEN),
        # Without all that was sent, also below a path, a write is not confirmed.
        (b'{"a":1}', b"", lambda store: store.merge("m", {"a": 1, "b": 2}, soon()), WRITTEN),
        *(
            (body, b"", lambda store: store.merge("", {"a/b": {"at": SERVER_TIME, "n": 1}}, soon()), WRITTEN)
            for body in (b"{}", b'{"a/b":{}}', b'{"a/b":{"at":1794992400000,"n":2}}', b'{"a/b":7}')
        ),
        # RTDB's time is a whole number.
        *(
            (body, b"", lambda store: store.timestamp("clock", soon()), TOLD)
            for body in (*(b"true", b"1.5", b'"1794992400000"', b"null", b"%d" % (EARLIEST - 1), b"%d" % (LATEST + 1)),)
        ),
    ],
)
def test_what_rtdb_does_not_answer_is_no_answer(
    body: bytes, headers: bytes, ask: Callable[[RtdbStore], object], said: str
) -> None:
    """A 200 that can't be RTDB's is taken for none."""
    with replying(body, headers=headers) as (store, _), pytest.raises(Unavailable, match=said):
        ask(store)


@pytest.mark.parametrize(
    ("status", "text", "remedy"),
    [
        (b"400 No", "no", "Check the databaseURL and the request's path."),
        (b"401 No", "no", "Check the security rules"),
        (b"403 No", "the token has no role", "Check the service account's role"),
        (b"404 No", "no", "Check the databaseURL: there is no such database"),
        (b"423 No", "no", "The database is locked or disabled"),
    ],
)
def test_each_no_has_its_remedy(status: bytes, text: str, remedy: str) -> None:
    """The error says what to look at, by the status that it was refused with."""
    body = json.dumps({"error": text}).encode()
    with replying(body, status) as (store, _), pytest.raises(Denied, match=re.escape(f"{text}. {remedy}")):
        store.read("k", soon())


class Credential:
    """One that is refreshed without any endpoint."""

    token: str | None = None
    expiry: datetime | None = None

    def refresh(self, request: object) -> None:
        self.token = "secret"


def test_a_database_of_firebases_is_sent_the_token() -> None:
    """Each request has the access token; and a refused connection is no emulator that isn't running."""
    with serving(answering(b'HTTP/1.1 200 OK\r\nETag: e\r\nContent-Length: 7\r\n\r\n{"a":1}')) as server:
        store = RtdbStore(lambda: Target(f"http://127.0.0.1:{server.port}", {}, Credential), TIMING)
        assert store.name == "RTDB"
        store.connect()
        assert store.name == f"http://127.0.0.1:{server.port}"
        store.swap("k", "e", {"a": 1}, soon())
        head = server.requests[0].lower()
        assert b"authorization: bearer secret\r\n" in head
        assert b"content-type: application/json\r\n" in head
        store.close()
    with pytest.raises(Unavailable, match="RTDB can't be reached") as raised:
        store.read("k", soon())
    assert type(raised.value) is Unavailable


def test_an_address_that_is_none_is_a_mistake_of_the_configuration() -> None:
    """A database URL that no request can be made for is refused when the store connects."""
    store = RtdbStore(lambda: Target("http://*:80", {}, None), TIMING)
    with pytest.raises(ConfigurationError, match=re.escape("the database URL 'http://*:80' can't be used")):
        store.connect()
