"""The project in `django_site`, for a WSGI server."""

from __future__ import annotations

import os

from django.core.wsgi import get_wsgi_application

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.process.apps.django_site"
application = get_wsgi_application()
