"""The paths and the methods of the page, its headers, and what a POST has to bring."""

from __future__ import annotations

import io
from pathlib import Path

import flask
import pytest
from tests.page.paging import ACTING, MOUNT, OPEN, OWN, Page, Shell, asgi_call, attend, declare, declare_live, wsgi_call
from tests.stores.least_privilege import RULES

import firecron.page
from firecron.page.messages import FILES
from rtdb_emulator.pytest_plugin import Rtdb

STATIC = Path(firecron.page.__file__).parent / "static"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
)
READABLE = (
    "/",
    "/page.js",
    "/page.css",
    "/icon.svg",
    "/health",
    "/api/jobs",
    "/api/jobs/digest",
    "/api/jobs/digest/strip",
    "/api/jobs/digest/tracebacks/2026-11-18T09:00:00Z",
    "/api/strips",
    "/api/timeline",
    "/api/instances",
    "/api/acts",
)
ACTS = (
    *(f"/api/jobs/digest/{act}" for act in ("run", "pause", "resume", "unlock", "cancel", "mute", "unmute", "forget")),
    "/api/hold",
    "/api/unhold",
)
UNKNOWN = (
    "/page.html",
    "/static/page.js",
    "/../page.js",
    "/api",
    "/api/",
    "/api/jobs/",
    "/api/jobs/digest/",
    "/api/jobs/digest/mend",
    "/api/jobs/digest/run/now",
    "/api/jobs/digest/tracebacks",
    "/api/jobs/digest/tracebacks/latest",
    "/api/jobs/digest/tracebacks/2026-11-18T09:00:00Z/x",
    "/api/jobs/digest/tracebacks/2026-11-18T09:00:00Z-manual-../../x",
    "/api/jobs/9digest",
    "/api/jobs/di.gest",
    "/api/jobs/<script>",
    "/api/jobs/di\u202egest",
    "/api/jobs/di\x00gest",
    "/api/jobs/" + "a" * 101,
)


@pytest.fixture
def page(rtdb: Rtdb, shell: Shell) -> Page:
    declare_live(rtdb, "digest")
    return Page(shell=shell, **ACTING)


@pytest.mark.parametrize("path", READABLE)
def test_head_is_get_without_its_body(page: Page, path: str) -> None:
    """A path that can be read is 200 for GET and HEAD, with the same headers."""
    got, head = page.get(path), page.call("HEAD", path)
    assert (got.status, head.status, head.raw) == (200, 200, b"")
    assert head.headers["content-type"] == got.headers["content-type"]
    assert int(head.headers["content-length"]) > 0


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_what_can_be_read_takes_nothing_else(page: Page, method: str) -> None:
    """Another method is 405, with those that the path has."""
    for path in READABLE:
        reply = page.call(method, path, OWN, b"{}")
        assert (path, reply.said, reply.headers["allow"]) == (path, (405, "method_not_allowed"), "GET, HEAD")


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
def test_an_act_is_a_post(page: Page, method: str) -> None:
    """An act by another method, such as a link's, is 405 and does nothing."""
    for path in ACTS:
        reply = page.call(method, path, OWN, b"{}")
        assert (path, reply.status, reply.headers["allow"]) == (path, 405, "POST")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_other_paths_are_nothing(page: Page, method: str) -> None:
    """What is no path of the page is 404 in JSON, and what was asked for is not repeated."""
    for path in UNKNOWN:
        reply = page.call(method, path, OWN, b"{}")
        assert (path, reply.said) == (path, (404, "unknown_path"))
        assert reply.headers["content-type"] == "application/json"
        assert reply.body["message"] == "there is nothing at this path"


@pytest.mark.parametrize("path", [*READABLE, *ACTS, "/nothing"])
def test_every_reply_has_the_headers(page: Page, path: str) -> None:
    """The policy, and what keeps a reply out of caches, are on every reply, whatever its status."""
    headers = page.get(path).headers
    assert headers["content-security-policy"] == POLICY
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    ("mount", "query", "location"),
    [("/crons", "", "./crons/"), ("/a/b c", "?x=1", "./b%20c/?x=1"), ("/a:b", "", "./a%3Ab/")],
)
def test_the_mount_without_its_slash_leads_to_the_page(rtdb: Rtdb, mount: str, query: str, location: str) -> None:
    """The redirect is relative, so that it is right below any prefix that a proxy adds."""
    reply = asgi_call(Page().app, "GET", f"{mount}{query}", root_path=mount)
    assert (reply.status, reply.headers["location"]) == (307, location)


