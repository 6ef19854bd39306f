"""A Django application with a page, whose jobs run when a visitor says so."""

from __future__ import annotations

import os

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import include, path
from tests.process.tick_jobs import make_crons

from firecron import Access

settings.configure(
    ROOT_URLCONF=__name__,
    SECRET_KEY="x" * 50,
    ALLOWED_HOSTS=["*"],
    MIDDLEWARE=["django.middleware.common.CommonMiddleware", "django.middleware.csrf.CsrfViewMiddleware"],
)
django.setup()
crons = make_crons()


def look(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"pid": os.getpid()})


urlpatterns = [
    path("", look),
    path("crons/", include(crons.status_urls(access=lambda visitor: Access("ops@example.com", can_act=True)))),
]
app = get_wsgi_application()
