"""A Django project in one file: settings, an application that starts its jobs, two of which query, and a view.

With `SITE_LEADS` in its environment it stands for a leader, too, which queries. With `SITE_WRITES` it has a job that
writes in a transaction, which is around its runs, and fails.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from asgiref.sync import sync_to_async
from django.apps import AppConfig
from django.db import connection, transaction
from django.http import HttpRequest, JsonResponse
from django.urls import URLPattern, path
from tests.process.tick_jobs import make_crons, note

from firecron import Run, Term, distributed_cron, leader

SECRET_KEY = "of a test"
DEBUG = True
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "tests.process.apps.django_site"
INSTALLED_APPS = ["tests.process.apps.django_site.Site"]
USE_TZ = True
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["TICK_JOURNAL"] + ".sqlite"}}


class Site(AppConfig):  # type: ignore[misc]  # Django ships no type hints
    name = "tests.process.apps"
    label = "site"

    def ready(self) -> None:
        crons = make_crons(*([keeps] if "SITE_LEADS" in os.environ else []), around=[transacted])
        if "SITE_WRITES" in os.environ:
            crons.registry.add(writes)
        crons.registry.add(queries)
        crons.registry.add(queries_async)
        crons.start()
        if "SITE_LEADS" in os.environ:
            note("ready")


def query(job: str, **fields: object) -> None:
    """Note whether a connection was open here, and open one."""
    was_open = connection.connection is not None
    note("connection", job=job, was_open=was_open, thread=threading.get_ident(), **fields)
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


@distributed_cron("queries", "* * * * * *", lock_ttl=10)
def queries() -> None:
    query("queries")


@distributed_cron("queries-async", "* * * * * *", lock_ttl=10)
async def queries_async() -> None:
    await sync_to_async(query)("queries-async")


@contextmanager
def transacted(run: Run) -> Iterator[None]:
    """A transaction around the runs of `writes`."""
    if run.name != "writes":
        yield
        return
    was_open = connection.connection is not None
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS written (run)")
        cursor.execute("SELECT COUNT(*) FROM written")
        note("around", was_open=was_open, written=cursor.fetchone()[0])
        yield


@distributed_cron("writes", "* * * * * *", lock_ttl=10)
def writes() -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO written VALUES (1)")
    raise ValueError("roll it back")


@leader("keeps", ttl=1.2, pause=0)
def keeps(term: Term) -> None:
    query("keeps", fence=term.fence)
    term.stopping.wait(0.3)


def look(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"pid": os.getpid()})


urlpatterns: list[URLPattern] = [path("", look)]
