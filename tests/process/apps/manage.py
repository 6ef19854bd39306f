"""Django's command of the project in `django_site`."""

from __future__ import annotations

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.process.apps.django_site"
    execute_from_command_line(sys.argv)
