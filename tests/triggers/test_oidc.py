"""Who may trigger: Google's tokens, its certificates, and what is said to those who may not."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.page.paging import Shell
from tests.triggers.triggering import AUDIENCE, EMAIL, Fleet, Google, Instance, google

from firecron.base.events import Events
from firecron.base.flag import begin_child
from firecron.testing import FakeTiming
from firecron.triggers.access import Certificates, OidcVerifier, choose_access
from firecron.triggers.verifier import Verifier
from rtdb_emulator.pytest_plugin import Rtdb

FRESH = {"Cache-Control": "public, max-age=19800, must-revalidate, no-transform"}


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[Google, str]]:
    """Its keys take a moment to make."""
    with google() as made:
        yield made


@pytest.fixture
def world(shared: tuple[Google, str]) -> tuple[Google, OidcVerifier]:
    made, url = shared
    made.served, made.broken, made.dripped, made.headers = 0, None, None, dict(FRESH)
    return made, OidcVerifier([AUDIENCE, "https://other.example"], [EMAIL, "b@example.com"], certs_url=url, timeout=5)


def now(seconds: float) -> int:
    return int(time.time() + seconds)


def status(verifier: Verifier, token: str) -> int | None:
    """The status of the denial of this token; None if it is good."""
    denial = verifier.check(f"Bearer {token}")
    return None if denial is None else denial.status


TOKENS: dict[str, tuple[Callable[[Google], str], int | None, str]] = {
    "good": (lambda one: one.token(), None, ""),
    "another audience that was named": (lambda one: one.token(aud="https://other.example"), None, ""),
    "another address that was named": (lambda one: one.token(email="b@example.com"), None, ""),
    "the issuer in its short form": (lambda one: one.token(iss="accounts.google.com"), None, ""),
    "a clock that is a little fast": (lambda one: one.token(iat=now(5)), None, ""),
    "wrong audience": (lambda one: one.token(aud="https://evil.example"), 401, "wrong audience"),
    "no audience": (lambda one: one.token(aud=None), 401, "wrong audience"),
    "expired": (lambda one: one.token(iat=now(-7200), exp=now(-3600)), 401, "Token expired"),
    "not yet valid": (lambda one: one.token(iat=now(3600), exp=now(7200)), 401, "too early"),
    "valid from a moment that has come": (lambda one: one.token(nbf=now(-5)), None, ""),
    "valid from a moment that is about to come": (lambda one: one.token(nbf=now(5)), None, ""),
    "valid later": (lambda one: one.token(nbf=now(3600)), 401, "too early"),
    "valid from a text": (lambda one: one.token(nbf="now"), 401, "too early"),
    "valid from no number": (lambda one: one.token(nbf=float("nan")), 401, "too early"),
    "valid from true": (lambda one: one.token(nbf=True), 401, "too early"),
    "audiences in a list": (lambda one: one.token(aud=[AUDIENCE]), 401, "wrong audience"),
    "issuers in a list": (lambda one: one.token(iss=["https://accounts.google.com"]), 401, "issuer"),
    "an issuer that is an object": (lambda one: one.token(iss={"a": 1}), 401, "issuer"),
    "addresses in a list": (lambda one: one.token(email=[EMAIL]), 403, "without an e-mail"),
    "an address that is an object": (lambda one: one.token(email={EMAIL: 1}), 403, "without an e-mail"),
    "wrong issuer": (lambda one: one.token(iss="https://evil.example"), 401, "issuer"),
    "no issuer": (lambda one: one.token(iss=None), 401, "issuer"),
    "another key": (lambda one: one.token(key=one.other_key), 401, "Google has not signed this token"),
    "an unknown key id": (lambda one: one.token(kid="key-2"), 401, "Google has not signed this token"),
    "alg none": (lambda one: one.token(alg="none"), 401, "Google has not signed this token"),
    "alg HS256": (lambda one: one.token(alg="HS256"), 401, "Google has not signed this token"),
    "no expiry": (lambda one: one.token(exp=None), 401, "Google has not signed this token"),
    "times that are texts": (lambda one: one.token(exp="never"), 401, "Google has not signed this token"),
    "wrong address": (lambda one: one.token(email="eve@example.com"), 403, "eve@example.com may not"),
    "no address": (lambda one: one.token(email=None), 403, "without an e-mail"),
    "an address that is not verified": (lambda one: one.token(email_verified=False), 403, "not verified"),
    "an address verified as a text": (lambda one: one.token(email_verified="true"), 403, "not verified"),
    "a signature removed": (
        lambda one: one.token().rpartition(".")[0] + ".SIGNATURE_REMOVED_BY_GOOGLE",
        401,
        "trust_cloud_run_iam=True",
    ),
    "garbage": (lambda one: "garbage", 401, "Google has not signed this token"),
    "two dots": (lambda one: "..", 401, "Google has not signed this token"),
    "no base64": (lambda one: "é.!.~", 401, "Google has not signed this token"),
    "deep": (lambda one: "W1tb" * 4_000 + ".e30.e30", 401, "Google has not signed this token"),
}


def test_what_an_application_names_decides(world: tuple[Google, OidcVerifier]) -> None:
    """The audience and the address that `trigger_app` was given are those that a token must be for and of."""
    google, other = world
    verifier = choose_access(Events(), audience=AUDIENCE, email=EMAIL).all
    assert isinstance(verifier, OidcVerifier)
    verifier.tokens.certificates = other.tokens.certificates
    assert status(verifier, google.token()) is None
    assert status(verifier, google.token(aud="https://other.example")) == 401


@pytest.mark.parametrize(("make", "status", "why"), TOKENS.values(), ids=TOKENS)
def test_a_token_is_judged(
    world: tuple[Google, OidcVerifier], make: Callable[[Google], str], status: int | None, why: str
) -> None:
    """Google's signature, the issuer, the audience, the times and a verified address that is allowed are all needed; a
    token that proves nothing is 401, a caller who is known and not allowed 403.
    """
    one, verifier = world
    token = make(one)
    denial = verifier.check(f"Bearer {token}")
    assert (denial and denial.status) == status
    if denial is not None:
        assert why in denial.message
        _assert_unsaid(denial.message, token)


@pytest.mark.parametrize(
    ("header", "is_served"),
    [
        (None, False),
        ("", False),
        ("Bearer", False),
        ("Bearer  ", False),
        ("Basic {token}", False),
        ("{token}", False),
        ("bearer {token}", True),
        ("BEARER   {token} ", True),
    ],
)
def test_the_scheme_is_bearer_in_any_case(
    world: tuple[Google, OidcVerifier], header: str | None, is_served: bool
) -> None:
    """Only a Bearer token is looked at, however the scheme is spelled; without one it is 401."""
    one, verifier = world
    denial = verifier.check(header and header.format(token=one.token()))
    assert (denial is None) == is_served
    assert denial is None or denial.status == 401
    is_there = bool(header) and header != "{token}"
    assert denial is None or not is_there or "send the word Bearer, and an OIDC token" in denial.message


def test_certificates_are_fetched_once(world: tuple[Google, OidcVerifier]) -> None:
    """As long as they are fresh, one fetch serves all tokens, good and bad."""
    one, verifier = world
    for _ in range(5):
        assert [status(verifier, one.token(key=key)) for key in (one.key, one.other_key)] == [None, 401]
    assert one.served == 1


@pytest.mark.parametrize(
    ("headers", "served"),
    [
        ({"Cache-Control": "public, max-age=60", "Age": "59"}, 1),
        ({"Cache-Control": "public, max-age=60", "Age": "60"}, 3),
        ({"Cache-Control": "public, max-age=60", "Age": "9" * 5000}, 3),
        ({"Cache-Control": "public, max-age=0"}, 3),
        ({"Cache-Control": "no-store, max-age=60"}, 3),
        ({"Cache-Control": "No-Cache, Max-Age=60"}, 3),
        ({"Cache-Control": f"max-age={'9' * 5000}"}, 3),
        ({}, 3),
    ],
)
def test_certificates_are_kept_as_long_as_they_are_fresh(
    world: tuple[Google, OidcVerifier], headers: dict[str, str], served: int
) -> None:
    """What the reply says of its age decides; a reply that says nothing is not kept."""
    one, verifier = world
    one.headers = headers
    for _ in range(3):
        assert verifier.check(f"Bearer {one.token()}") is None
    assert one.served == served


def test_a_forked_child_fetches_over_its_own_connection(world: tuple[Google, OidcVerifier]) -> None:
    """After a fork the parent's sockets are not used, and its certificates are."""
    one, verifier = world
    assert verifier.check(f"Bearer {one.token()}") is None
    of_the_parent = verifier.tokens.certificates.transport
    begin_child()
    assert verifier.tokens.certificates.transport is not of_the_parent
    assert verifier.check(f"Bearer {one.token()}") is None
    assert one.served == 1


