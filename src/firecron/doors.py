"""The HTTP doors of a `FireCron`: its methods that return something to mount, such as `crons.trigger_app(...)`.

The functions here are methods of `FireCron`, which has them under the same names. They load the framework and the room
behind the door when they are called. None of them starts a job or reads the database.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Literal, Protocol, Unpack

if TYPE_CHECKING:
    import flask

    from firecron.base.events import Events
    from firecron.jobs.registry import Registry
    from firecron.lock.service import LockService
    from firecron.ops.health_report import HealthReport
    from firecron.page.asgi import StatusApp
    from firecron.page.desk import Desk
    from firecron.page.gates import AccessFunction, PageOptions, Ways
    from firecron.page.live import Live
    from firecron.runs.history import History
    from firecron.settings import Settings
    from firecron.triggers.access import OneOrMore
    from firecron.triggers.asgi import TriggerApp
    from firecron.triggers.handler import Handler
    from firecron.triggers.verifier import Verifier


class Program(AbstractAsyncContextManager[object], Protocol):
    """The parts of a `FireCron` that its doors need. Entered and left, it starts and stops its jobs."""

    settings: Settings
    locks: LockService
    events: Events
    history: History
    registry: Registry
    health: HealthReport


def trigger_app(
    self: Program,
    *,
    audience: OneOrMore | None = None,
    email: OneOrMore | None = None,
    trust_cloud_run_iam: bool = False,
    verifier: Verifier | None = None,
    health_email: OneOrMore | None = None,
) -> TriggerApp:
    """Return an ASGI application that runs a job at a request, such as Cloud Scheduler's: `POST /<name>`.

    Mount it, or serve it alone: then jobs start and stop with the server. No caller is allowed by default. Give
    either `audience` and `email`, or `trust_cloud_run_iam`, or a `verifier`.

    Args:
        audience: The audience of the caller's OIDC token: the URL of the service, or several.
        email: The service account of the token, or several.
        trust_cloud_run_iam: True if Cloud Run asks IAM before each request; then no token is verified here.
        verifier: A `Verifier` of your own, instead of the three above.
        health_email: With `audience` and `email`: the account of a monitoring service, or several, which may read
            `GET /health`, and run nothing.
    """
    from firecron.triggers.asgi import TriggerApp

    handler = _handler(self, audience, email, trust_cloud_run_iam, verifier, health_email)
    return TriggerApp(handler, self, self.settings.workers)


def trigger_blueprint(
    self: Program,
    *,
    audience: OneOrMore | None = None,
    email: OneOrMore | None = None,
    trust_cloud_run_iam: bool = False,
    verifier: Verifier | None = None,
    health_email: OneOrMore | None = None,
    name: str = "firecron",
) -> flask.Blueprint:
    """Return the triggers for Flask: `app.register_blueprint(crons.trigger_blueprint(...), url_prefix="/cron")`.

    Args:
        audience, email, trust_cloud_run_iam, verifier, health_email: As with `trigger_app`.
        name: The blueprint's name, if an application has two.
    """
    from firecron.triggers.blueprint import make_blueprint

    handler = _handler(self, audience, email, trust_cloud_run_iam, verifier, health_email)
    return make_blueprint(handler, name)


def status_app(
    self: Program,
    *,
    access: AccessFunction | None = None,
    basic: tuple[str, str] | None = None,
    iap_audience: OneOrMore | None = None,
    audience: OneOrMore | None = None,
    email: OneOrMore | None = None,
    open_to_all: Literal["read"] | None = None,
    read_only: bool = False,
    open_health: bool = False,
) -> StatusApp:
    """Return an ASGI application with the page: `app.mount("/crons", crons.status_app(access=access))`.

    Mount it, or serve it alone: then jobs start and stop with the server. No visitor is served by default. Give one of
    `access`, `basic`, `iap_audience`, `audience` with `email`, or `open_to_all`.

    Args:
        access: A function of a `Visitor` that returns an `Access`, or None to refuse. It may be async.
        basic: A user and a password, which the browser asks for. They need TLS.
        iap_audience: The audience of Identity-Aware Proxy's assertion, such as
            `/projects/NUMBER/locations/REGION/services/SERVICE`, or several.
        audience: The audience of an OIDC token, as with `trigger_app`; with `email`.
        email: The account of the token, or several.
        open_to_all: "read" lets everybody look, and nobody act.
        read_only: Whether nobody may do more than look.
        open_health: Whether `/health` is served to everybody.
    """
    from firecron.page.asgi import StatusApp

    desk, live = _page(
        self,
        may_wait=True,
        read_only=read_only,
        open_health=open_health,
        access=access,
        basic=basic,
        iap_audience=iap_audience,
        audience=audience,
        email=email,
        open_to_all=open_to_all,
    )
    return StatusApp(desk, live, self.settings.workers, self)


def status_blueprint(self: Program, *, name: str = "firecron_page", **options: Unpack[PageOptions]) -> flask.Blueprint:
    """Return the page for Flask: `app.register_blueprint(crons.status_blueprint(...), url_prefix="/crons")`.

    Args:
        name: The blueprint's name, if an application has two.
        options: As with `status_app`; `access` can't be async.
    """
    from firecron.page.blueprint import make_page_blueprint

    desk, _ = _page(self, may_wait=False, **options)
    return make_page_blueprint(desk, name)


def status_urls(self: Program, **options: Unpack[PageOptions]) -> list[object]:
    """Return the page for Django: `path("crons/", include(crons.status_urls(...)))`.

    Args:
        options: As with `status_app`; `access` can't be async.
    """
    from firecron.page.django import make_urls

    desk, _ = _page(self, may_wait=False, **options)
    return make_urls(desk)


def _page(
    crons: Program, *, may_wait: bool, read_only: bool = False, open_health: bool = False, **ways: Unpack[Ways]
) -> tuple[Desk, Live]:
    from firecron.page.gates import choose_gate
    from firecron.page.making import make_page

    gate = choose_gate(crons.events, may_wait=may_wait, **ways)
    return make_page(gate, crons.locks, crons.registry, crons.health, read_only=read_only, open_health=open_health)


def _handler(
    crons: Program,
    audience: OneOrMore | None,
    email: OneOrMore | None,
    trust_cloud_run_iam: bool,
    verifier: Verifier | None,
    health_email: OneOrMore | None,
) -> Handler:
    from firecron.triggers.access import choose_access
    from firecron.triggers.handler import Handler

    access = choose_access(crons.events, audience, email, trust_cloud_run_iam, verifier, health_email)
    return Handler(crons.registry, crons.locks, crons.history, crons.health, access)
