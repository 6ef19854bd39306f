"""Which database, and as whom: as firebase-admin would read the same app, and never with a look at the network."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any, NoReturn, TypeAlias
from urllib.parse import parse_qs

import firebase_admin
import pytest
from firebase_admin import db

from firecron.errors import ConfigurationError
from firecron.rtdb.target import APP_NAME, DEMO_URL, Target, find_target
from firecron.scheduler.startup import named_database
from firecron.settings import EMULATOR_HOST, load
from rtdb_emulator_tests.helpers.firebase_apps import firebase_apps

# firebase-admin ships no types.
App: TypeAlias = Any

URL = "https://shop-default-rtdb.europe-west1.firebasedatabase.app"
HOST = "127.0.0.1:9000"
EMULATED = {EMULATOR_HOST: HOST}


@pytest.fixture(autouse=True)
def no_apps(monkeypatch: pytest.MonkeyPatch) -> None:
    """No app, no configuration and no network."""

    def refuse(*arguments: object, **keywords: object) -> NoReturn:
        raise AssertionError("a target is found without the network")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for name in ("FIREBASE_CONFIG", EMULATOR_HOST, "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    assert not firebase_apps()


def app(name: str = "[DEFAULT]", /, **options: object) -> App:
    return firebase_admin.initialize_app(options={"databaseURL": URL, **options}, name=name)


def parameters(target: Target) -> dict[str, str]:
    """What the suffix says as a query."""
    path, _, query = target.suffix.partition("?")
    assert path == ".json"
    return {name: values[0] for name, values in parse_qs(query, strict_parsing=bool(query)).items()}


def test_the_app_that_is_given() -> None:
    """A given app's own database is used, in production with its credential, whatever else there is."""
    app(databaseURL="https://another.firebaseio.com")
    target = find_target(app("mine"), None, {})
    assert (target.base_url, target.suffix, target.is_emulator) == (URL, ".json", False)


def test_the_default_app() -> None:
    """Without an app the default app is used, and no other is made."""
    app()
    assert find_target(None, None, {}).base_url == URL
    assert list(firebase_apps()) == ["[DEFAULT]"]


def test_an_app_of_its_own() -> None:
    """Where there is none, a named app is made, so that the default stays the user's to make; it is made once."""
    for _ in range(2):
        assert find_target(None, URL, {}).base_url == URL
    assert list(firebase_apps()) == [APP_NAME]
    app()


def test_a_database_url_wins_over_the_apps() -> None:
    """The setting names another database than the app does."""
    app()
    assert find_target(None, "https://other.firebaseio.com", {}).base_url == "https://other.firebaseio.com"


@pytest.mark.parametrize("form", ["text", "file"])
def test_firebase_config_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, form: str) -> None:
    """`FIREBASE_CONFIG`, as JSON or as a file's name, configures the app that is made."""
    text = json.dumps({"databaseURL": URL})
    path = tmp_path / "config.json"
    path.write_text(text, "utf-8")
    monkeypatch.setenv("FIREBASE_CONFIG", text if form == "text" else str(path))
    assert find_target(None, None, {}).base_url == URL


EMULATORS = {
    "from the host": (URL, EMULATED, f"http://{HOST}", "shop-default-rtdb"),
    "from the host, without any URL": (None, EMULATED, f"http://{HOST}", "demo-firecron"),
    "from an http URL": (f"http://{HOST}/?ns=shop", {}, f"http://{HOST}", "shop"),
    "from an http URL, without a slash": (f"http://{HOST}?ns=shop", {}, f"http://{HOST}", "shop"),
    "from an http URL before the host": ("http://127.0.0.1:1/?ns=shop", EMULATED, "http://127.0.0.1:1", "shop"),
    "an odd name": (f"http://{HOST}/?ns=a%26b", {}, f"http://{HOST}", "a&b"),
}


@pytest.mark.parametrize(("url", "environment", "base_url", "namespace"), EMULATORS.values(), ids=EMULATORS.keys())
def test_an_emulator(url: str | None, environment: dict[str, str], base_url: str, namespace: str) -> None:
    """An emulator is known by the variable or by an http URL; no credential is needed, the namespace is a parameter."""
    target = find_target(None, url, environment)
    assert target.is_emulator
    assert target.load_credential is None
    assert (target.base_url, parameters(target)) == (base_url, {"ns": namespace})


def test_the_demo_database_is_for_the_emulator_only() -> None:
    """Without a URL and without an emulator there is no database."""
    assert DEMO_URL.startswith("https://demo-")
    with pytest.raises(ConfigurationError, match="no database is named: set FIRECRON_DATABASE_URL"):
        find_target(None, None, {})


