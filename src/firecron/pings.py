"""Pings: tell a monitoring service of each run, so that it raises the alarm if one does not come.

    from firecron.pings import pings

    pings(crons, healthchecks=PING_KEY)  # or start=, success= and fail=, each the template of a URL

Only the instance that runs a tick speaks, so any number of instances make one ping at a run's start and one at its end.
A run without a tick, such as a run by hand, sends none, and neither does an instance outside of production. A run that
is interrupted sends nothing at its end either: the instance that reruns it does, or the service misses it.

No ping delays a run. They wait in a queue of bounded length, and one thread sends them, in their order. Each has five
seconds and two tries. If the service accepts neither, or the queue is full, the event `ping.failed` says so. The ping
is lost, and nothing else. What is still in the queue when the instance stops has two more seconds, within its grace.

A ping's URL is a secret, for whoever knows it can send pings. It is in no log and in no error.
"""

from __future__ import annotations

import atexit
import logging
import re
import string
import threading
from base64 import b64encode
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import quote, unquote, urlsplit

from firecron import __version__
from firecron.base.clocks import Deadline, SystemTiming
from firecron.base.events import Event, Events
from firecron.base.forks import tell_after_fork
from firecron.base.identity import attempt_id
from firecron.errors import ConfigurationError, UnknownJob
from firecron.rtdb.connection import NoReply
from firecron.rtdb.replies import Reply
from firecron.rtdb.transport import Transport
from firecron.scheduler.guard import is_production

if TYPE_CHECKING:
    from firecron.app import FireCron

Kind: TypeAlias = Literal["start", "success", "fail"]

HEALTHCHECKS = "https://hc-ping.com"
MOST_WAITING = 1_000
TIMEOUT = 5.0
PAUSE = 1.0
LAST_MOMENTS = 2.0

_TRIES = 2
_LONGEST_ERROR = 1_000
# In a URL a character takes up to 12, and servers take some 8,000.
_LONGEST_IN_URL = 500
# Bytes of a reply. Its status is all that counts.
_MOST_READ = 10_000
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
    sender = _Sender(crons.events, lambda: crons.engine.seconds_left(LAST_MOMENTS), has_checks=has_checks)

    def hear(event: Event) -> None:
        kind = _KINDS.get(event.slug)
        if kind is not None and "slot" in event.fields and kind in templates and _is_wanted(crons, event.name, kind):
            sender.add(_Ping(event.name, kind, *_filled(templates[kind], event, kind, has_checks)))
        elif event.slug == "crons.stopped":
            sender.flush()

    unsubscribe = crons.events.subscribe(hear)

    def stop() -> None:
        unsubscribe()
        sender.close()

    return stop


@dataclass(frozen=True, slots=True)
class _Ping:
    job: str
    kind: Kind
    url: str
    body: bytes | None


