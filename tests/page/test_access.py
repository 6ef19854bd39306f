"""Who is served: exactly one way to say it, and what each way lets through."""

from __future__ import annotations

import logging
import os
from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Any

import flask
import pytest
from django.http import HttpRequest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount
from tests.page.paging import OPEN, Page, Reply, Shell, asgi_call, basic, declare

from firecron import Access, ConfigurationError, FireCron, Visitor
from firecron.base.clocks import Deadline
from firecron.lock.database import Database
from firecron.testing import FakeTiming
from rtdb_emulator.pytest_plugin import Rtdb

PASSWORD = "correct horse"
BASIC: dict[str, Any] = {"basic": ("ops", PASSWORD)}


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"read_only": True},
        {"open_health": True},
        {"basic": ("ops", "x"), "open_to_all": "read"},
        {"access": lambda visitor: None, "basic": ("ops", "x")},
        {"iap_audience": "/projects/1/locations/r/services/s", "audience": "a", "email": "a@example.com"},
        {"audience": "https://api.example"},
        {"email": "ops@example.com"},
        {"audience": "", "email": "ops@example.com"},
        {"open_to_all": "write"},
        {"open_to_all": True},
        {"basic": "ops:x"},
        {"basic": ("o:ps", "x")},
        {"basic": ("ops", "x", "y")},
        {"access": "everybody"},
        {"iap_audience": ""},
        {"iap_audience": []},
    ],
    ids=lambda given: "-".join(given) or "nothing",
)
def test_a_page_says_whom_it_serves(given: dict[str, Any]) -> None:
    """Without exactly one way, or with one that says nothing, there is no page."""
    with pytest.raises(ConfigurationError):
        FireCron(enabled=False).status_app(**given)


@pytest.mark.parametrize("shell", ["status_app", "status_blueprint", "status_urls"])
def test_an_option_that_is_misspelt_is_an_error(shell: str) -> None:
    """Left aside, it would leave a page that was meant to be read-only with its buttons."""
    with pytest.raises(TypeError, match="readonly"):
        getattr(FireCron(enabled=False), shell)(**BASIC, readonly=True)


def test_a_password_is_never_part_of_an_error() -> None:
    """What is wrong with a pair is told without its password."""
    with pytest.raises(ConfigurationError) as raised:
        FireCron(enabled=False).status_app(basic=("o:ps", PASSWORD))
    assert PASSWORD not in str(raised.value)


# --- basic


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        (basic("ops", "wrong"), 401),
        (basic("other", PASSWORD), 401),
        (basic("ops", PASSWORD + " "), 401),
        ({"Authorization": "Basic !!!"}, 401),
        ({"Authorization": "Basic"}, 401),
        ({"Authorization": "Bearer " + PASSWORD}, 401),
        (basic("ops", PASSWORD), 200),
        ({"Authorization": basic("ops", PASSWORD)["Authorization"].replace("Basic", "bAsIc")}, 200),
    ],
    ids=repr,
)
@pytest.mark.parametrize("path", ["/", "/page.js", "/health", "/api/jobs", "/nothing"])
def test_basic_asks_for_the_password(rtdb: Rtdb, headers: dict[str, str], status: int, path: str) -> None:
    """Each path asks for the one user and the one password, and says how to send them."""
    declare(rtdb, "digest", disabled=True)
    reply = Page(**BASIC).get(path, headers)
    assert reply.status == (404 if (status, path) == (200, "/nothing") else status)
    challenge = 'Basic realm="firecron", charset="UTF-8"' if status == 401 else None
    assert reply.headers.get("www-authenticate") == challenge


def test_a_password_may_have_any_characters(rtdb: Rtdb) -> None:
    """Colons and letters of any language are part of the password."""
    page = Page(basic=("öps", "p:ä:s"))
    assert page.get("/", basic("öps", "p:ä:s")).status == 200
    # A variable may hold bytes that are no UTF-8.
    page = Page(basic=("ops", os.fsdecode(b"p\xe4s")))
    header = {"Authorization": "Basic " + b64encode(b"ops:p\xe4s").decode()}
    assert (page.get("/", header).status, page.get("/", basic("ops", "päs")).status) == (200, 401)