OVERRIDES: dict[str, dict[str, object]] = {
    "none given": {},
    "somebody": {"databaseAuthVariableOverride": {"uid": "job & co", "admin": False}},
    "nobody": {"databaseAuthVariableOverride": None},
    "empty": {"databaseAuthVariableOverride": {}},
}


@pytest.mark.parametrize("options", OVERRIDES.values(), ids=OVERRIDES.keys())
@pytest.mark.parametrize("environment", [{}, EMULATED], ids=["production", "emulator"])
def test_the_auth_override_is_firebase_admins(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, object], environment: dict[str, str]
) -> None:
    """A dict is what rules see, None is nobody, and an empty dict is no override, exactly as the SDK sends it."""
    made = app(**options)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(made, "_credential", WithoutNetwork())  # the SDK takes no other kind
    client = db.reference("x", made)._client  # there is no other way to see what the SDK sends
    target = find_target(made, None, environment)
    assert parameters(target) == client.params
    assert target.base_url == client.base_url.rstrip("/")


class WithoutNetwork:
    """In place of application default credentials."""

    def get_credential(self) -> object:
        from google.auth.credentials import AnonymousCredentials

        return AnonymousCredentials()  # type: ignore[no-untyped-call]  # no types there


def test_the_credential_is_the_apps_own_and_is_loaded_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding the target looks for no credential; the first token does, and takes the app's."""
    made, credential = app(), object()
    target = find_target(made, None, {})
    assert target.load_credential is not None
    # The SDK takes no other kind of credential.
    monkeypatch.setattr(made, "_credential", type("Wrapped", (), {"get_credential": lambda self: credential})())
    assert target.load_credential() is credential


ERRORS: dict[str, tuple[str | None, dict[str, str], str]] = {
    "no scheme": ("shop.firebaseio.com", {}, r"'shop.firebaseio.com' must look like https://"),
    "another scheme": ("ftp://shop.firebaseio.com", {}, "must look like https://"),
    "no host": ("https://", {}, "must look like https://"),
    "an emulator without a namespace": (
        f"http://{HOST}",
        {},
        r"is that of an emulator, so it must name a database: add \?ns=",
    ),
    "an emulator with an empty namespace": (f"http://{HOST}/?ns=", {}, r"\?ns="),
    "no port": ("https://shop.firebaseio.com:abc", {}, "can't be used: Port could not be cast"),
    "without the s": ("http://shop.firebaseio.com", {}, "lacks the s of https: write https://shop.firebaseio.com$"),
    "without the s, with a name": ("http://shop.x.firebasedatabase.app/?ns=shop", {}, "lacks the s of https"),
    "without the s, beside an emulator": ("http://shop.firebaseio.com", EMULATED, "lacks the s of https"),
    "the console": (
        "https://console.firebase.google.com/project/shop/database/shop-default-rtdb/data",
        {},
        "is a page of the Firebase console: use the database's own URL",
    ),
    "a path": (
        "https://shop.firebaseio.com/ops/cron/",
        {},
        "has a path: give https://shop.firebaseio.com alone; for nodes below a path, set FIRECRON_PREFIX=ops/cron$",
    ),
    "a path on an emulator": (f"http://{HOST}/ops?ns=shop", {}, f"has a path: give http://{HOST} alone"),
    "an emulator host with a scheme": (URL, {EMULATOR_HOST: f"http://{HOST}"}, "must look like host:port"),
    "an IPv6 address without brackets": (URL, {EMULATOR_HOST: "::1:9000"}, r"'::1:9000' must .* has brackets: \[::1\]"),
    "a port that is none": (URL, {EMULATOR_HOST: "127.0.0.1:65536"}, "must look like host:port"),
    "an emulator host without a port": (
        URL,
        {EMULATOR_HOST: "localhost"},
        "must look like host:port, such as 127.0.0.1:9000",
    ),
    "an IPv6 address without a port": (URL, {EMULATOR_HOST: "[::1]"}, "must look like host:port"),
    "port zero": (URL, {EMULATOR_HOST: "127.0.0.1:0"}, "must look like host:port"),
    "a port of letters": (URL, {EMULATOR_HOST: "127.0.0.1:http"}, "must look like host:port"),
    "an emulator host with a path": (URL, {EMULATOR_HOST: f"{HOST}/x"}, "must look like host:port"),
    "a host with a blank": ("https://a b.firebaseio.com", {}, "can't be used: its host is none"),
    "a host with a star": ("https://*a.firebaseio.com", {}, "can't be used: its host is none"),
    "an IPv6 URL without an end": ("https://[::1", {}, r"'https://\[::1' can't be used"),
}