def test_a_server_that_drips_holds_nobody(shared: tuple[Google, str], world: tuple[Google, OidcVerifier]) -> None:
    """Certificates that come byte by byte are given up at the end of the time for all of them."""
    one, _ = world
    one.dripped = threading.Event()
    try:
        assert status(OidcVerifier([AUDIENCE], [EMAIL], certs_url=shared[1], timeout=0.2), one.token()) == 503
        assert not one.dripped.is_set(), "it waited for the last byte"
    finally:
        one.dripped.set()


@pytest.mark.parametrize(
    "broken",
    [
        (500, b"{}"),
        (200, b"<!doctype html>"),
        (200, b"{}"),
        (200, b'{"keys": []}'),
        (404, b'{"key-1": "x"}'),
        (200, b"[" * 100_000),
        (302, b'{"key-1": "x"}'),
        (200, b'["key-1"]'),
        (200, b'{"key-1": "x", "key-2": 1}'),
    ],
    ids=["500", "a portal", "none", "another form", "404", "deep", "elsewhere", "a list", "half of it"],
)
def test_without_certificates_nobody_can_tell(
    shared: tuple[Google, str], world: tuple[Google, OidcVerifier], broken: tuple[int, bytes]
) -> None:
    """Where the certificates can't be had it is 503. A failure is kept for two seconds, then a request asks again."""
    one, verifier = world
    timing = FakeTiming()
    verifier.tokens.certificates = Certificates(shared[1], 5, timing)
    one.broken = broken
    for _ in range(3):
        denial = verifier.check(f"Bearer {one.token()}")
        assert denial is not None
        assert (denial.status, "certificates" in denial.message) == (503, True)
    assert one.served == 1
    one.broken = None
    timing.advance(1.9)
    assert verifier.check(f"Bearer {one.token()}") is not None
    timing.advance(0.2)
    assert (verifier.check(f"Bearer {one.token()}"), one.served) == (None, 2)


