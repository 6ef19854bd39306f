"""Pings: tell a monitoring service of each run, so that it raises the alarm if one does not come.

    from firecron.pings import pings

    pings(crons, healthchecks=PING_KEY)  # or start=, success= and fail=, each the template of a URL

Only the instance that runs a tick speaks, so any number of instances make one ping at a run's start and one at its end.
A run without a tick, such as a run by hand, sends none, and neither does an instance outside of production. A run that
is interrupted sends nothing at its end either: the instance that reruns it does, or the service misses it.

No ping delays a run: pings wait in an `outbox`, whose thread sends them in their order. Each has five seconds and two
tries. If the service accepts neither, or the queue is full, the event `ping.failed` says so. What still waits when the
instance stops has two more seconds, within its grace.

A ping's URL is a secret: a program that knows it can send pings. It is in no log and in no error.
"""

from __future__ import annotations

import logging
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import quote

from firecron.base.events import Event, Events
from firecron.base.identity import attempt_id
from firecron.errors import ConfigurationError, UnknownJob
from firecron.outbox import Http, NotTaken, Outbox, check_reply, is_url, last_moments, report_runs
from firecron.store import split_name

if TYPE_CHECKING:
    from firecron.app import FireCron

Kind: TypeAlias = Literal["start", "success", "fail"]

HEALTHCHECKS = "https://hc-ping.com"
TIMEOUT = 5.0

_LONGEST_ERROR = 1_000
# In a URL a character takes up to 12, and servers take some 8,000.
_LONGEST_IN_URL = 500
_FIELDS = frozenset(("job", "slug", "rid", "error"))
_KEY = re.compile(r"[A-Za-z0-9_-]{8,64}")
# Which ping an event is. A run that is lost may still go on, without its lock: that needs a look, too.
_KINDS: Mapping[str, Kind] = {
    "run.started": "start",
    "run.succeeded": "success",
    "run.failed": "fail",
    "run.lost": "fail",
}


def pings(
    crons: FireCron,
    *,
    healthchecks: str | None = None,
    start: str | None = None,
    success: str | None = None,
    fail: str | None = None,
) -> Callable[[], None]:
    """Send pings from now on. Return a function that ends this, once the waiting pings have had two seconds.

    Give either `healthchecks` or at least one template of a URL. Its fields are `{job}`, `{slug}` (the job's name in
    lower case), `{rid}` (a UUID that the pings of one run share) and `{error}`. Their values are quoted for a URL.

    A start is sent only for jobs with `expected_runtime`: after a start a service expects the end, and raises the alarm
    if it doesn't come in time.

    Args:
        crons: The jobs.
        healthchecks: The ping key of a Healthchecks project, or the URL of a server of your own with the key, such as
            `https://health.example.com/ping/KEY`. A job's check is the one whose slug is the job's name in lower case.
        start: The URL to get when a run starts.
        success: The URL to get when a run has succeeded.
        fail: The URL to get when a run has failed or has lost its lock.
    """
    templates = _check(healthchecks, {"start": start, "success": success, "fail": fail})
    if healthchecks is not None:
        _check_slugs([job.name for job in crons.registry.jobs()])
    has_checks = healthchecks is not None
    outbox = Outbox("pings", _PingCourier(crons.events, has_checks=has_checks), lambda: last_moments(crons))

    def hear(event: Event) -> None:
        kind = _KINDS.get(event.slug)
        if kind is not None and kind in templates and (kind != "start" or _is_awaited(crons, event.name)):
            outbox.add(_Ping(split_name(event.name)[0], kind, *_filled(templates[kind], event, kind, has_checks)))

    end = report_runs(crons, hear, outbox.flush)

    def stop() -> None:
        end()
        outbox.close()

    return stop


@dataclass(frozen=True, slots=True)
class _Ping:
    job: str
    kind: Kind
    url: str
    body: bytes | None


def _is_awaited(crons: FireCron, name: str) -> bool:
    """Return whether the job says how long its runs take, so that the service can wait for the end after a start."""
    try:
        return crons.registry.get(split_name(name)[0]).options.expected_runtime is not None
    except UnknownJob:
        return False  # the program has removed the job meanwhile


