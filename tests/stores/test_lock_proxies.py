"""How many requests the lock takes, and what lies between it and RTDB: proxies that spoil ETags or connections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from tests.stores.proxy import HangUp, Proxy, between
from tests.stores.test_lock_faults import Bench, make_bench, make_patient

from firecron import FireCron, Run, distributed_cron
from firecron.base.clocks import Deadline, SystemTiming
from firecron.errors import ConfigurationError, Unavailable
from firecron.lock.blocks import try_once
from firecron.lock.lease import Lease
from firecron.lock.refusal import Refusal
from firecron.locks import LockService
from firecron.settings import EMULATOR_HOST, load
from firecron.testing import FakeTiming
from firecron.testing.conformance.kit import real_clock
from rtdb_emulator.pytest_plugin import Rtdb


@pytest.fixture
def proxy(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy that services come to in the emulator's place."""
    with between(rtdb.emulator.host) as made:
        monkeypatch.setenv(EMULATOR_HOST, made.host)
        monkeypatch.setenv("FIRECRON_DATABASE_URL", f"https://{rtdb.namespace}.firebaseio.com")
        yield made


@pytest.fixture
def bench(rtdb: Rtdb, proxy: Proxy) -> Bench:
    """A service behind the proxy. It knows the time already."""
    return make_patient(rtdb)


def test_a_proxy_that_weakens_etags_costs_a_few_requests(bench: Bench, proxy: Proxy) -> None:
    """No ETag ever fits, so a renewal and a release fail: after a few requests, and the error names the cause."""
    proxy.weakens_etags = True
    lease = bench.acquire()
    bench.forget()
    with pytest.raises(Unavailable, match="a proxy in between weakens ETags"):
        lease.renew()
    assert 3 <= len(bench.sent().split()) <= 40
    bench.forget()
    told: list[str] = []
    bench.service.events.subscribe(lambda event: told.append(event.message))
    assert lease.release() is False
    assert 3 <= len(bench.sent().split()) <= 40
    assert "a proxy in between weakens ETags" in told[-1]


def test_a_proxy_that_drops_etags_lets_a_write_be_confirmed_by_its_echo(bench: Bench, proxy: Proxy) -> None:
    """Without an ETag a write is confirmed by the answer, which is what was written; one request does."""
    proxy.drops_etags = True
    lease = bench.acquire()
    assert bench.sent() == "PUT"
    proxy.drops_etags = False
    assert lease.release()


WEAK = 'W/"2-vyGp6PvFo4RvsFtPoIWeCReyIC8"'


@pytest.mark.parametrize(
    ("page", "etag"),
    [(b"{}", None), (b"42", None), (b"null", None), (b"true", WEAK), (b"{}", WEAK), (b'{"ok": true}', WEAK)],
)
def test_a_page_in_the_place_of_rtdb_confirms_nothing(
    bench: Bench, proxy: Proxy, page: bytes, etag: str | None
) -> None:
    """A 200 that comes from somewhere else acquires, renews, pauses and tells nothing."""
    lease = bench.acquire()
    ends = lease.expires_at
    proxy.page, proxy.page_etag = page, etag
    bench.refused("malformed" if (page, etag) == (b"true", WEAK) else "unavailable")
    with pytest.raises(Unavailable):
        bench.service.store.swap("cron-locks/other", "null_etag", {"a": 1}, bench.service.deadline(5))
    with pytest.raises(Unavailable):
        bench.service.pause("job")
    with pytest.raises(Unavailable):
        bench.service.store.timestamp("cron-instances/clock/seenAt", bench.service.deadline(5))
    with pytest.raises(Unavailable):
        bench.service.store.merge("cron-instances/me", {"seenAt": {".sv": "timestamp"}}, bench.service.deadline(5))
    assert lease.expires_at == ends


@pytest.mark.parametrize("status", [200, 412, 500, 401])
@pytest.mark.usefixtures("deep")
@pytest.mark.parametrize("page", [b"[" * 100_000, b'{"a":' * 100_000, b"\xff", b"1" * 5_000])
def test_an_answer_that_can_not_be_parsed_is_unavailable(bench: Bench, proxy: Proxy, page: bytes, status: int) -> None:
    """Whatever comes in the place of JSON, with whatever status, an acquire returns a refusal."""
    proxy.page, proxy.page_etag, proxy.page_status = page, "x", status
    bench.refused("denied" if status == 401 else "unavailable")


@pytest.mark.parametrize("page", [b"{}", b"42", b"true"])
def test_a_deletion_is_confirmed_by_null(bench: Bench, proxy: Proxy, page: bytes) -> None:
    """A release is not done because something else answered it."""
    lease = bench.acquire()
    proxy.page = page
    assert lease.release() is False
    assert bench.node is not None
    proxy.page = None
    make_bench(bench.rtdb).refused("held")