@pytest.mark.parametrize(
    ("scope", "headers", "warns"),
    [
        ({}, {}, True),
        ({"client": None}, {}, True),
        ({}, {"X-Forwarded-Proto": "http"}, True),
        ({}, {"X-Forwarded-Proto": "https"}, False),
        ({}, {"X-Forwarded-Proto": "https, http"}, False),
        ({"scheme": "https"}, {}, False),
    ],
)
def test_a_password_without_tls_is_a_warning_once(
    rtdb: Rtdb, scope: dict[str, Any], headers: dict[str, str], warns: bool
) -> None:
    """The first request without TLS is a WARNING, also from this machine: a proxy on it may have received the password
    like that. With TLS, here or at the proxy, there is none.
    """
    page = Page(**BASIC)
    for _ in range(2):
        page.get("/", {**headers, **basic("ops", PASSWORD)}, **scope)
    assert [event.level for event in page.said("page.insecure")] == ([logging.WARNING] if warns else [])


def test_a_refusal_is_logged_without_what_was_sent(rtdb: Rtdb) -> None:
    """A wrong password is a WARNING without it; a browser's first request, which has none, is none."""
    page = Page(**BASIC)
    page.get("/")
    assert page.said("page.denied") == []
    page.get("/", basic("ops", "not-this-one"))
    [event] = page.said("page.denied")
    assert (event.level, event.fields["status"]) == (logging.WARNING, 401)
    assert "not-this-one" not in event.message


