"""What lies between an instance and RTDB: proxies that spoil ETags or connections, and pages in its place."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from tests.stores.proxy import HangUp, Proxy, between
from tests.stores.test_lock_faults import Bench, make_bench, make_patient

from firecron import FireCron, Run, distributed_cron
from firecron.errors import ConfigurationError, Unavailable
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


@pytest.mark.parametrize("url", ["https://a b.firebaseio.com", "https://*a.firebaseio.com", "https://a.test:99999"])
def test_a_url_that_no_request_can_be_sent_to_is_a_configuration_error(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused where the database is found, before anything is sent."""
    monkeypatch.delenv(EMULATOR_HOST, raising=False)
    with pytest.raises(ConfigurationError, match="can't be used"):
        LockService(settings=load(database_url=url)).connect()
