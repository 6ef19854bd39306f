"""An entry of the history: what is written is read, and what makes no sense is left out."""

from __future__ import annotations

import dataclasses
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.simulation.world import START, slot

from firecron.jobs.run import Outcome
from firecron.runs.entry import Entry, abandoned_term, key_of_run, manual_key, owner_of, read_entry, term_key, unrun

TEXTS = st.none() | st.text()
NUMBERS = st.none() | st.integers(-(2**53) + 1, 2**53 - 1)
ENTRIES = st.builds(
    Entry,
    st.text(),
    st.sampled_from(get_args(Outcome)),
    *[TEXTS, TEXTS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS],
    st.integers(0, 2**53 - 1),
    st.booleans(),
    *[TEXTS, TEXTS, TEXTS],
    st.none() | st.text(max_size=500),
)


@given(ENTRIES)
def test_what_is_written_is_read(entry: Entry) -> None:
    """An entry that is read from its own node is the same again."""
    assert read_entry(entry.key, entry.to_node()) == entry


def test_a_node_has_no_more_than_is_known() -> None:
    """What is not known has no field, nor has a count of one; all fields of an entry but its key can be there."""
    assert Entry(slot(), "succeeded").to_node() == {"outcome": "succeeded"}
    full = Entry(
        slot(), "failed", slot(), "http", 1, 2, 1, 3, 4, 5, True, "bookkeeper", "revision", "instance", "error", "note"
    )
    assert len(full.to_node()) == len(dataclasses.fields(Entry)) - 1
    assert unrun(slot(), "missed").to_node() == {"outcome": "missed", "slot": slot(), "recordedBy": "bookkeeper"}


@pytest.mark.parametrize("node", [{"fence": 7}, {"outcome": "of a later version", "fence": 7, "slot": slot()}])
def test_what_is_malformed_keeps_what_makes_sense(node: dict[str, object]) -> None:
    """An outcome that this version doesn't know is malformed, with what was found, and its fence counts."""
    entry = read_entry(slot(), node)
    assert (entry.outcome, entry.fence, entry.slot) == ("malformed", 7, node.get("slot"))
    assert repr(node) in str(entry.error)
    assert not Entry(slot(), "succeeded", fence=7).outranks(node)
    assert Entry(slot(), "succeeded", fence=8).outranks(node)


def test_a_run_by_hand_has_a_key_among_the_slots() -> None:
    """Its key sorts behind the slot before it, and before the next."""
    assert slot() < manual_key(START, "abc123") < slot(1)


@pytest.mark.parametrize(
    ("instance_id", "instance", "owner"),
    [("rev", "0a", "rev/0a"), ("rev", None, "rev"), (None, "0a", "0a"), ("", "", "")],
)
def test_an_owner_is_named_as_far_as_it_is_known(instance_id: str | None, instance: str | None, owner: str) -> None:
    """The revision comes first, and what is not known is left out."""
    assert Entry("key", "failed", instance_id=instance_id, instance=instance).owner == owner
    assert owner_of(instance_id, instance) == owner


@pytest.mark.parametrize(
    ("started", "ended", "duration", "took"),
    [
        (None, None, 7, 7),
        (START, START + 20, 7, 7),
        (START, START + 20, None, 20),
        (START, START, None, 0),
        (START, START - 20, None, 0),
        (START, None, None, None),
        (None, START, None, None),
    ],
)
def test_how_long_a_run_took(started: int | None, ended: int | None, duration: int | None, took: int | None) -> None:
    """What was measured counts; else the time from its start to its end, which is never negative, if both are known."""
    assert Entry("key", "failed", started_at=started, ended_at=ended, duration=duration).took == took


def test_a_run_without_an_attempt_outranks_the_bookkeepers_guess() -> None:
    """Whoever writes first, the run's own entry stays, although neither knows an attempt; and it replaces a note."""
    run, guess = Entry(slot(), "succeeded"), unrun(slot(), "missed")
    assert run.outranks(guess.to_node())
    assert not guess.outranks(run.to_node())
    assert run.outranks("note")


@pytest.mark.parametrize(
    ("name", "key", "idempotency_key"),
    [
        ("mail", slot(), f"mail:{slot()}"),
        ("mail", manual_key(START, "abc123"), "mail:manual:abc123"),
        ("mail", f"{slot()}:42", f"mail:42:{slot()}"),
        ("mail", f"{manual_key(START, 'abc123')}:42", "mail:42:manual:abc123"),
    ],
)
def test_the_key_of_a_run_follows_from_its_entry(name: str, key: str, idempotency_key: str) -> None:
    """All attempts at a run have one idempotency key, also a run of a stored schedule, whose name has its own key."""
    assert key_of_run(name, key) == idempotency_key


def test_a_term_whose_leader_died_is_written_by_the_next() -> None:
    """With when it began, its fence, and the instance that has found it."""
    entry = abandoned_term(START, 7, instance_id="rev", instance="0a")
    assert entry == Entry(
        term_key(START, 7),
        "abandoned",
        started_at=START,
        fence=7,
        recorded_by="bookkeeper",
        instance_id="rev",
        instance="0a",
    )
    assert entry.key == f"{slot()}-term-7"


def test_programs_get_instants_as_texts() -> None:
    """Start and end of a run are texts, as its slot is; None where they are not known."""
    shown = Entry(slot(), "failed", started_at=START, ended_at=START + 60_000).to_json()
    assert (shown["started"], shown["ended"]) == (slot(), slot(60))
    assert Entry(slot(), "missed").to_json()["started"] is None
