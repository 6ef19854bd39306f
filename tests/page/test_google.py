"""Visitors whom Google names: the assertion of Identity-Aware Proxy, and OIDC tokens."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.page.paging import OWN, asgi_call
from tests.triggers.triggering import EMAIL, Google, google

from firecron import LockService
from firecron.base.events import Events
from firecron.ops.board import Board
from firecron.ops.operator import Operator
from firecron.page import access as iap
from firecron.page.access import IapAuthenticator, OidcAuthenticator, choose_authenticator
from firecron.page.messages import Access
from firecron.page.reads import Code
from firecron.page.site import PageSite
from firecron.triggers.access import OidcVerifier
from firecron.triggers.verifier import Denial
from firecron.web import AsgiApp, Headers, SiteRequest
from rtdb_emulator.pytest_plugin import Rtdb

AUDIENCE = "/projects/1234/locations/europe-west1/services/shop"
WHO = "ops@example.com"


class Proxy:
    """Signs assertions as Identity-Aware Proxy does, and serves its keys; `google` is the server."""

    def __init__(self, server: Google) -> None:
        self.google = server
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.other_key = ec.generate_private_key(ec.SECP256R1())
        public = self.key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        server.certificates = json.dumps({"key-1": public.decode()}).encode()

    def assertion(self, *, key: Any = None, alg: str = "ES256", kid: str = "key-1", **claims: Any) -> str:
        """An assertion that does, but for these claims; one that is None is left out."""
        now = int(time.time())
        said = {
            "iss": "https://cloud.google.com/iap",
            "aud": AUDIENCE,
            "sub": "accounts.google.com:1234",
            "email": WHO,
            "iat": now - 5,
            "exp": now + 600,
            **claims,
        }
        wanted = {name: value for name, value in said.items() if value is not None}
        signing: Any = None if alg == "none" else key or self.key
        return jwt.PyJWS().encode(json.dumps(wanted).encode(), signing, algorithm=alg, headers={"kid": kid})


@pytest.fixture(scope="module")
def world() -> Iterator[tuple[Proxy, IapAuthenticator]]:
    with google() as (server, url):
        yield Proxy(server), IapAuthenticator([AUDIENCE], keys_url=url)


def check(authenticator: IapAuthenticator | OidcAuthenticator, **headers: str) -> Access | Denial:
    given = Headers((name.replace("_", "-"), value) for name, value in headers.items())
    return authenticator.check(SiteRequest("GET", "/", given))


def judged(authenticator: IapAuthenticator, assertion: str) -> int | Access:
    """The visitor of this assertion, or the status of the denial."""
    found = check(authenticator, x_goog_iap_jwt_assertion=assertion)
    return found.status if isinstance(found, Denial) else found


def test_an_assertion_names_the_visitor(world: tuple[Proxy, IapAuthenticator]) -> None:
    """Whom IAP let pass may look and act, under the address that IAP says."""
    proxy, authenticator = world
    assert judged(authenticator, proxy.assertion()) == Access(WHO, can_act=True)


def test_without_an_address_the_subject_is_the_name(world: tuple[Proxy, IapAuthenticator]) -> None:
    """An identity of another provider may have no address."""
    proxy, authenticator = world
    assert judged(authenticator, proxy.assertion(email=None)) == Access("accounts.google.com:1234", can_act=True)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x_goog_authenticated_user_email": f"accounts.google.com:{WHO}"},
        {"authorization": "Bearer assertion"},
        {"x_goog_iap_jwt_assertion": " "},
    ],
)
def test_nothing_but_the_assertion_is_believed(world: tuple[Proxy, IapAuthenticator], headers: dict[str, str]) -> None:
    """The proxy's other headers are plain text that anybody can send."""
    proxy, authenticator = world
    headers = {name: value.replace("assertion", proxy.assertion()) for name, value in headers.items()}
    found = check(authenticator, **headers)
    assert isinstance(found, Denial)
    assert found.status == 403


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "/projects/1234/locations/europe-west1/services/other"},
        {"aud": None},
        {"aud": ["a"]},
        {"iss": "https://accounts.google.com"},
        {"iss": None},
        {"iss": ["https://cloud.google.com/iap"]},
        {"exp": 1},
        {"exp": None},
        {"iat": 9_999_999_999},
        {"nbf": 9_999_999_999},
        {"email": None, "sub": None},
        {"email": ["a"], "sub": 5},
    ],
    ids=str,
)
def test_an_assertion_for_somebody_else_is_none(world: tuple[Proxy, IapAuthenticator], claims: dict[str, Any]) -> None:
    """Another audience, another issuer, another time, or nobody's name: nobody is let in."""
    proxy, authenticator = world
    assert judged(authenticator, proxy.assertion(**claims)) in (401, 403)


