"""A Django project in one file: settings, an application that starts its jobs, and a view."""

from __future__ import annotations

import os

from django.apps import AppConfig
from django.http import HttpRequest, JsonResponse
from django.urls import URLPattern, path

SECRET_KEY = "of a test"
DEBUG = True
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "tests.process.apps.django_site"
INSTALLED_APPS = ["tests.process.apps.django_site.Site"]
USE_TZ = True


class Site(AppConfig):  # type: ignore[misc]  # Django ships no type hints
    name = "tests.process.apps"
    label = "site"

    def ready(self) -> None:
        from tests.process.tick_jobs import make_crons

        make_crons().start()


def look(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"pid": os.getpid()})


urlpatterns: list[URLPattern] = [path("", look)]
