"""An entry of the history: what is written is read, and what makes no sense is left out."""

from __future__ import annotations

import dataclasses
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.simulation.world import START, slot

from firecron.jobs.run import Outcome
from firecron.runs.entry import Entry, manual_key, owner_of, read_entry, unrun

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