@pytest.mark.parametrize(
    ("shell", "status", "location"), [("flask", 307, "./crons/?x=1"), ("django", 301, "/crons/?x=1")]
)
def test_a_framework_leads_to_the_page_too(rtdb: Rtdb, shell: Shell, status: int, location: str) -> None:
    """Below a prefix of the server, without the mount's slash; Django's own redirect begins at the prefix."""
    reply = wsgi_call(Page(shell=shell).wsgi, "GET", "/crons?x=1", script="/prefix")
    assert (reply.status, reply.headers["location"].removeprefix("/prefix")) == (status, location)


@pytest.mark.parametrize("path", ["//evil.example/", "//api/jobs"])
@pytest.mark.parametrize("shell", ["flask"], indirect=True)
def test_two_slashes_lead_nowhere(page: Page, path: str) -> None:
    """Flask would redirect them, before anybody is asked who it is, to an address by the Host of the request."""
    reply = page.get(path)
    assert (reply.status, "location" in reply.headers) == (404, False)


@pytest.mark.parametrize("shell", ["flask", "django"])
def test_a_server_without_streams_says_so_quietly(rtdb: Rtdb, shell: Shell) -> None:
    """`/api/events` is an empty 204 there, which ends an EventSource without an error in the browser's console."""
    reply = Page(shell=shell).get("/api/events")
    assert (reply.status, reply.raw) == (204, b"")


def test_the_files_are_all_that_the_page_loads() -> None:
    """The page has no other address in it, and a file that is there is served. How large it may be: test_scripts.py."""
    files = sorted(STATIC.iterdir())
    assert [file.name for file in files] == sorted(FILES.values())
    for file in files:
        text = file.read_text("utf-8")
        assert "innerHTML" not in text
        assert 'src="/' not in text
        assert 'href="/' not in text


# --- a POST of another site


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({}, (403, "cross_site")),
        ({"Sec-Fetch-Site": "cross-site"}, (403, "cross_site")),
        ({"Sec-Fetch-Site": "same-site"}, (403, "cross_site")),
        ({"Sec-Fetch-Site": "none"}, (403, "cross_site")),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "https://page.example"}, (403, "cross_site")),
        ({"Origin": "https://evil.example"}, (403, "cross_site")),
        ({"Origin": "https://page.example.evil.example"}, (403, "cross_site")),
        ({"Origin": "https://page.example:8443"}, (403, "cross_site")),
        ({"Origin": "null"}, (403, "cross_site")),
        ({"Origin": "page.example"}, (403, "cross_site")),
        ({"Origin": "https://[page.example"}, (403, "cross_site")),
        ({"Sec-Fetch-Site": "same-origin"}, None),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://page.example"}, None),
        ({"Origin": "https://page.example"}, None),
        ({"Origin": "http://PAGE.example"}, None),
    ],
    ids=repr,
)
def test_another_sites_post_does_nothing(page: Page, headers: dict[str, str], said: tuple[int, str] | None) -> None:
    """Only the page's own origin may POST, whatever credentials the browser has added."""
    for path in ACTS:
        reply = page.call("POST", path, {"Content-Type": "application/json", **headers}, b"{}")
        assert (path, reply.said if reply.status == 403 else None) == (path, said)


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp", ""]
)
def test_a_form_is_no_json(page: Page, kind: str | None) -> None:
    """What a form of another site can send, without asking first, is 415."""
    headers = {"Sec-Fetch-Site": "same-origin", **({} if kind is None else {"Content-Type": kind})}
    assert page.call("POST", ACTS[0], headers, b"{}").said == (415, "not_json")


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8"])
def test_json_is_json(page: Page, kind: str) -> None:
    """Its media type may have parameters, and capitals."""
    assert page.call("POST", ACTS[0], {**OWN, "Content-Type": kind}, b"{}").status == 202


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", (400, "bad_request")),
        (b"{", (400, "bad_request")),
        (b"[]", (400, "bad_request")),
        (b'"run"', (400, "bad_request")),
        (b"\xff\xfe", (400, "bad_request")),
        (b"[" * 50_000, (400, "bad_request")),
        (b'{"why": "' + b"x" * 70_000 + b'"}', (413, "too_large")),
        (b" " * 65_537, (413, "too_large")),
        (b'{"resume": 5}', (400, "bad_request")),
        (b'{"resume": "yesterday"}', (400, "bad_request")),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_body_that_says_nothing_is_refused(page: Page, body: bytes, said: tuple[int, str]) -> None:
    """What is no JSON object is 400; more than 64 kB is 413, and isn't read on."""
    assert page.call("POST", "/api/jobs/digest/run", OWN, body).said == said


