"""The requests to the page, and its replies: who asks for what, and what keeps both safe in a browser. Pure.

Others rely on the paths `/`, `/health`, `/api/jobs`, `/api/jobs/<name>`, `/api/events` and the acts below a job.

    403   a POST that another site may have sent
    415   a POST without JSON: a form of another site can send no JSON
    421   on loopback, another Host: a name that an attacker's DNS has led here

The page runs no script but its own: the policy allows only its own file, and no text becomes markup. No reply is stored
by a browser or a proxy.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, TypeVar, get_args
from urllib.parse import urlsplit

from firecron.base.texts import redacted
from firecron.ops.remedy import Remedy
from firecron.store import is_entry_name, is_name
from firecron.web import SiteReply, SiteRequest

# --- the paths below the mount

Kind: TypeAlias = Literal[
    "slash",
    "file",
    "health",
    "jobs",
    "job",
    "strip",
    "strips",
    "traceback",
    "schedules",
    "count",
    "timeline",
    "instances",
    "acts",
    "events",
    "act",
]
JobAct: TypeAlias = Literal["run", "pause", "resume", "unlock", "cancel", "mute", "unmute", "forget"]
# On many jobs, so at a path of its own.
FleetAct: TypeAlias = Literal["hold", "unhold"]
PageAct: TypeAlias = JobAct | FleetAct

ACTS: tuple[JobAct, ...] = get_args(JobAct)
# Those that an entry of a stored job has as well: it is not in the catalogue, and people are told of its job alone.
ENTRY_ACTS: tuple[JobAct, ...] = ("run", "pause", "resume", "unlock", "cancel")
FLEET_ACTS: tuple[FleetAct, ...] = get_args(FleetAct)
# A script each. `page.js` begins; the page's HTML names all, so that a browser asks for them at once.
MODULES = (
    "acts", "axis", "deeds", "dom", "entries", "holds", "job", "known", "legend", "list", "live", "menu", "overview",
    "page", "pictures", "runs", "server", "strip", "tables", "time", "timeline", "views", "words",
)  # fmt: skip
FILES = {"/": "page.html", **{f"/{name}": name for name in ("page.css", "icon.svg", *(f"{one}.js" for one in MODULES))}}
_FIXED: dict[str, Kind] = {
    "": "slash",
    **dict.fromkeys(FILES, "file"),
    "/health": "health",
    "/api/jobs": "jobs",
    "/api/strips": "strips",
    "/api/timeline": "timeline",
    "/api/instances": "instances",
    "/api/acts": "acts",
    "/api/events": "events",
}


# The key of a run in the history: a tick, or the start of a run by hand or of a leader's term; of an entry's run with
# the entry's key.
_KEY = re.compile(r"[0-9TZ:-]{20}(?:-(?:manual|term)-[0-9a-f]{1,20})?(?::[A-Za-z0-9_-]{1,60})?")


@dataclass(frozen=True, slots=True)
class Route:
    """What a path names. `name` is the job or lock, `act` what is to be done to it, `key` the run; empty where there is
    none.
    """

    kind: Kind
    name: str = ""
    act: PageAct | None = None
    key: str = ""

    @property
    def methods(self) -> tuple[str, ...]:
        return ("POST",) if self.kind == "act" else ("GET", "HEAD")


def find_route(path: str) -> Route | None:
    """Return what the path below the mount names; None if it names nothing."""
    if path in _FIXED:
        return Route(_FIXED[path])
    for act in FLEET_ACTS:
        if path == f"/api/{act}":
            return Route("act", act=act)
    if not path.startswith("/api/jobs/"):
        return None
    name, *below = path.removeprefix("/api/jobs/").split("/")
    if not is_name(name) and not is_entry_name(name):
        return None
    if not below:
        return Route("job", name)
    if below == ["strip"]:
        return Route("strip", name)
    if len(below) == 2 and below[0] == "tracebacks" and _KEY.fullmatch(below[1]):
        return Route("traceback", name, key=below[1])
    if is_name(name) and below == ["schedules"]:
        return Route("schedules", name)
    if is_name(name) and below == ["schedules", "count"]:
        return Route("count", name)
    of_job = next((act for act in (ACTS if is_name(name) else ENTRY_ACTS) if below == [act]), None)
    return None if of_job is None else Route("act", name, of_job)


# --- the visitor: `access` is called with a `Visitor` and returns an `Access`

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Visitor:
    """A request for the page, for the function `access` that decides who is served.

    Args:
        method: The method, such as `GET`.
        path: The path below the mount, such as `/api/jobs`.
        headers: The headers. Upper and lower case are the same in their names.
        request: The framework's own request: Starlette's or FastAPI's `SiteRequest`, Flask's `request`, Django's
            `HttpRequest`; under ASGI without Starlette the scope.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    request: object

    def request_as(self, kind: type[T]) -> T:
        """Return the framework's own request, of this type, so that a type checker knows it.

        Raise TypeError if it is of another type: then nobody is let in, and the log says so.

        Args:
            kind: The type, such as Starlette's `SiteRequest`.
        """
        if not isinstance(self.request, kind):
            raise TypeError(f"the request is a {type(self.request).__name__}, and no {kind.__name__}")
        return self.request


