"""Who asks, and which database: tokens, overrides and namespaces."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from rtdb_emulator.emulator import DEFAULT_PROJECT, Emulator
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.wire import OWNER, call, stream, wire


def token(signature: str = "", **claims: object) -> str:
    """A JWT as client libraries mock them: unsigned, and long expired."""
    parts = [{"alg": "none", "type": "JWT"}, {"iat": 0, "exp": 3600, **claims}]
    encoded = [urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, signature])


def reads(rtdb: Rtdb, rule: str, query: str = "", headers: dict[str, str] | None = None) -> bool:
    """Whether this rule, as the only one, lets this request read."""
    rtdb.emulator.set_rules(rtdb.namespace, {"rules": {".read": rule}})
    status = call(rtdb, "GET", f"/n.json?{query}", None, headers).status_code
    assert status in (200, 401)
    return status == 200


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("", OWNER),
        ("", {"Authorization": "Bearer ya29.anything"}),
        ("", {"authorization": "bearer lower"}),
        ("", {"authorization": f"Bearer {token(sub='alice')}"}),
        ("access_token=anything", {}),
        (f"auth={token(sub='alice')}", OWNER),
    ],
)
def test_a_bearer_token_is_an_admins(rtdb: Rtdb, query: str, headers: dict[str, str]) -> None:
    """Any bearer token, and any access token, passes all rules."""
    assert reads(rtdb, "false", query, headers)


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer"}, {"authorization": "Basic b3duZXI6"}])
def test_without_credentials_nobody_is_signed_in(rtdb: Rtdb, headers: dict[str, str]) -> None:
    """Without a token the rules apply, and `auth` is null in them."""
    assert reads(rtdb, "auth === null", "", headers)
    assert not reads(rtdb, "auth !== null", "", headers)


@pytest.mark.parametrize(
    ("claims", "rule"),
    [
        ({"sub": "alice"}, "auth.uid === 'alice'"),
        ({"user_id": "alice", "sub": "other"}, "auth.uid === 'alice'"),
        ({"sub": "alice", "admin": True}, "auth.token.admin === true && auth.token.sub === 'alice'"),
        ({"sub": "alice", "firebase": {"sign_in_provider": "custom"}}, "auth.provider === 'custom'"),
        ({"v": 0, "d": {"uid": "old", "group": 7}}, "auth.uid === 'old' && auth.group === 7"),
        ({"sub": "Zoë 😀"}, "auth.uid === 'Zoë 😀'"),
    ],
)
@pytest.mark.parametrize("signature", ["", "c2lnbmVk"])
def test_the_rules_see_the_claims_of_a_token(rtdb: Rtdb, claims: dict[str, object], rule: str, signature: str) -> None:
    """A token, unsigned or not, and expired, gives `auth` its uid, provider and claims."""
    query = f"auth={token(signature, **claims)}"
    assert reads(rtdb, rule, query)
    assert not reads(rtdb, f"!({rule})", query)


@pytest.mark.parametrize(
    ("override", "rule"),
    [
        ('{"uid":"u1","level":3}', "auth.uid === 'u1' && auth.level === 3"),
        ("{}", "auth !== null && auth.uid === null"),
        ("null", "auth === null"),
    ],
)
def test_an_admin_may_be_somebody_else(rtdb: Rtdb, override: str, rule: str) -> None:
    """`auth_variable_override` is `auth` in the rules, which then apply."""
    query = f"auth_variable_override={quote(override)}"
    assert reads(rtdb, rule, query, OWNER)
    assert not reads(rtdb, f"!({rule})", query, OWNER)


@pytest.mark.parametrize("query", ["", f"&auth={token(sub='alice')}"])
def test_only_an_admin_may_be_somebody_else(rtdb: Rtdb, query: str) -> None:
    """`auth_variable_override` without admin credentials is 401, also where all may read."""
    response = call(rtdb, "GET", f"/n.json?auth_variable_override=null{query}")
    assert (response.status_code, response.json()) == (401, {"error": "Unauthorized request."})


@pytest.mark.parametrize("override", ["", "{", "5", '"u1"', "[]", "false", "[" * 9999])
def test_an_override_is_an_object_or_null(rtdb: Rtdb, override: str) -> None:
    """An `auth_variable_override` of another form is 400."""
    response = call(rtdb, "GET", f"/n.json?auth_variable_override={quote(override)}", None, OWNER)
    assert response.status_code == 400
    assert response.json() == {"error": "auth_variable_override must be a JSON object or null"}


@pytest.fixture
def emulator() -> Iterator[Emulator]:
    """One without any database."""
    with Emulator() as emulator:
        yield emulator


def put_to(emulator: Emulator, host: str, query: str = "", agent: str = "") -> int:
    """The status of a PUT of the host to /n, with this Host header."""
    body = json.dumps(host)
    with wire(emulator) as connection:
        name = f"User-Agent: {agent}\r\n" if agent else ""
        head = f"PUT /n.json{query} HTTP/1.1\r\nHost: {host}\r\n{name}Content-Length: {len(body)}\r\n\r\n"
        connection.send((head + body).encode())
        return connection.answer()[0]


BARE = ["localhost:9000", "localhost", "127.0.0.1:9000", "127.0.0.1", "[::1]:9000", "[::ffff:127.0.0.1]:9000"]


@pytest.mark.parametrize(
    ("host", "query", "namespace"),
    [
        ("localhost:9000", "?ns=ns-1", "ns-1"),
        ("ns-2.firebaseio.com", "", "ns-2"),
        ("ns-3.localhost:9000", "", "ns-3"),
        ("ns-4.firebaseio.com", "?ns=ns-5", "ns-5"),
        ("ns-6.firebaseio.com", "?ns=", "ns-6"),
        *[(host, "", DEFAULT_PROJECT) for host in BARE],
    ],
)
def test_a_request_names_its_database(emulator: Emulator, host: str, query: str, namespace: str) -> None:
    """The namespace is `?ns=`, else the first label of the host, else, on a bare address, the default project."""
    assert put_to(emulator, host, query) == 200
    assert emulator.get(namespace, "/n") == host
    assert emulator.namespaces() == [namespace]


@pytest.mark.parametrize("host", BARE)
def test_without_a_name_the_only_database_is_meant(emulator: Emulator, host: str) -> None:
    """A request that names no database goes to the one that there is."""
    emulator.set("shop", "/a", 1)
    assert put_to(emulator, host) == 200
    assert emulator.get("shop") == {"a": 1, "n": host}
    assert emulator.namespaces() == ["shop"]


def test_without_a_name_several_databases_are_a_hint(emulator: Emulator, caplog: pytest.LogCaptureFixture) -> None:
    """A request that names none of several databases goes to the project's; the log says so once a client, briefly."""
    emulator.set("shop", "/a", 1)
    emulator.set("bank", "/a", 1)
    for name in ("shop", "bank", "toys", "cars", "tea", "wine", "books"):
        assert put_to(emulator, "localhost", agent="one/1") == 200
        emulator.set(name, "/a", 1)
    assert put_to(emulator, "localhost", agent="other/1") == 200
    assert put_to(emulator, "localhost", agent="") == 200
    hints = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    asked = f"names no database (?ns=NAME) and is for '{DEFAULT_PROJECT}'; there are"
    assert hints == [
        f"PUT /n.json of one/1 {asked} bank, shop",
        f"PUT /n.json of other/1 {asked} bank, books, cars, demo-firecron, shop and 3 more",
        f"PUT /n.json of a client without a name {asked} bank, books, cars, demo-firecron, shop and 3 more",
    ]
    assert emulator.get(DEFAULT_PROJECT) == {"n": "localhost"}


