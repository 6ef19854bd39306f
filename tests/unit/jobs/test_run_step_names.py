"""The names of steps: what is allowed, and the keys that are made of them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from firecron import ConfigurationError, Run
from firecron.jobs.run import check_step_name, idempotency_key, to_key, to_name

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda name: len(name.encode()) <= 200)


@given(NAMES)
@example("%2F")
@example("0")
@example("1" * 200)
@example("." * 200)
@example("a/b.c$d#e[f]g%h\x00\x1f\x7f")
def test_a_key_is_one_that_rtdb_takes_and_stands_for_its_name_alone(name: str) -> None:
    """It has no forbidden character, is no number, has 600 bytes at the most, and its name can be had from it."""
    key = to_key(name)
    assert not re.search(r"[\x00-\x1f\x7f.$#\[\]/]", key)
    assert not (key.isascii() and key.isdigit())
    assert len(key.encode()) <= 600
    assert to_name(key) == name


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("charge 42", "charge 42"),
        ("a/b", "a%2Fb"),
        ("10 %", "10 %25"),
        ("42", "%342"),
        ("4a", "4a"),
        ("tab\t", "tab%09"),
        ("größe ✓", "größe ✓"),
        ("٤٢", "٤٢"),
    ],
)
def test_a_key_reads_as_its_name_where_it_can(name: str, key: str) -> None:
    """Only what RTDB forbids, and the first digit of a number, is written otherwise."""
    assert to_key(name) == key


@pytest.mark.parametrize("name", ["", "x" * 201, "é" * 101, 5, None, b"x", "\ud800"])
def test_a_name_that_is_no_name_is_refused(name: object) -> None:
    """It has 1 to 200 bytes, and is a text of whole characters."""
    with pytest.raises(ConfigurationError, match="name of a step"):
        check_step_name(name)


@pytest.mark.parametrize("name", ["x", "x" * 200, "é" * 100])
def test_a_name_may_have_200_bytes(name: str) -> None:
    """The bytes are counted, not the characters."""
    assert check_step_name(name) == name


def test_a_key_for_other_systems_has_255_characters_at_the_most() -> None:
    """Up to there it is the run's and the step's name; beyond, it ends in a hash of all of it, and stays its own."""
    run = "j" * 100 + ":2026-11-18T09:00:00Z"
    fits = "s" * (255 - len(run) - 1)
    assert idempotency_key(run, fits) == f"{run}:{fits}"
    longer = {idempotency_key(run, fits + more) for more in ("a", "b", "bb")}
    assert [len(key) for key in longer] == [255] * 3
    assert all(key.startswith(run) for key in longer)
    assert all(re.search(":[0-9a-f]{64}$", key) for key in longer)


def test_a_run_names_the_key_of_a_step() -> None:
    """`run.key` needs no lock, and refuses a name that no step can have."""
    run = Run("job", slot=None, attempt=1, fence=1, idempotency_key="job:manual:a1", trigger="manual")
    assert run.key("charge 42") == "job:manual:a1:charge 42"
    with pytest.raises(ConfigurationError):
        run.key("")


def test_a_run_made_by_hand_has_no_steps() -> None:
    """Nothing could record them, so the call is an error that says how to have a run with steps."""
    run = Run("job", slot=None, attempt=1, fence=1, idempotency_key="job:manual:a1", trigger="manual")
    calls: list[Callable[[], object]] = [
        lambda: run.step("a", dict),
        lambda: run.settle("a", 1),
        lambda: run.retry("a"),
    ]
    for call in calls:
        with pytest.raises(ConfigurationError, match=r"crons\.testing"):
            call()