@pytest.mark.parametrize("token", ["garbage", "a.b.c", "..", "{}.{}.{}", "HS256", "none", "no key"])
def test_what_can_be_no_token_costs_no_fetch(world: tuple[Google, OidcVerifier], token: str) -> None:
    """Its three parts, its algorithm and its key's name are looked at first, so it is 401 while Google is away, too."""
    one, verifier = world
    one.broken = (500, b"")
    made = {
        "HS256": lambda: one.token(alg="HS256"),
        "none": lambda: one.token(alg="none"),
        "no key": lambda: one.token(kid=None),
    }
    assert (status(verifier, made.get(token, lambda: token)()), one.served) == (401, 0)


def test_all_who_wait_for_the_certificates_share_one_fetch(
    world: tuple[Google, OidcVerifier], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many requests come while it is under way."""
    one, verifier = world
    certificates = verifier.tokens.certificates
    send, may_send, coming = certificates.transport.send, threading.Event(), threading.Barrier(9)

    def held(*arguments: Any) -> Any:
        assert may_send.wait(20)
        return send(*arguments)

    def ask() -> None:
        coming.wait(20)
        verifier.check(f"Bearer {one.token()}")

    monkeypatch.setattr(certificates.transport, "send", held)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(ask) for _ in range(8)]
        coming.wait(20)
        may_send.set()
    assert [each.result() for each in asked] == [None] * 8
    assert one.served == 1


@pytest.mark.parametrize("has_failed", [False, True])
def test_a_long_fetch_holds_one_thread(
    world: tuple[Google, OidcVerifier], shared: tuple[Google, str], has_failed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one has lasted a second, or has just begun after a failure, other requests get their 503 at once."""
    one, verifier = world
    timing = FakeTiming()
    certificates = verifier.tokens.certificates = Certificates(shared[1], 5, timing)
    if has_failed:
        one.broken = (500, b"")
        assert verifier.check(f"Bearer {one.token()}") is not None
        one.broken = None
        timing.advance(2.1)
        monkeypatch.setattr("firecron.triggers.access.PATIENCE", 60_000.0)  # who waits at all is still waiting below
    send, is_sent, may_send = certificates.transport.send, threading.Event(), threading.Event()

    def held(*arguments: Any) -> Any:
        is_sent.set()
        assert may_send.wait(20)
        return send(*arguments)

    monkeypatch.setattr(certificates.transport, "send", held)
    with ThreadPoolExecutor(2) as pool:
        try:
            first = pool.submit(status, verifier, one.token())
            assert is_sent.wait(20)
            timing.advance(0 if has_failed else 1)
            assert pool.submit(status, verifier, one.token()).result(20) == 503
        finally:
            may_send.set()
    assert first.result() is None


def test_an_unreachable_server_is_no_bad_token(world: tuple[Google, OidcVerifier], unused_tcp_port_url: str) -> None:
    """Where nobody listens at the address of the certificates it is 503."""
    token = world[0].token()
    denial = OidcVerifier([AUDIENCE], [EMAIL], certs_url=unused_tcp_port_url).check(f"Bearer {token}")
    assert denial is not None
    assert denial.status == 503
    assert unused_tcp_port_url in str(denial.detail)


def test_a_stranger_is_told_nothing_of_the_network(
    rtdb: Rtdb, world: tuple[Google, OidcVerifier], unused_tcp_port_url: str, shell: Shell
) -> None:
    """Without certificates the answer is one neutral line; what went wrong is in the log."""
    verifier = OidcVerifier([AUDIENCE], [EMAIL], certs_url=unused_tcp_port_url)
    instance = Fleet().instance(shell, {"verifier": verifier})
    reply = instance.call("POST", "/digest", {"Authorization": f"Bearer {world[0].token()}"})
    assert reply.said == (503, "unavailable")
    assert reply.body["message"] == (
        "Google's certificates can't be fetched now, so no token can be verified: try again later"
    )
    [event] = instance.said("trigger.denied")
    assert unused_tcp_port_url.removeprefix("http://").partition("/")[0].partition(":")[2] in event.message
    assert "refused" in event.message


def test_one_cause_silences_no_other(rtdb: Rtdb, world: tuple[Google, OidcVerifier]) -> None:
    """Each cause has its own line a minute, whatever its status; values of the caller's make no further line."""
    one, verifier = world
    instance = Fleet().instance("asgi", {"verifier": verifier})
    tokens = [one.token(aud=f"https://{name}.example") for name in "ab"]
    tokens += [one.token(email=f"{name}@evil.example") for name in "ab"]
    tokens += [one.token(nbf=now(3600 + more)) for more in (0, 1)]
    tokens += [one.token(iat=now(3600 + more), exp=now(7200)) for more in (0, 1)]
    instance.call("POST", "/digest")
    for token in tokens:
        instance.call("POST", "/digest", {"Authorization": f"Bearer {token}"})
    causes = ("no token", "Token has wrong audience", "a@evil.example may not", "Token used too early")
    events = instance.said("trigger.denied")
    assert [cause in event.message for cause, event in zip(causes, events, strict=True)] == [True] * 4


@pytest.fixture
def unused_tcp_port_url() -> str:
    """An address that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"http://127.0.0.1:{free.getsockname()[1]}/certs"


def test_nothing_is_served_without_a_token(
    rtdb: Rtdb, world: tuple[Google, OidcVerifier], shell: Shell, caplog: pytest.LogCaptureFixture
) -> None:
    """Both frameworks ask the verifier first: 401 says how, 403 and 503 leave the job alone, and no token is logged."""
    one, verifier = world
    caplog.set_level(logging.DEBUG)
    instance = Fleet().instance(shell, {"verifier": verifier})
    for method, path in [("POST", "/digest"), ("GET", "/"), ("PUT", "/digest"), ("POST", "/unknown")]:
        reply = instance.call(method, path)
        assert reply.said == (401, "unauthorized")
        assert reply.headers["www-authenticate"] == "Bearer"
    bearer = {"Authorization": f"Bearer {one.token(email='eve@example.com')}"}
    assert instance.call("POST", "/digest", bearer).said == (403, "forbidden")
    tokens = ["abcdefgh.ijklmnop.qrstuvwx", one.token(aud="https://evil.example")]
    for token in tokens:
        reply = instance.call("POST", "/digest", {"Authorization": f"Bearer {token}"})
        assert reply.said == (401, "unauthorized")
    assert rtdb.get() is None
    assert [event.fields["status"] for event in instance.said("trigger.denied")] == [401, 403, 401, 401]
    good = one.token()
    assert instance.call("POST", "/digest", {"Authorization": f"Bearer {good}"}).said == (200, "succeeded")
    _assert_unsaid(caplog.text, *tokens, bearer["Authorization"].split()[1], good)


def test_no_certificates_is_503_over_http(rtdb: Rtdb, world: tuple[Google, OidcVerifier]) -> None:
    """A caller that can't be verified for now is asked to try again."""
    one, verifier = world
    one.broken = (500, b"")
    instance = Fleet().instance("asgi", {"verifier": verifier})
    reply = instance.call("GET", "/", {"Authorization": f"Bearer {one.token()}"})
    assert reply.said == (503, "unavailable")
    assert int(reply.headers["retry-after"]) >= 1


class Broken:
    """A verifier with a bug."""

    def check(self, authorization: str | None) -> None:
        raise LookupError("a secret")


def test_a_verifier_that_raises_lets_nobody_in(rtdb: Rtdb) -> None:
    """A verifier of the user's own that raises is a 500 without its text, and an event with it."""
    instance: Instance = Fleet().instance("asgi", {"verifier": Broken()})
    reply = instance.post()
    assert reply.said == (500, "error")
    assert "secret" not in str(reply)
    assert [event.level for event in instance.said("trigger.failed")] == [logging.ERROR]
    assert rtdb.get() is None


def _assert_unsaid(text: str, *tokens: str) -> None:
    for token in tokens:
        assert not any(part in text for part in token.split(".") if len(part) > 7 and "GOOGLE" not in part)