@pytest.mark.parametrize("name", ["a b", "a/b", "a.b", "-a", "_a", "é", "x" * 64, "a%00"])
def test_a_database_has_a_proper_name(emulator: Emulator, name: str) -> None:
    """A namespace that no database can have is 400, and there is none of that name."""
    assert put_to(emulator, "localhost", f"?ns={quote(name, safe='%')}") == 400
    assert emulator.namespaces() == []
    assert put_to(emulator, "localhost", f"?ns={'x' * 63}") == 200


def test_who_only_looks_makes_no_database(emulator: Emulator) -> None:
    """Reads, streams, questions for rules and refused writes leave no database behind; a stream hears of its start."""
    seen = Rtdb(emulator, "seen")
    for target in ("/n.json", "/.json?shallow=true", "/.settings/rules.json"):
        assert call(seen, "GET", target, None, OWNER).status_code == 200
    assert call(seen, "PUT", "/n.json", "{").status_code == 400
    assert (emulator.get("seen"), emulator.listeners("seen")) == (None, 0)
    with stream(emulator, "seen", "/n.json") as opened:
        assert opened.event() == ("put", "/", None)
        assert emulator.namespaces() == []
        assert call(seen, "PUT", "/n.json", "1").status_code == 200
        assert opened.event() == ("put", "/", 1)
        assert emulator.namespaces() == ["seen"]


def test_a_dropped_database_is_gone(emulator: Emulator) -> None:
    """`drop` takes data, rules and name; who listens hears of it, and of what is written next."""
    emulator.set("shop", "/n", 1)
    shop = Rtdb(emulator, "shop")
    shop.set_rules({"rules": {".read": True}})
    with stream(emulator, "shop", "/n.json") as opened:
        assert opened.event() == ("put", "/", 1)
        emulator.drop("shop")
        assert opened.event() == ("put", "/", None)
        assert emulator.namespaces() == []
        assert call(shop, "PUT", "/n.json", "2").status_code == 200
        assert opened.event() == ("put", "/", 2)
    assert emulator.namespaces() == ["shop"]


def test_databases_know_nothing_of_each_other(rtdb: Rtdb) -> None:
    """The same path is another place in another namespace."""
    call(rtdb, "PUT", "/n.json", "1")
    other = call(Rtdb(rtdb.emulator, f"{rtdb.namespace}-other"), "GET", "/n.json")
    assert other.json() is None
