"""Mutants that change nothing that can be seen, and why: `tests.mutations` leaves them out.

Each is a mutant as `tests.mutations` shows it: where it is, and what it makes of which text. One that no longer fits
the sources fails a test.
"""

from __future__ import annotations

EQUIVALENT: dict[str, str] = {}