@pytest.mark.parametrize(("url", "environment", "said"), ERRORS.values(), ids=ERRORS.keys())
def test_what_names_no_database_is_refused(url: str | None, environment: dict[str, str], said: str) -> None:
    """A refusal names the value and what would do."""
    with pytest.raises(ConfigurationError, match=said):
        find_target(None, url, environment)


SECRET = "hunter2"
# What a URL has that firecron doesn't use, and what the refusal says of it.
UNUSED = {
    "a user and a password": (f"https://me:{SECRET}@shop.firebaseio.com", "has an @"),
    "a user": (f"https://{SECRET}@shop.firebaseio.com/", "remove the user and the password before it"),
    "a password without a scheme": (f"me:{SECRET}@shop.firebaseio.com", "has an @"),
    "a password with a slash": (f"https://me:{SECRET}/x@shop.firebaseio.com", "has an @"),
    "an emulator's password": (f"http://me:{SECRET}@{HOST}?ns=shop", "has an @"),
    "a password as the name of the database": (f"http://{HOST}?ns=me:{SECRET}@shop", "has an @"),
    "a secret of the database": (f"https://shop.firebaseio.com/?auth={SECRET}", "'ns', the name of a database, alone"),
    "a token beside the name": (f"http://{HOST}?ns=shop&access_token={SECRET}", "'ns', the name of a database, alone"),
    "a token in the name": (f"http://{HOST}?ns=shop;auth={SECRET}", "'ns', the name of a database, alone"),
    "a query without a name": (f"https://shop.firebaseio.com?{SECRET}", "'ns', the name of a database, alone"),
    "two databases": (f"http://{HOST}?ns=shop&ns={SECRET}", "'ns', the name of a database, alone"),
    "a fragment": (f"https://shop.firebaseio.com/#{SECRET}", "has a #"),
}


@pytest.mark.parametrize("place", ["setting", "app", "configuration"])
@pytest.mark.parametrize(("url", "said"), UNUSED.values(), ids=UNUSED.keys())
def test_what_a_url_has_in_vain_is_refused_and_not_quoted(
    monkeypatch: pytest.MonkeyPatch, url: str, said: str, place: str
) -> None:
    """A user, a password or a parameter that firecron doesn't use is refused, wherever the URL is, without a quote."""
    if place == "configuration":
        monkeypatch.setenv("FIREBASE_CONFIG", json.dumps({"databaseURL": url}))
    given = app(databaseURL=url) if place == "app" else None
    environment = EMULATED if url.startswith("https:") else {}
    with pytest.raises(ConfigurationError) as raised:
        find_target(given, load(database_url=url).database_url if place == "setting" else None, environment)
    assert said in str(raised.value)
    assert SECRET not in str(raised.value)
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("environment", [{}, EMULATED], ids=["production", "emulator"])
def test_a_url_that_names_two_databases_is_refused(environment: dict[str, str]) -> None:
    """The host names Firebase's database, also for an emulator; another name in ns would be passed over in silence."""
    with pytest.raises(
        ConfigurationError, match=r"'shop' by its host, and 'other' by ns: .* http://HOST:PORT\?ns=other"
    ):
        find_target(None, "https://shop.firebaseio.com?ns=other", environment)
    target = find_target(None, "https://shop.firebaseio.com/?ns=shop", environment)
    assert target.parameters == ({"ns": "shop"} if environment else {})


@pytest.mark.parametrize("host", [f"http://me:{SECRET}@{HOST}", f"me:{SECRET}@{HOST}"])
def test_an_emulators_password_is_not_quoted(host: str) -> None:
    """The SDK's variable takes a host and a port, and a refusal leaves out what may be a password."""
    with pytest.raises(ConfigurationError, match=f"{EMULATOR_HOST} must look like host:port") as raised:
        find_target(None, URL, {EMULATOR_HOST: host})
    assert SECRET not in str(raised.value)
    assert named_database(None, {EMULATOR_HOST: host}) == HOST


