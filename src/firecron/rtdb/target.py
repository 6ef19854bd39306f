"""Which database firecron uses, and as which user. Both are read from a Firebase app as firebase-admin reads them.

firecron uses the user's app, or the default app. Without either it makes an app named "firecron", so that the default
app stays the user's to make. With `FIREBASE_DATABASE_EMULATOR_HOST` set, or with an http databaseURL, the database is
an emulator.

The user is that of the app's `databaseAuthVariableOverride`, or, for firecron's own requests, of `FIRECRON_UID`.
Without both firecron is an administrator, and security rules don't apply to it. If the two contradict each other, that
is an error: each of them might have more rights than the other one allows.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, parse_qs, quote, urlsplit

from firecron.base.events import Events
from firecron.base.texts import redacted
from firecron.errors import ConfigurationError
from firecron.rtdb.tokens import Credential
from firecron.settings import EMULATOR_HOST, unused_part

if TYPE_CHECKING:
    import firebase_admin

DEMO_URL = "https://demo-firecron.firebaseio.com"
APP_NAME = "firecron"

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:(?P<port>[0-9]{1,5}))?")
_OVERRIDE = "auth_variable_override"
FIREBASES = (".firebaseio.com", ".firebasedatabase.app")
_CONSOLE = "console.firebase.google.com"


@dataclass(frozen=True, slots=True)
class Target:
    """A database and the way to it.

    `base_url` has no slash at the end. `parameters` are the query parameters of every request. `load_credential`
    returns the credential; an emulator has none.
    """

    base_url: str
    parameters: Mapping[str, str]
    load_credential: Callable[[], Credential] | None

    @property
    def is_emulator(self) -> bool:
        return self.load_credential is None

    @property
    def shown(self) -> str:
        """The address, for people. An emulator's address has the name of the database."""
        return f"{self.base_url}?ns={self.parameters['ns']}" if "ns" in self.parameters else self.base_url

    @property
    def in_words(self) -> str:
        """The database's URL, or the emulator and the database's name."""
        if not self.is_emulator:
            return self.base_url
        return f"the emulator at {self.base_url}, database {self.parameters.get('ns', '')}"

    @property
    def unknown_host(self) -> str | None:
        """The host that would get the access tokens, if it is not a host of Firebase; otherwise None."""
        host = urlsplit(self.base_url).hostname or ""
        return None if self.is_emulator or host.endswith(FIREBASES) else host

    @property
    def is_administrator(self) -> bool:
        return _OVERRIDE not in self.parameters

    @property
    def user(self) -> str:
        """The user that the security rules see, for people."""
        if self.is_administrator:
            return "an administrator"
        override: object = json.loads(self.parameters[_OVERRIDE])
        uid = override.get("uid") if isinstance(override, dict) else None
        if uid is not None:
            return f"the user {uid!r}"
        return "nobody" if override is None else "a user without a uid"

    @property
    def suffix(self) -> str:
        """The part of a node's URL after its path."""
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in self.parameters.items())
        return f".json?{query}" if query else ".json"


def find_target(
    app: firebase_admin.App | None,
    database_url: str | None,
    environment: Mapping[str, str] = os.environ,
    *,
    uid: str | None = None,
) -> Target:
    """Return the target of an app.

    `database_url` has priority over the app's own. `uid` must agree with the app's override.
    """
    emulator_host = environment.get(EMULATOR_HOST)
    if emulator_host and not _is_host(emulator_host):
        value = "" if "@" in emulator_host else f"={emulator_host!r}"  # it may have a password before the @
        raise ConfigurationError(
            f"{EMULATOR_HOST}{value} must look like host:port, such as 127.0.0.1:9000, without a scheme; "
            "an IPv6 address has brackets: [::1]:9000"
        )
    # For an emulator the SDK, which is slow to load, is only asked what the program or its environment have told it.
    has_told = "firebase_admin" in sys.modules or os.environ.get("FIREBASE_CONFIG")
    if app is None and (has_told or not (emulator_host or (database_url or "").startswith("http:"))):
        app = _app()
    options = {} if app is None else app.options
    url = database_url or options.get("databaseURL") or (DEMO_URL if emulator_host else None)
    if not url:
        raise ConfigurationError(
            "no database is named: set FIRECRON_DATABASE_URL, or give the Firebase app the option databaseURL "
            "(https://<name>.firebaseio.com, or https://<name>.<region>.firebasedatabase.app); "
            "for a database on this machine, run 'firecron emulator -- COMMAND'"
        )
    parts = _parts(url)
    override = _auth_override(options, uid)
    namespace = parse_qs(parts.query).get("ns", [""])[0]
    if parts.scheme == "http":
        if not namespace:
            raise ConfigurationError(
                f"the database URL {redacted(url)!r} is that of an emulator, so it must name a database: add ?ns=<name>"
            )
        return Target(f"http://{parts.netloc}", {"ns": namespace, **override}, None)
    name = parts.netloc.split(".")[0]
    if namespace not in ("", name):
        # firebase-admin passes over `ns` here, also with an emulator.
        raise ConfigurationError(
            f"the database URL {redacted(url)!r} names two databases, {name!r} by its host, and {namespace!r} by ns: "
            f"remove the ns, or name an emulator's database by http://HOST:PORT?ns={namespace}"
        )
    if emulator_host:
        return Target(f"http://{emulator_host}", {"ns": name, **override}, None)
    found = app
    return Target(f"https://{parts.netloc}", override, lambda: _credential(found))


