"""The page for Django: URL patterns for `include`.

    urlpatterns = [path("crons/", include(crons.status_urls(access=access)))]

A request is served on Django's thread, and there are no streams: the page polls. The view is exempt from Django's own
check of a POST, which the page replaces by its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firecron.page.desk import Desk
from firecron.page.messages import PageRequest
from firecron.page.safety import MOST_BODY
from firecron.page.visitor import Headers
from firecron.page.wsgi import serve

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


def make_urls(desk: Desk) -> list[object]:
    """Return the patterns. Raise ConfigurationError if Django is not installed."""
    try:
        from django.http import HttpResponse
        from django.urls import re_path
        from django.views.decorators.csrf import csrf_exempt
    except ModuleNotFoundError as error:
        from firecron.errors import ConfigurationError

        if error.name != "django":
            raise
        raise ConfigurationError("Django is not installed: pip install django") from None

    def page(asked: HttpRequest, path: str) -> HttpResponse:
        request = PageRequest(
            asked.method or "",
            f"/{path}",
            Headers(asked.headers.items()),
            query=asked.META.get("QUERY_STRING", ""),
            full_path=asked.path,
            scheme=asked.scheme or "http",
            original=asked,
        )
        reply = serve(desk, request, lambda: asked.read(MOST_BODY + 1))
        body = b"" if asked.method == "HEAD" else reply.body
        return HttpResponse(body, status=reply.status, headers=dict(reply.headers))

    return [re_path(r"^(?P<path>.*)$", csrf_exempt(page))]