@pytest.mark.parametrize(
    ("url", "environment", "unknown"),
    [
        ("https://shop.firebaseio.com", {}, None),
        ("https://Shop.FirebaseIO.com/", {}, None),
        (URL, {}, None),
        ("https://shop.firebaseio.com.example.org", {}, "shop.firebaseio.com.example.org"),
        ("https://firebaseio.com:8443", {}, "firebaseio.com"),
        ("https://shop.example.org", EMULATED, None),
        (f"http://{HOST}/?ns=shop", {}, None),
    ],
)
def test_a_host_that_is_none_of_firebases_is_known(url: str, environment: dict[str, str], unknown: str | None) -> None:
    """A target says to which host access tokens would go, if that isn't Firebase's; an emulator is sent none."""
    assert find_target(None, url, environment).unknown_host == unknown


@pytest.mark.parametrize("override", ["admin", 7, ["uid"]])
def test_an_override_of_another_kind_is_refused(override: object) -> None:
    """What firebase-admin would refuse at the first reference is refused here."""
    with pytest.raises(ConfigurationError, match=r"databaseAuthVariableOverride=.* must be a dict or None"):
        find_target(app(databaseAuthVariableOverride=override), None, {})


AGREEING: dict[str, tuple[dict[str, object], object]] = {
    "none given": ({}, {"uid": "firecron"}),
    "empty": ({"databaseAuthVariableOverride": {}}, {"uid": "firecron"}),
    "the same": ({"databaseAuthVariableOverride": {"uid": "firecron"}}, {"uid": "firecron"}),
    "the same and more": ({"databaseAuthVariableOverride": {"uid": "firecron", "a": 1}}, {"uid": "firecron", "a": 1}),
}


@pytest.mark.parametrize(("options", "seen"), AGREEING.values(), ids=AGREEING.keys())
def test_a_uid_that_is_set_is_what_rules_see(options: dict[str, object], seen: object) -> None:
    """Without an override of the app's own the setting's uid is sent; one with that uid is sent as it is."""
    target = find_target(app(**options), None, {}, uid="firecron")
    assert json.loads(parameters(target)["auth_variable_override"]) == seen


@pytest.mark.parametrize("override", [None, {"uid": "somebody"}, {"admin": True}], ids=str)
def test_a_uid_that_contradicts_the_app_is_refused(override: object) -> None:
    """Where the app's override is somebody else, both are named and neither is chosen."""
    with pytest.raises(ConfigurationError) as raised:
        find_target(app(databaseAuthVariableOverride=override), None, {}, uid="firecron")
    assert f"databaseAuthVariableOverride={override!r}" in str(raised.value)
    assert "FIRECRON_UID='firecron'" in str(raised.value)


USERS: dict[str, tuple[dict[str, object], str]] = {
    "none given": ({}, "an administrator"),
    "empty": ({"databaseAuthVariableOverride": {}}, "an administrator"),
    "somebody": ({"databaseAuthVariableOverride": {"uid": "firecron"}}, "the user 'firecron'"),
    "no uid": ({"databaseAuthVariableOverride": {"admin": True}}, "a user without a uid"),
    "nobody": ({"databaseAuthVariableOverride": None}, "nobody"),
}


@pytest.mark.parametrize(("options", "user"), USERS.values(), ids=USERS.keys())
def test_a_target_says_whom_the_rules_see(options: dict[str, object], user: str) -> None:
    """A person who asks as whom firecron works is told it in words."""
    assert find_target(app(**options), None, {}).user == user


def test_an_override_in_firebase_config_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that is named beside `FIREBASE_CONFIG` takes nothing else of it away."""
    config = {"databaseURL": "https://other.firebaseio.com", "databaseAuthVariableOverride": {"uid": "firecron"}}
    monkeypatch.setenv("FIREBASE_CONFIG", json.dumps(config))
    target = find_target(None, URL, {})
    assert (target.base_url, target.user) == (URL, "the user 'firecron'")


def test_a_firebase_config_that_is_no_json_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may hold the override, so it isn't passed over, also where the database is named elsewhere; nor quoted."""
    monkeypatch.setenv("FIREBASE_CONFIG", f'{{"databaseURL": {SECRET}')
    with pytest.raises(
        ConfigurationError, match=r"FIREBASE_CONFIG can't be used: it is not valid json: .*line 1"
    ) as raised:
        find_target(None, URL, {})
    assert SECRET not in f"{raised.value} {raised.value.__cause__}"


@pytest.mark.parametrize("host", ["localhost:1", "localhost:65535", "[::1]:9000"])
def test_an_emulators_address_is_shown_with_its_database(host: str) -> None:
    """An emulator is shown with the name of its database, Firebase's database by its address."""
    url = "https://mine.firebaseio.com"
    assert find_target(None, url, {"FIREBASE_DATABASE_EMULATOR_HOST": host}).shown == f"http://{host}?ns=mine"
    assert find_target(None, url, {}).shown == url