def test_a_body_that_breaks_off_does_nothing(rtdb: Rtdb, page: Page) -> None:
    """A client that leaves in the middle has not said all, however well what has come reads by itself."""
    reply = page.call("POST", "/api/jobs/digest/pause", {**OWN, "Content-Length": "20"}, b"{}")
    assert reply.said == (400, "bad_request")
    assert rtdb.get("/cron-locks/digest") is None


@pytest.mark.parametrize("shell", ["flask", "django"], indirect=True)
def test_a_body_that_cannot_be_read_is_no_error_of_the_page(page: Page) -> None:
    """A server raises an error of its own for a client that has left: that is a 400, and nothing is logged."""

    class Broken(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, into: object) -> int:
            raise OSError("no more data")

    inner = page.wsgi
    chunked = {"wsgi.input": Broken(), "wsgi.input_terminated": True}
    page.wsgi = lambda environ, start: inner({**environ, **chunked}, start)
    assert page.post("/api/jobs/digest/pause").said == (400, "bad_request")
    assert page.events == []


@pytest.mark.parametrize("shell", ["flask"], indirect=True)
def test_a_body_that_the_program_has_read_is_still_there(rtdb: Rtdb, page: Page) -> None:
    """Some programs look into every request, such as to log it."""
    app = flask.Flask("test")
    app.register_blueprint(page.crons.status_blueprint(**ACTING), url_prefix=MOUNT)
    app.before_request(lambda: (flask.request.get_data(), None)[1])
    page.wsgi = app.wsgi_app
    assert page.post("/api/jobs/digest/pause", {"why": "x"}).status == 200


# --- read-only


@pytest.mark.parametrize("path", ACTS)
def test_read_only_is_no_button_and_405(rtdb: Rtdb, path: str) -> None:
    """On a page that is read-only nobody can act, and the API says so itself."""
    declare(rtdb, "digest")
    page = Page(**ACTING, read_only=True)
    seen = page.get("/api/jobs").body
    assert (seen["visitor"]["canAct"], seen["readOnly"]) == (False, True)
    reply = page.post(path)
    assert (reply.said, reply.headers["allow"]) == ((405, "read_only"), "")


def test_a_read_only_page_needs_no_more_than_to_read(rtdb: Rtdb) -> None:
    """As the rules' second user each part of the page is shown as to an administrator, and nothing is written."""
    declare(rtdb, "digest")
    attend(rtdb, "digest")
    ours = Page(read_only=True, **OPEN)
    told = {path: (ours.get(path).status, ours.get("/api/jobs").body["jobs"]) for path in READABLE}
    before = rtdb.get("/")
    rtdb.set_rules(RULES)
    page = Page(settings={"uid": "firecron-reader"}, read_only=True, **OPEN)
    assert {path: (page.get(path).status, page.get("/api/jobs").body["jobs"]) for path in READABLE} == told
    assert rtdb.get("/") == before


@pytest.mark.parametrize("path", ACTS)
def test_a_visitor_who_may_only_look_is_told_so(rtdb: Rtdb, path: str) -> None:
    """Without `can_act` a POST is 403."""
    declare(rtdb, "digest")
    assert Page(**OPEN).post(path).said == (403, "forbidden")
