"""Flags: what a job's author sees of them."""

from __future__ import annotations

from firecron.base.flag import Flag


def test_a_flag_is_shown_as_true_or_false() -> None:
    """`print(run.cancelled)` says what `if run.cancelled` would find."""
    flag = Flag()
    assert (f"{flag}", repr(flag)) == ("False", "False")
    flag.set()
    assert (f"{flag}", repr(flag)) == ("True", "True")
