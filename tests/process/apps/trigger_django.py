"""A Django application that only runs jobs when it is told to."""

from __future__ import annotations

import os

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import include, path
from tests.process.tick_jobs import make_crons

from firecron.triggers.access import OidcVerifier

settings.configure(
    ROOT_URLCONF=__name__,
    SECRET_KEY="x" * 50,
    ALLOWED_HOSTS=["*"],
    MIDDLEWARE=["django.middleware.common.CommonMiddleware", "django.middleware.csrf.CsrfViewMiddleware"],
)
django.setup()
crons = make_crons()
verifier = OidcVerifier(["https://api.example"], ["scheduler@example.com"], certs_url=os.environ["TRIGGER_CERTS"])


def look(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"pid": os.getpid()})


urlpatterns = [path("", look), path("cron/", include(crons.trigger_urls(verifier=verifier)))]
app = get_wsgi_application()
