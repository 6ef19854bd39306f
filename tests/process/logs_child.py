"""A service whose log a test reads: it ticks, fails, is refused, and loses its database, with secrets in its hands."""

from __future__ import annotations

import logging
import os
import sys
import threading

import firebase_admin
from firebase_admin import credentials

import firecron.logging
from firecron import FireCron, LockService, Run, distributed_cron
from firecron.base.tracing import trace_of, traced
from firecron.jobs.registry import Registry
from firecron.settings import load

logger = logging.getLogger("mailer")
sent = threading.Event()


@distributed_cron("send-digest", "* * * * * *", lock_ttl=60)
def send_digest(run: Run) -> None:
    logger.info("sent to %d\npeople", 3, extra={"json_fields": {"template": "digest"}})
    sent.set()


@distributed_cron("import", "@yearly", lock_ttl=60)
def import_all() -> None:
    token = os.environ["PLANTED_TOKEN"]
    raise ConnectionError(f'{{"url": "https://example.com/?access_token={token}"}}\nAuthorization: Bearer {token}')


@distributed_cron("export", "@yearly", lock_ttl=60)
def export_all() -> None:
    raise AssertionError("it is held")


def know_where_we_are() -> None:
    """What the metadata server says of the project and the instance is there, before anything is logged."""
    for thread in threading.enumerate():
        if thread.name in ("firecron-project", "firecron-identity"):
            thread.join()


def tick(registry: Registry) -> None:
    assert sent.wait(30), "no tick came"
    registry.pause("send-digest")


def trigger(crons: FireCron) -> None:
    with traced(trace_of({"X-Cloud-Trace-Context": f"{'ab' * 16}/1;o=1"})):
        crons.registry.trigger("import")
    with crons.locks.hold("export", 60):
        crons.registry.trigger("export")


def lose_database(key_file: str) -> None:
    """With real credentials, and a database that refuses the connection."""
    options = {"databaseURL": os.environ["PLANTED_DATABASE"]}
    app = firebase_admin.initialize_app(credentials.Certificate(key_file), options, name="elsewhere")
    locks = LockService(app, load(request_timeout=1, acquire_timeout=1, release_timeout=1))
    assert not locks.acquire("import", 60)
    locks.close()


def main() -> None:
    firecron.logging.setup()
    crons = FireCron(send_digest, import_all, export_all, enabled=True)
    know_where_we_are()
    with crons:
        tick(crons.registry)
        trigger(crons)
    del os.environ["FIREBASE_DATABASE_EMULATOR_HOST"], os.environ["FIRECRON_DATABASE_URL"]
    lose_database(sys.argv[1])


if __name__ == "__main__":
    main()