def test_a_server_that_answers_one_request_of_a_connection_starves_nobody(bench: Bench, proxy: Proxy) -> None:
    """After a lost reply the read that looks has a connection of its own, and so has the write after it."""
    # The connection that the clock was asked on is spent.
    proxy.serves_once = True
    lease = bench.acquire()
    assert bench.sent() == "GET PUT"
    bench.forget()
    assert lease.renew()
    assert bench.sent() == "GET PUT"
    bench.forget()
    assert lease.release()
    assert bench.sent() == "GET DELETE"
    proxy.serves_once = False
    bench.acquire().release()
    before = proxy.connections
    bench.acquire().release()
    assert proxy.connections == before


def test_who_only_reads_makes_one_new_connection_after_a_lost_reply(bench: Bench, proxy: Proxy) -> None:
    """After a lost reply of a read, the next read has a new connection, and those after it use it again."""
    store, path = bench.service.store, "cron-locks/watched"
    store.read(path, bench.service.deadline(5))
    proxy.serves_once = True
    with pytest.raises(Unavailable):
        store.read(path, bench.service.deadline(5))
    proxy.serves_once = False
    before = proxy.connections
    for _ in range(3):
        store.read(path, bench.service.deadline(5))
    assert proxy.connections == before + 1


@pytest.mark.parametrize(("hangs_up", "sent"), [("unread", "GET PUT"), ("read", "GET PUT"), ("applied", "PUT GET")])
def test_a_connection_that_ends_as_it_is_used_again_costs_less_than_a_second(
    bench: Bench, proxy: Proxy, hangs_up: HangUp, sent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server closes a kept connection just when a request arrives on it: the lock is looked at, and acquired."""
    bench.acquire().release()
    bench.forget()
    proxy.hangs_up = hangs_up
    pauses: list[float] = []
    monkeypatch.setattr(bench.timing, "sleep", pauses.append)
    assert bench.acquire()
    assert 0 < sum(pauses) < 1
    assert bench.sent() == sent


@pytest.mark.parametrize(
    ("hangs_up", "renewed", "released"),
    [
        ("unread", "GET PUT", "GET DELETE"),
        ("read", "GET PUT", "GET DELETE"),
        # The second write of a renewal is conditional on what was read: its lease begins with this write.
        ("applied", "PUT GET PUT", "DELETE GET"),
    ],
)
def test_what_may_have_been_read_is_not_sent_again_before_a_look(
    bench: Bench, proxy: Proxy, hangs_up: HangUp, renewed: str, released: str
) -> None:
    """Where the connection of a renewal or a release ends as it is used again, a read comes before another write."""
    lease = bench.acquire()
    for step, sent in ((lease.renew, renewed), (lease.release, released)):
        bench.forget()
        proxy.hangs_up = hangs_up
        assert step()
        assert bench.sent() == sent
    assert bench.node is None


@pytest.mark.parametrize("hangs_up", ["unread", "read", "applied"])
def test_a_tick_is_not_lost_with_a_connection(
    rtdb: Rtdb, proxy: Proxy, hangs_up: HangUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose claim or release meets a connection that ends begins once, within a second, and is recorded."""
    begun: list[str] = []

    @distributed_cron("job", "* * * * *")
    def job(run: Run) -> None:
        begun.append(run.idempotency_key)
        if len(begun) == 3:
            proxy.hangs_up = hangs_up  # to the release

    timing = FakeTiming(base=real_clock)
    crons = FireCron(job, settings=load(request_timeout=20, acquire_timeout=20, release_timeout=20), timing=timing)
    pauses: list[float] = []
    monkeypatch.setattr(timing, "sleep", pauses.append)
    newest = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=1)
    for number in range(3):
        if number == 1:
            proxy.hangs_up = hangs_up  # to the claim
        assert crons.registry.trigger("job", slot=newest - timedelta(minutes=2 - number)).outcome == "succeeded"
        assert proxy.hangs_up is None
        assert len(pauses) == number
    assert 0 < sum(pauses) < 1
    crons.locks.close()
    entries = rtdb.get("/cron-runs/job")
    assert isinstance(entries, dict)
    assert [f"job:{slot}" for slot in entries] == begun
    assert [(entry["attempt"], entry["outcome"]) for entry in entries.values()] == [(1, "succeeded")] * 3


