"""The browser of the tests here."""

from rtdb_emulator_tests.helpers.browsers import browser

__all__ = ["browser"]
