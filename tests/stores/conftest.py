"""Apps of firebase-admin, for the tests of stores too."""

from __future__ import annotations

from tests.emulator.conftest import make_app

__all__ = ["make_app"]
