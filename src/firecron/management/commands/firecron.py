"""`manage.py firecron …`: the command line of firecron in a Django project that has `firecron` in its `INSTALLED_APPS`.

All arguments are those of `firecron`. The project is set up, so APP may be any module of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from django.core.management import BaseCommand

from firecron.cli import main


class Command(BaseCommand):  # type: ignore[misc]  # Django ships no type hints
    help = "The command line of firecron. manage.py firecron --help lists its commands."

    def run_from_argv(self, argv: Sequence[str]) -> None:
        """Leave the arguments to firecron's own parser."""
        main(argv[2:], f"{Path(argv[0]).name} {argv[1]}")