def _check(healthchecks: str | None, templates: Mapping[Kind, str | None]) -> dict[Kind, str]:
    """Return the templates of the pings to send. Raise ConfigurationError if they can't be used.

    No error has the text that was given: it is a secret.
    """
    given = {kind: template for kind, template in templates.items() if template is not None}
    if (healthchecks is None) == (not given):
        raise ConfigurationError("pings needs either healthchecks=, or at least one of start=, success= and fail=")
    if healthchecks is not None:
        given = _of_healthchecks(healthchecks)
    for kind, template in given.items():
        _check_template(template, kind if healthchecks is None else "healthchecks")
    return given


def _of_healthchecks(key: str) -> dict[Kind, str]:
    """Return the templates for a ping key, or for the URL of a server with the key."""
    base = key.rstrip("/") if "://" in key else f"{HEALTHCHECKS}/{key}"
    if "://" not in key and not _KEY.fullmatch(key):
        raise ConfigurationError(
            "healthchecks= is no ping key: it is in the settings of the project, or write the URL of your own "
            "server with the key, https://HOST/ping/KEY"
        )
    if not {"?", "#"}.isdisjoint(base):
        raise ConfigurationError(
            "healthchecks= has a query or a fragment, and the job's slug comes after it: end it with the key, "
            "https://HOST/ping/KEY"
        )
    base = base.replace("{", "{{").replace("}", "}}")
    return {
        "start": f"{base}/{{slug}}/start?rid={{rid}}",
        "success": f"{base}/{{slug}}?rid={{rid}}",
        "fail": f"{base}/{{slug}}/fail?rid={{rid}}",
    }


def _check_template(template: str, name: str) -> None:
    try:
        # What a format string may do besides is no field: it could fail at each ping.
        used = {
            f"{field}{f'!{conversion}' if conversion else ''}{f':{form}' if form else ''}"
            for _, field, form, conversion in string.Formatter().parse(template)
            if field is not None
        }
    except ValueError:
        used = None
    if used is None or not is_url(template):
        raise ConfigurationError(
            f"{name}= is no URL: begin it with https:// and a host, and double each brace that is no field's"
        )
    if not (template.isascii() and template.isprintable()) or " " in template:
        raise ConfigurationError(f"{name}= has a character that no URL has: write it as %20 is written for a space")
    if not used <= _FIELDS:
        raise ConfigurationError(
            f"{name}= has the field {{{min(used - _FIELDS)}}}: there are {{job}}, {{slug}}, {{rid}} and {{error}}"
        )
    if "#" in template:
        raise ConfigurationError(
            f"{name}= has a #: what follows it is a fragment, which is never sent; write a # of the path as %23"
        )


def _check_slugs(names: Sequence[str]) -> None:
    for slug, count in Counter(name.lower() for name in names).items():
        if count > 1:
            same = ", ".join(name for name in names if name.lower() == slug)
            raise ConfigurationError(f"the jobs {same} have one check, {slug!r}, between them: rename all but one")


def _filled(template: str, event: Event, kind: Kind, has_body: bool) -> tuple[str, bytes | None]:
    """Return the URL, and for Healthchecks the body of a failure."""
    rid = attempt_id(str(event.fields["key"]), event.fields["attempt"])
    longest = _LONGEST_ERROR if has_body else _LONGEST_IN_URL
    # Without the key of a stored schedule, which may be somebody's.
    said = event.message.replace(f'"{event.name}"', f'"{split_name(event.name)[0]}"')
    error = said.partition("\n")[0][:longest] if kind == "fail" else ""
    name = split_name(event.name)[0]
    values = {"job": name, "slug": name.lower(), "rid": str(rid), "error": error}
    url = template.format_map({name: quote(value, safe="") for name, value in values.items()})
    return url, error.encode("utf-8", "replace") if has_body and error else None


class _PingCourier:
    """Sends pings to a service. `has_checks` says that it is a Healthchecks, which has a check for each job."""

    def __init__(self, events: Events, *, has_checks: bool) -> None:
        self._events = events
        self._has_checks = has_checks
        self._http = Http()

    def send(self, ping: _Ping) -> None:
        reply = self._http.send(ping.url, {}, ping.body, TIMEOUT)
        if reply.status in (404, 410) and self._has_checks:
            slug = ping.job.lower()
            why = (
                f"the service returned {reply.status}: it has no check for this job; create one with the slug {slug!r}"
            )
            raise NotTaken(why, is_final=True)
        check_reply(reply)

    def lost(self, ping: _Ping, why: str) -> None:
        message = f'The ping of "{ping.job}" ({ping.kind}) was lost: {why}'
        self._events.emit("ping.failed", ping.job, logging.WARNING, message, kind=ping.kind, why=why)

    def close(self) -> None:
        self._http.close()