def test_many_refusals_are_a_line_a_minute(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """With their number; another cause has its own line, and so has an error."""
    timing = FakeTiming()
    monkeypatch.setattr(Database, "deadline", lambda self, seconds=10: Deadline.after(timing, seconds))
    who: list[Access | None] = [None]
    page = Page(access=lambda visitor: who[0])
    wrong = Page(**BASIC)
    for _ in range(3):
        page.get("/")
        wrong.get("/", basic("ops", "wrong"))
        wrong.get("/", {"Authorization": "Bearer x"})
    timing.advance(59.9)
    page.get("/")
    who[0] = "nobody"  # type: ignore[call-overload]  # as a program without types returns
    for _ in range(3):
        page.get("/")
    who[0] = None
    timing.advance(0.1)
    page.get("/")
    assert [event.fields["count"] for event in page.said("page.denied")] == [1, 4]
    assert page.said("page.denied")[1].message.endswith(
        "you may not see this page; with 3 more since the last such line"
    )
    assert [event.fields["count"] for event in page.said("page.failed")] == [1]
    assert [event.fields["status"] for event in wrong.said("page.denied")] == [401, 401]


@pytest.mark.parametrize("pair", [("ops", " "), ("ops", "\t\n"), (" ", "secret"), ("", "secret"), ("ops", "")])
def test_a_blank_user_or_password_is_refused(rtdb: Rtdb, pair: tuple[str, str]) -> None:
    """As from a variable that has only a line break: it would let everybody in who guesses that."""
    with pytest.raises(ConfigurationError, match="needs a user without a colon, and a password that is not blank"):
        Page(basic=pair)


# --- a function of the program's


@pytest.mark.parametrize(("shell", "kind"), [("asgi", dict), ("flask", flask.Request), ("django", HttpRequest)])
def test_access_sees_the_request_and_decides(rtdb: Rtdb, shell: Shell, kind: type) -> None:
    """`access` gets method, path below the mount, headers by any case, and the framework's request."""
    seen: list[Visitor] = []

    def access(visitor: Visitor) -> Access | None:
        seen.append(visitor)
        assert isinstance(visitor.request_as(kind), kind)
        return Access("ops@example.com") if visitor.headers.get("x-USER") else None

    page = Page(shell=shell, access=access)
    assert page.get("/api/jobs").said == (403, "forbidden")
    reply = page.get("/api/jobs", {"X-User": "ops"})
    assert (reply.status, reply.body["visitor"]) == (200, {"who": "ops@example.com", "canAct": False})
    assert [(one.method, one.path) for one in seen] == [("GET", "/api/jobs")] * 2


def test_visitors_share_the_jobs_and_not_their_rights(rtdb: Rtdb) -> None:
    """What was read for one visitor serves the other, but the ETag of one is not the other's: each is told who it is,
    and what it may do now.
    """
    acting = {"ops@example.com"}

    def access(visitor: Visitor) -> Access | None:
        who = visitor.headers["x-user"]
        return Access(who, can_act=who in acting)

    page = Page(access=access)

    def get(who: str, etag: str = "") -> Reply:
        return page.get("/api/jobs", {"X-User": who, "If-None-Match": etag})

    ops, guest = get("ops@example.com"), get("guest@example.com")
    assert rtdb.count(path="/cron-locks") == 1
    assert (ops.body["visitor"]["canAct"], guest.body["visitor"]["canAct"]) == (True, False)
    for who, etag in (("ops@example.com", guest), ("guest@example.com", ops)):
        assert get(who, etag.headers["etag"]).body["visitor"]["who"] == who
    acting.clear()
    assert get("ops@example.com", ops.headers["etag"]).body["visitor"]["canAct"] is False


@pytest.mark.parametrize("shell", ["flask", "django"])
def test_async_access_needs_asgi(rtdb: Rtdb, shell: Shell) -> None:
    """Where nothing can wait for it, an async function is an error at once; one that hides it lets nobody in."""

    async def access(visitor: Visitor) -> Access | None:
        return Access("ops@example.com", can_act=True)

    with pytest.raises(ConfigurationError, match="async"):
        Page(shell=shell, access=access)
    hidden: Callable[[Visitor], Awaitable[Access | None]] = lambda visitor: access(visitor)  # noqa: E731, PLW0108
    page = Page(shell=shell, access=hidden)
    assert page.get("/").said == (500, "error")


def test_starlette_gives_its_own_request(rtdb: Rtdb) -> None:
    """Mounted in Starlette, what `access` sees is Starlette's request, with what the program's middleware put there."""
    seen: list[object] = []
    page = Page(access=lambda visitor: seen.append(visitor.request))
    asgi_call(Starlette(routes=[Mount("/crons", app=page.app)]), "GET", "/crons/api/jobs")
    [request] = seen
    assert isinstance(request, Request)
    assert request.url.path == "/crons/api/jobs"


def test_access_may_be_async(rtdb: Rtdb) -> None:
    """Under ASGI an async function is awaited; it may allow acting."""

    async def access(visitor: Visitor) -> Access | None:
        return Access("ops@example.com", can_act=True) if visitor.path != "/health" else None

    page = Page(access=access)
    assert page.get("/api/jobs").body["visitor"] == {"who": "ops@example.com", "canAct": True}
    assert page.get("/health").status == 403


@pytest.mark.parametrize("returned", [True, "ops", Access, 0, Access(""), Access(" "), Access(5)])  # type: ignore[arg-type]  # on purpose
def test_access_that_returns_something_else_lets_nobody_in(rtdb: Rtdb, returned: object) -> None:
    """A function that forgets to make an Access is an error, and no entrance; the visitor isn't told what."""
    page = Page(access=lambda visitor: returned)
    reply = page.get("/")
    assert reply.said == (500, "error")
    assert "see the log" in reply.body["message"]
    assert [event.level for event in page.said("page.failed")] == [logging.ERROR]


def test_a_request_of_another_type_lets_nobody_in(rtdb: Rtdb) -> None:
    """The log says which type it is; under ASGI it is Starlette's only where the page is mounted in Starlette."""

    def access(visitor: Visitor) -> Access | None:
        return Access(visitor.request_as(Request).url.path)

    page = Page(access=access)
    assert [page.get("/api/jobs").status, page.get("/api/jobs", app=object()).status] == [500, 500]
    [event] = page.said("page.failed")
    assert "the request is a dict, and no Request" in event.message
    assert page.get("/api/jobs", app=Starlette()).body["visitor"]["who"] == "/crons/api/jobs"


def test_access_that_raises_lets_nobody_in(rtdb: Rtdb) -> None:
    """An error in the function is in the log, and not in the reply."""

    def access(visitor: Visitor) -> Access | None:
        raise RuntimeError("the session is broken")

    async def later(visitor: Visitor) -> Access | None:
        return access(visitor)

    for given in (access, later):
        page = Page(access=given)
        reply = page.get("/api/jobs")
        assert (reply.status, "session" in reply.body["message"]) == (500, False)
        [event] = page.said("page.failed")
        assert "the session is broken" in event.message


# --- the rest


def test_open_to_all_shows_and_lets_nobody_act(rtdb: Rtdb) -> None:
    """Everybody sees the jobs; nobody can act, and a POST is 403."""
    page = Page(**OPEN)
    assert page.get("/api/jobs").body["visitor"] == {"who": "anybody", "canAct": False}
    assert page.post("/api/jobs/digest/run").said == (403, "forbidden")
    [event] = page.said("page.open")
    assert event.level == logging.INFO


def test_open_health_opens_health_alone(rtdb: Rtdb) -> None:
    """With `open_health` an uptime check needs nothing; everything else does."""
    declare(rtdb, "digest", disabled=True)
    page = Page(**BASIC, open_health=True)
    assert page.get("/health").status == 200
    assert page.call("HEAD", "/health").raw == b""
    assert {page.get(path).status for path in ("/", "/api/jobs", "/health/", "/api/health")} == {401}