def _is_host(text: str) -> bool:
    found = _HOST.fullmatch(text)
    return found is not None and int(found["port"] or 0) in range(1, 65_536)


def _parts(url: str) -> SplitResult:
    """Return a database's URL in parts. Raise ConfigurationError, which says how the URL should look."""
    if (problem := unused_part(url)) is not None:
        raise ConfigurationError(f"the database URL can't be used: {problem}")
    named = f"the database URL {redacted(url)!r}"
    try:
        parts = urlsplit(url)
        host = parts.hostname
        parts.port  # noqa: B018  # raises if it is none
    except ValueError as error:
        raise ConfigurationError(f"{named} can't be used: {error}") from error
    if host is None or parts.scheme not in ("https", "http"):
        raise ConfigurationError(f"{named} must look like https://<name>.firebaseio.com")
    if not _HOST.fullmatch(parts.netloc):
        raise ConfigurationError(f"{named} can't be used: its host is none")
    if host == _CONSOLE:
        raise ConfigurationError(
            f"{named} is a page of the Firebase console: use the database's own URL, which the page shows above the "
            "data, such as https://<name>.firebaseio.com"
        )
    if parts.path.strip("/"):
        raise ConfigurationError(
            f"{named} has a path: give {parts.scheme}://{parts.netloc} alone; for nodes below a "
            f"path, set FIRECRON_PREFIX={parts.path.strip('/')}"
        )
    if parts.scheme == "http" and host.endswith(FIREBASES):
        raise ConfigurationError(f"{named} lacks the s of https: write https://{host}")
    return parts


def _app() -> firebase_admin.App:
    import firebase_admin

    for name in ((), (APP_NAME,)):
        try:
            return firebase_admin.get_app(*name)
        except ValueError:
            continue  # the program has no app of this name
    try:
        # Without options it reads FIREBASE_CONFIG, which may contain an override that must not get lost.
        return firebase_admin.initialize_app(name=APP_NAME)
    except ValueError as error:
        # The SDK's text quotes the whole configuration if it is no JSON, and so the traceback has no such error either.
        cause = error.__context__
        why = f"it is not valid json: {cause}" if isinstance(cause, json.JSONDecodeError) else error
        raise ConfigurationError(f"FIREBASE_CONFIG can't be used: {why}") from None


def warn_of_host(events: Events, target: Target) -> None:
    """Emit a WARNING if the access token is sent to a host that isn't Firebase's."""
    if target.unknown_host is not None:
        message = (
            f"The database URL's host is {target.unknown_host!r}, not a host of Firebase (*.firebaseio.com, "
            "*.firebasedatabase.app): this service's access token is sent there. Check FIRECRON_DATABASE_URL"
        )
        events.emit("database.unknown_host", "firecron", logging.WARNING, message)


def _auth_override(options: Mapping[str, object], uid: str | None) -> dict[str, str]:
    """Return what the rules see as `auth`. As in firebase-admin, None is no user, and an empty dict no override."""
    missing = object()
    override = options.get("databaseAuthVariableOverride", missing)
    if override is missing or override == {}:
        if uid is None:
            return {}
        override = {"uid": uid}
    if override is not None and not isinstance(override, dict):
        raise ConfigurationError(f"the app's databaseAuthVariableOverride={override!r} must be a dict or None")
    if uid is not None and (override is None or override.get("uid") != uid):
        raise ConfigurationError(
            f"the app's databaseAuthVariableOverride={override!r} is not the user of FIRECRON_UID={uid!r}: "
            "remove one of them, or let both name the same uid"
        )
    return {_OVERRIDE: json.dumps(override, separators=(",", ":"))}


def _credential(app: firebase_admin.App) -> Credential:
    credential: Credential = app.credential.get_credential()
    return credential