@pytest.mark.parametrize(
    "url", ["https://a b.firebaseio.com", "https://*a.firebaseio.com", "https://a.test:99999", "https://.a.test"]
)
def test_a_url_that_no_request_can_be_sent_to_is_a_configuration_error(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused where the database is found, before anything is sent."""
    monkeypatch.delenv(EMULATOR_HOST, raising=False)
    with pytest.raises(ConfigurationError, match="can't be used"):
        LockService(settings=load(database_url=url)).connect()


NAME = "job"
PATH = f"/cron-locks/{NAME}"
TTL = 60
SLOTS = [f"2020-11-18T{hour:02}:00:00Z" for hour in range(3)]


def new_service() -> LockService:
    """One that knows the database's time, which is asked for once in minutes."""
    # Time-outs that no busy machine reaches: what is tried again would be counted.
    service = LockService(settings=load(request_timeout=20, acquire_timeout=20, release_timeout=20))
    service.clock.now(Deadline.after(SystemTiming(), 30))
    return service


@pytest.fixture
def requests(rtdb: Rtdb) -> Callable[[], str]:
    """The methods of all requests since the last call."""

    def since() -> str:
        methods = [request.method for request in rtdb.emulator.requests.matching(namespace=rtdb.namespace)]
        rtdb.emulator.requests.clear()
        return " ".join(methods)

    return since


def held(service: LockService, *, fenced: bool = False) -> Lease:
    lease = service.acquire(NAME, TTL, fenced=fenced)
    assert isinstance(lease, Lease), lease
    return lease


def claim(service: LockService, slot: str) -> Lease | Refusal:
    return try_once(service.database, service.database.bid(NAME, TTL, fenced=True, slot=slot))


def test_the_clock_is_asked_once(rtdb: Rtdb, requests: Callable[[], str]) -> None:
    """The first acquire of a service takes the samples of the clock, and the others none."""
    service = LockService(settings=load(clock_samples=3))
    held(service).release()
    assert rtdb.count(path="/cron-instances/clock/seenAt") == 3
    assert requests() == "PUT PUT PUT PUT DELETE"
    held(service).release()
    assert requests() == "PUT DELETE"


def test_a_free_lock_takes_two(rtdb: Rtdb, requests: Callable[[], str]) -> None:
    """A plain acquire and its release are two requests, time and again."""
    service = new_service()
    requests()
    for _ in range(3):
        assert held(service).release()
        assert requests() == "PUT DELETE"
    assert rtdb.get(PATH) is None


def test_a_refusal_takes_one(requests: Callable[[], str]) -> None:
    """A contender for a held lock is refused in one request, time and again."""
    holder, contender = new_service(), new_service()
    held(holder)
    requests()
    for _ in range(3):
        assert not contender.acquire(NAME, TTL)
        assert requests() == "PUT"


def test_a_fenced_lock_takes_one_after_ones_own_release(requests: Callable[[], str]) -> None:
    """A service that released a fenced lock itself knows its record, and acquires it in one request."""
    service = new_service()
    requests()
    for _ in range(3):
        lease = held(service, fenced=True)
        assert requests() == "PUT"
        assert lease.release()
        assert requests() == "PUT"


def test_a_fenced_lock_takes_two_after_anothers_release(requests: Callable[[], str]) -> None:
    """A service that knows an older record of a free lock acquires it in two requests."""
    one, other = new_service(), new_service()
    assert held(one, fenced=True).release()
    other.clock.observe(*ahead(other, 300))
    assert held(other, fenced=True).release()
    requests()
    one.clock.observe(*ahead(one, 600))
    held(one, fenced=True)
    assert requests() == "PUT PUT"


def ahead(service: LockService, milliseconds: int) -> tuple[int, float, float]:
    """A sample by which the service's clock is so far ahead: past the moment of the other's release."""
    timing = SystemTiming()
    now = service.clock.now(Deadline.after(timing, 30))
    return now.server + milliseconds, now.mono, now.mono


def test_a_renewal_takes_one(requests: Callable[[], str]) -> None:
    """A renewal is one request, also the second."""
    lease = held(new_service())
    requests()
    assert lease.renew()
    assert lease.renew()
    assert requests() == "PUT PUT"


def test_a_minimum_hold_of_ones_own_takes_one_look(requests: Callable[[], str]) -> None:
    """What a service remembers is never believed where it forbids: a refusal is looked up, in one request."""
    service = new_service()
    lease = service.acquire(NAME, TTL, hold_at_least=TTL)
    assert isinstance(lease, Lease)
    assert lease.release()
    requests()
    assert not service.acquire(NAME, TTL)
    assert requests() == "GET"


def test_an_operators_edit_costs_a_request(rtdb: Rtdb, requests: Callable[[], str]) -> None:
    """A renewal or a release after an edit by hand is made on the node that the refusal brought along."""
    lease = held(new_service())
    rtdb.set(f"{PATH}/note", "seen")
    requests()
    assert lease.renew()
    assert requests() == "PUT PUT"
    rtdb.set(f"{PATH}/note", None)
    assert lease.release()
    assert requests() == "PUT DELETE"
    assert rtdb.get(PATH) is None


def test_a_tick_takes_two_for_its_winner_and_one_for_a_loser(requests: Callable[[], str]) -> None:
    """A winner claims in one request and releases in another; a loser learns in one that the tick is done, or held."""
    winner, loser = new_service(), new_service()
    requests()
    for number, slot in enumerate(SLOTS):
        lease = claim(winner, slot)
        assert isinstance(lease, Lease)
        assert requests() == "PUT"
        late = claim(loser, slot)
        assert isinstance(late, Refusal)
        assert late.reason == "slot_done"
        # A tick that was lost leaves what the next try begins with: a read.
        assert requests() == ("GET" if number else "PUT")
        assert lease.release(finished=slot)
        assert requests() == "PUT", number