def _is_wanted(crons: FireCron, name: str, kind: Kind) -> bool:
    """Return whether this is production, and for a start, whether the job says how long its runs take."""
    if not is_production(crons.verdict, crons.settings):
        return False
    if kind != "start":
        return True
    try:
        return crons.registry.get(name).options.expected_runtime is not None
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
        parts = urlsplit(template)
        has_host = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        used, has_host = set(), False
    if not has_host:
        raise ConfigurationError(
            f"{name}= is no URL: begin it with https:// and a host, and double each brace that is no field's"
        )
    if not (template.isascii() and template.isprintable()) or " " in template:
        raise ConfigurationError(f"{name}= has a character that no URL has: write it as %20 is written for a space")
    if not used <= _FIELDS:
        raise ConfigurationError(
            f"{name}= has the field {{{min(used - _FIELDS)}}}: there are {{job}}, {{slug}}, {{rid}} and {{error}}"
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
    error = event.message.partition("\n")[0][:longest] if kind == "fail" else ""
    values = {"job": event.name, "slug": event.name.lower(), "rid": str(rid), "error": error}
    url = template.format_map({name: quote(value, safe="") for name, value in values.items()})
    return url, error.encode("utf-8", "replace") if has_body and error else None


class _Sender:
    """A bounded queue of pings, and the thread that sends them. At the end they have so many `last_moments`.

    `has_checks` says that the service is a Healthchecks, which has a check for each job.
    """

    def __init__(self, events: Events, last_moments: Callable[[], float], *, has_checks: bool) -> None:
        self._events = events
        self._last_moments = last_moments
        self._has_checks = has_checks
        self._timing = SystemTiming()
        self._reset()
        tell_after_fork(self)
        # A program may end without a stop. Registered before the jobs start, so it comes after their stop.
        atexit.register(self.flush)

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[_Ping] = deque()
        self._is_sending = False
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self._transports: dict[str, Transport] = {}

    def after_fork(self) -> None:
        """Drop the parent's pings and connections in a forked child: the parent sends them."""
        self._reset()

    def add(self, ping: _Ping) -> None:
        """Put a ping into the queue, or report that it can't be sent."""
        with self._changed:
            if self._is_closed:
                return
            is_full = len(self._waiting) >= MOST_WAITING
            if not is_full:
                self._waiting.append(ping)
                self._changed.notify_all()
                why = self._start()
            else:
                why = f"{MOST_WAITING} pings wait already: the service is too slow"
        if why is not None:
            self._report(ping, why)

    def flush(self) -> None:
        """Return when nothing waits any more, or the last moments are over."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._waiting or self._is_sending), self._last_moments())

    def close(self) -> None:
        """Send what waits, for a time, and then nothing more."""
        self.flush()
        atexit.unregister(self.flush)
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _start(self) -> str | None:
        """Start the thread unless it runs. Return why it can't be started; None if it runs."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="firecron-pings", daemon=True)
            try:
                self._thread.start()
            except RuntimeError as error:
                self._thread = None
                self._waiting.clear()
                return str(error)
        return None

    def _run(self) -> None:
        while (ping := self._next()) is not None:
            try:
                why = self._send(ping)
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
            if why is not None:
                self._report(ping, why)
        for transport in self._transports.values():
            transport.close()

    def _next(self) -> _Ping | None:
        """Wait for the next ping, and return it; None once there will be none."""
        with self._changed:
            self._is_sending = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            self._is_sending = not self._is_closed
            return None if self._is_closed else self._waiting.popleft()

    def _send(self, ping: _Ping) -> str | None:
        """Send a ping, in two tries at most. Return why the service didn't accept it; None if it did."""
        why = None
        for tries in range(_TRIES):
            if tries:
                with self._changed:
                    self._changed.wait_for(lambda: self._is_closed, PAUSE)
            try:
                reply = self._ask(ping)
            except NoReply as error:
                why = str(error)
                continue
            if 200 <= reply.status < 300:
                return None
            # Its own words for the status may quote the URL.
            why = f"the service returned {reply.status}"
            if reply.status in (404, 410) and self._has_checks:
                return f"{why}: it has no check for this job; create one with the slug {ping.job.lower()!r}"
            if 300 <= reply.status < 400:
                return f"{why}: redirects are not followed; give the URL that this one leads to"
            if reply.status < 500 and reply.status != 429:
                break
        return why

    def _ask(self, ping: _Ping) -> Reply:
        parts = urlsplit(ping.url)
        credentials, _, place = parts.netloc.rpartition("@")
        host = f"{parts.scheme}://{place}"
        if host not in self._transports:
            self._transports[host] = Transport(host, 1, most=_MOST_READ)
        target = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        headers = {"User-Agent": f"firecron/{__version__}"}
        if credentials:
            headers["Authorization"] = f"Basic {b64encode(unquote(credentials).encode()).decode()}"
        method = "GET" if ping.body is None else "POST"
        return self._transports[host].send(method, target, headers, ping.body, Deadline.after(self._timing, TIMEOUT))

    def _report(self, ping: _Ping, why: str) -> None:
        message = f'The ping of "{ping.job}" ({ping.kind}) was lost: {why}'
        self._events.emit("ping.failed", ping.job, logging.WARNING, message, kind=ping.kind, why=why)
