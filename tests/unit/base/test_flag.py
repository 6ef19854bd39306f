"""Flags as a job's author sees them, and what belongs to a process: it begins anew in a forked child."""

from __future__ import annotations

import gc

import pytest

from firecron.base.flag import Flag, begin_child, in_each_child, in_each_process


def test_a_flag_is_shown_as_true_or_false() -> None:
    """`print(run.cancelled)` says what `if run.cancelled` would find."""
    flag = Flag()
    assert (f"{flag}", repr(flag)) == ("False", "False")
    flag.set()
    assert (f"{flag}", repr(flag)) == ("True", "True")


class Part:
    """Counts its beginnings; one that is `broken` raises in a child."""

    def __init__(self, *, is_broken: bool = False) -> None:
        self.begun = 0
        (in_each_child if is_broken else in_each_process)(self.fail if is_broken else self.begin)

    def begin(self) -> None:
        self.begun += 1

    def fail(self) -> None:
        raise ValueError("broken")


def test_a_part_begins_at_once_and_in_each_child() -> None:
    """It is called as it is made, and once in each child, for as long as it lives."""
    part = Part()
    assert part.begun == 1
    for forks in (2, 3):
        begin_child()
        assert part.begun == forks


def test_one_that_raises_keeps_no_other_from_its_beginning() -> None:
    """What it has raised is raised once all have begun."""
    first, broken, second = Part(), Part(is_broken=True), Part()
    with pytest.raises(ValueError, match="broken"):
        begin_child()
    assert (first.begun, second.begun) == (2, 2)
    del broken
    gc.collect()  # the error refers to it
    begin_child()
    assert (first.begun, second.begun) == (3, 3)
