"""`failures`: how many runs of ticks have failed in a row, by the job's node. Pure.

    one more    a release after a run of a tick that failed, or that lost its lease and still has the record
    one more    an acquisition that replaces the record of a run that died: neither ended nor released
    none        a release after a success, also of a run by hand; an acquisition after a success that an older version,
                which doesn't count, has left the number beside
    as before   any other write: of a run that was interrupted or cancelled, of a run by hand that failed, a renewal

Each is part of a write that is made anyway, under its ETag, so a run is counted once, whatever interleaves:

    a lost run, and the next claim          if the claim comes first, it counts the run as died, and the release writes
                                            nothing; if the release comes first, the claim finds the run released
    a release or a claim without a reply    it is decided again by the node that is read then: a write that was applied
                                            is recognised, and not made again

No lock depends on the count. What somebody has typed there in place of a number counts as none.
"""

from __future__ import annotations


def after_claim(failures: object, open_slot: str | None, released_at: object, outcome: str | None) -> object:
    """Return the count for an acquisition. A record with an open slot that was not released is that of a died run."""
    so_far = None if outcome == "succeeded" else failures
    return _one_more(so_far) if open_slot is not None and released_at is None else so_far


def after_release(failures: object, outcome: str | None, *, is_tick: bool) -> object:
    """Return the count after a run with this outcome. `is_tick` says that it was the run of a tick."""
    if outcome == "succeeded":
        return None
    return _one_more(failures) if is_tick and outcome in ("failed", "lost") else failures


def _one_more(failures: object) -> int | float:
    if isinstance(failures, bool) or not isinstance(failures, int | float) or failures < 0:
        return 1
    return failures + 1
