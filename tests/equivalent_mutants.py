"""Mutants that change nothing that can be seen, and why: `tests.mutations` leaves them out.

Each is a mutant as `tests.mutations` shows it: where it is, and what it makes of which text. One that no longer fits
the sources fails a test.
"""

from __future__ import annotations

EQUIVALENT: dict[str, str] = {
    "bodies.Body._await: with concurrent.futures.ThreadPoolExecutor(1) as elsewhere: -> "
    "with concurrent.futures.ThreadPoolExecutor(2) as elsewhere:": "It is given one thing to do.",
    "bodies.Body._await_on: return interrupt -> return None": "It is kept as what the job raised, which goes first.",
}