@dataclass(frozen=True, slots=True)
class Access:
    """What a visitor of the page may do: look, and with `can_act` also run, pause, resume, hold, unlock, cancel, mute
    and forget.

    Args:
        who: The visitor's name, such as an e-mail address. It stands beside what the visitor does.
        can_act: Whether the visitor may do more than look.
    """

    who: str
    can_act: bool = False


# --- the replies

_WORTH_IT = 1_000
_LEVEL = 4
_GZIP = re.compile(r"\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))")


def compressed(reply: SiteReply, accepted: str) -> SiteReply:
    """Return the response by gzip, if the client accepts that (`Accept-Encoding`) and it is worth it."""
    if len(reply.body) < _WORTH_IT or not _GZIP.search(accepted):
        return reply
    # Without a time in it, the same body is the same bytes.
    body = gzip.compress(reply.body, _LEVEL, mtime=0)
    return replace(reply, body=body, headers={**reply.headers, "Content-Encoding": "gzip", "Vary": "Accept-Encoding"})


def as_json(status: int, body: object, headers: Mapping[str, str] | None = None) -> SiteReply:
    encoded = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return SiteReply(status, encoded, {"Content-Type": "application/json", **(headers or {})})


def problem(
    status: int, error: str, message: str, headers: Mapping[str, str] | None = None, remedy: Remedy | None = None
) -> SiteReply:
    """Return the response that says why something was not done. An error of the database may quote a secret."""
    fields = {"error": error, "message": redacted(message), "remedy": remedy and remedy.to_json()}
    return as_json(status, fields, headers)


# --- safety, besides access: headers, the sender of a POST, and the Host

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}

# The addresses of a page without a password: those at which a browser may open it.
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_LOOPBACK_HOST = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE)


def secured(reply: SiteReply) -> SiteReply:
    """Return the reply with the headers that every reply has."""
    return replace(reply, headers={**HEADERS, **reply.headers})


def foreign_host(request: SiteRequest) -> SiteReply | None:
    """Return the refusal of a request to loopback whose Host is another name; None if it is one of loopback's."""
    if _LOOPBACK_HOST.fullmatch(request.headers.get("host", "")):
        return None
    message = "this page is served on loopback only: open it as localhost, 127.0.0.1 or [::1]"
    return problem(421, "misdirected", message)


def foreign_post(request: SiteRequest) -> SiteReply | None:
    """Return the refusal of a POST that the page has not sent itself; None if it has."""
    site = request.headers.get("sec-fetch-site")
    if site != "same-origin" and (site is not None or not _is_own_origin(request)):
        message = (
            "the request doesn't come from this page: a program sends the header Sec-Fetch-Site: same-origin, a proxy "
            "leaves Origin and Host as they are"
        )
        return problem(403, "cross_site", message)
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return problem(415, "not_json", "send JSON, with the header Content-Type: application/json")
    return None


def is_encrypted(request: SiteRequest) -> bool:
    """Return whether the visitor's connection has TLS, as far as the request and the headers of a proxy tell."""
    forwarded = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return "https" in (request.scheme, forwarded)


def _is_own_origin(request: SiteRequest) -> bool:
    origin, host = request.headers.get("origin"), request.headers.get("host")
    if not origin or not host:
        return False
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False
