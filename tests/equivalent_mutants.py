"""Mutants that change nothing that can be seen, and why: `tests.mutations` leaves them out.

Each is a mutant as `tests.mutations` shows it: where it is, and what it makes of which text. One that no longer fits
the sources fails a test.
"""

from __future__ import annotations

EQUIVALENT: dict[str, str] = {
    "anonymous.may_read: with transport.session(1) as session: -> with transport.session(2) as session:": (
        "One request is sent, so there is one connection."
    ),
    "bodies.Body._await: with concurrent.futures.ThreadPoolExecutor(1) as elsewhere: -> "
    "with concurrent.futures.ThreadPoolExecutor(2) as elsewhere:": "It is given one thing to do.",
    "bodies.Body._await_on: return interrupt -> return None": "It is kept as what the job raised, which goes first.",
    "cron_line: _SOME_DAY = datetime(2024, 1, 1) -> _SOME_DAY = datetime(2024, 2, 1)": (
        "Each reading sets the time that it begins with."
    ),
    "cron_line: _SOME_DAY = datetime(2024, 1, 1) -> _SOME_DAY = datetime(2024, 1, 2)": (
        "Each reading sets the time that it begins with."
    ),
}
