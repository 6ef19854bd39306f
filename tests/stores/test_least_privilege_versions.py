"""The rules and firecron are deployed apart: this version goes on under the rules of the version before."""

from __future__ import annotations

from tests.stores.least_privilege import READER
from tests.stores.least_privilege_before import before
from tests.stores.least_privilege_legal import LEGAL
from tests.stores.rule_questions import question

from rtdb_emulator.rules import Rules

BEFORE = Rules.parse(before())


def test_rules_of_the_version_before_deny_only_what_is_new() -> None:
    """They let pass all that jobs, locks and leaders write; they deny the reader, and ways out of what they let in."""
    denied = [row for row in LEGAL if not question(row)(BEFORE)]
    assert {row.title for row in denied if row.auth != READER} == {
        "record that a key was forgotten that can name no job",
        "delete what nobody can read, so that it is done again",
        "delete what is no text, so that it is done again",
        "delete what has no result, so that it is done again",
        "remove a kind beside a slot",
        "remove a slot beside a kind",
        "remove a kind that is none",
    }
    assert [row for row in LEGAL if row.auth == READER and row not in denied] == []
