"""Triggers for tests: raw calls over each framework, and a Google that signs tokens and serves its certificates."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from tests.page.paging import Reply, Served, Shell
from tests.simulation.chance import Chance

from firecron import FireCron, Run, distributed_cron
from firecron.settings import load

AUDIENCE = "https://api.example.run.app"
EMAIL = "scheduler@project.iam.gserviceaccount.com"
HEADER = "X-CloudScheduler-ScheduleTime"
NINE = "2020-01-05T09:00:00Z"
TEN = "2020-01-06T09:00:00Z"


@dataclass
class Fleet:
    """Instances, which don't tick, over one database, with a job `digest`; `body` is what it does, `runs` are all that
    were begun.
    """

    options: dict[str, Any] = field(default_factory=dict)
    line: str | None = "0 9 * * *"
    body: Callable[[Run], object] = lambda run: None
    runs: list[Run] = field(default_factory=list)

    def instance(
        self, shell: Shell = "asgi", access: dict[str, Any] | None = None, *, enabled: bool = False, **settings: Any
    ) -> Instance:
        @distributed_cron("digest", self.line, **{"lock_ttl": 30, **self.options})
        def digest(run: Run) -> None:
            self.runs.append(run)
            self.body(run)

        crons = FireCron(digest, enabled=enabled, settings=load(**{"workers": 2, **settings}), chance=Chance())
        return Instance(crons, shell, access or {"trust_cloud_run_iam": True})

    def slots(self) -> list[str | None]:
        return [None if run.slot is None else f"{run.slot:%Y-%m-%dT%H:%M:%SZ}" for run in self.runs]


class Gate:
    """A job's body that begins, and goes on when the test lets it."""

    def __init__(self) -> None:
        self._begun = threading.Semaphore(0)
        self._opened = threading.Event()

    def __call__(self, run: Run) -> None:
        self._begun.release()
        assert self._opened.wait(20), "the test never let it go on"

    def wait(self) -> None:
        """Return once a run has begun, once for each."""
        assert self._begun.acquire(timeout=20), "no run has begun"

    def open(self) -> None:
        self._opened.set()


class Instance(Served):
    """One instance with its triggers."""

    def __init__(self, crons: FireCron, shell: Shell, access: dict[str, Any]) -> None:
        super().__init__(crons, "trigger", shell, "/cron", **access)

    def post(self, slot: str | None = None, name: str = "digest") -> Reply:
        """What Cloud Scheduler does for a tick."""
        return self.call("POST", f"/{name}", {} if slot is None else {HEADER: slot})


@contextmanager
def aside(work: Callable[[], object]) -> Iterator[list[Any]]:
    """Do this on another thread; its result is in the list when the block has ended."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(work()), daemon=True)
    thread.start()
    yield results
    thread.join(20)
    assert results, "the work on the other thread did not end"


class Google:
    """Signs tokens, and serves certificates as Google does; `served` counts how often, `broken` is served instead.

    `dripped` makes it send a byte now and then instead, until somebody sets it.
    """

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.other_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.certificates = json.dumps({"key-1": _certificate(self.key)}).encode()
        self.served = 0
        self.broken: tuple[int, bytes] | None = None
        self.dripped: threading.Event | None = None
        self.headers = {"Cache-Control": "public, max-age=19800, must-revalidate, no-transform"}

    def token(self, *, key: Any = None, alg: str = "RS256", kid: Any = "key-1", **claims: Any) -> str:
        """A token that does, but for these claims; one that is None is left out."""
        now = int(time.time())
        said = {
            "iss": "https://accounts.google.com",
            "aud": AUDIENCE,
            "email": EMAIL,
            "email_verified": True,
            "iat": now - 5,
            "exp": now + 3600,
            **claims,
        }
        wanted = {name: value for name, value in said.items() if value is not None}
        signing: Any = None if alg == "none" else "secret" * 8 if alg == "HS256" else key or self.key
        headers = {} if kid is None else {"kid": kid}
        # As bytes, because PyJWT won't sign claims of other types than theirs.
        return jwt.PyJWS().encode(json.dumps(wanted).encode(), signing, algorithm=alg, headers=headers)


@contextmanager
def google() -> Iterator[tuple[Google, str]]:
    """A Google, and the address of its certificates."""
    made = Google()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.served += 1
            status, body = made.broken or (200, made.certificates)
            self.send_response(status)
            for name, value in made.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json; charset=UTF-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if made.dripped is not None:
                self.drip(made.dripped, len(body))
                return
            self.wfile.write(body)

        def drip(self, ended: threading.Event, most: int) -> None:
            for _ in range(most - 1):
                if ended.wait(0.02):
                    return
                with suppress(OSError):  # whoever asked has gone
                    self.wfile.write(b" ")
            ended.set()

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield made, f"http://127.0.0.1:{server.server_port}/certs"
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


def _certificate(key: rsa.RSAPrivateKey) -> str:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "google")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