def test_only_the_keys_of_iap_sign(world: tuple[Proxy, IapAuthenticator]) -> None:
    """Another key, another algorithm, none, a broken token: all are 401, and nothing of them is repeated."""
    proxy, authenticator = world
    good = proxy.assertion()
    forged = [
        proxy.assertion(key=proxy.other_key),
        proxy.assertion(kid="key-2"),
        proxy.assertion(key="secret" * 8, alg="HS256"),
        proxy.assertion(key=proxy.google.key, alg="RS256"),
        proxy.assertion(alg="none"),
        good[:-4] + "AAAA",
        good.rpartition(".")[0] + ".",
        "a.b.c",
        "x" * 10_000,
    ]
    for token in forged:
        found = check(authenticator, x_goog_iap_jwt_assertion=token)
        assert isinstance(found, Denial)
        assert (found.status, token in found.message) == (401, False)


def test_only_iaps_algorithm_counts() -> None:
    """A token names its own algorithm: another one is none, even if it is signed with a key that is served."""
    with google() as (server, url):
        rsa = server.certificates
        proxy = Proxy(server)
        server.certificates = json.dumps({**json.loads(server.certificates), "rsa": json.loads(rsa)["key-1"]}).encode()
        authenticator = IapAuthenticator([AUDIENCE], keys_url=url)
        assert isinstance(judged(authenticator, proxy.assertion()), Access)
        assert judged(authenticator, proxy.assertion(key=server.key, alg="RS256", kid="rsa")) == 401


def test_keys_are_fetched_once(world: tuple[Proxy, IapAuthenticator]) -> None:
    """The keys are kept for as long as their server says."""
    proxy, authenticator = world
    judged(authenticator, proxy.assertion())
    served = proxy.google.served
    for _ in range(3):
        judged(authenticator, proxy.assertion())
    assert proxy.google.served == served


def test_without_keys_nobody_can_tell(world: tuple[Proxy, IapAuthenticator]) -> None:
    """Where the keys can't be fetched, it is 503."""
    authenticator = IapAuthenticator([AUDIENCE], keys_url="http://127.0.0.1:9/keys", timeout=1.0)
    assert judged(authenticator, world[0].assertion()) == 503


def test_a_page_behind_iap(rtdb: Rtdb, world: tuple[Proxy, IapAuthenticator]) -> None:
    """The page asks for the assertion on every path, and who acts is in the audit log."""
    proxy, authenticator = world
    rtdb.set("/cron-locks/digest", {"paused": True})
    locks = LockService()
    site = PageSite(authenticator, Board(locks.database), Code())
    app = AsgiApp(site, 1, streams=site.live)
    for path in ("/", "/page.js", "/api/jobs", "/health"):
        assert asgi_call(app, "GET", path).status == 403
    headers = {**OWN, "X-Goog-IAP-JWT-Assertion": proxy.assertion()}
    assert asgi_call(app, "POST", "/api/jobs/digest/resume", OWN.items(), b"{}").status == 403
    assert asgi_call(app, "POST", "/api/jobs/digest/resume", headers.items(), b"{}").status == 200
    [act] = Operator(locks.database).acts()
    assert (act.act, act.who) == ("resume", WHO)


def test_iap_audience_makes_the_gate() -> None:
    """The option of `status_app` believes Google's own keys."""
    authenticator = choose_authenticator(Events(), iap_audience=AUDIENCE)
    assert isinstance(authenticator, IapAuthenticator)
    assert iap.IAP_KEYS == "https://www.gstatic.com/iap/verify/public_key"


# --- OIDC


def test_an_oidc_token_names_the_visitor() -> None:
    """The account of a token is who looks and acts."""
    with google() as (server, url):
        authenticator = OidcAuthenticator(OidcVerifier(["https://api.example.run.app"], [EMAIL], certs_url=url))
        assert check(authenticator, authorization=f"Bearer {server.token()}") == Access(EMAIL, can_act=True)
        found = check(authenticator, authorization=f"Bearer {server.token(email='else@example.com')}")
        assert isinstance(found, Denial)
        assert (found.status, authenticator.challenge) == (403, "Bearer")
