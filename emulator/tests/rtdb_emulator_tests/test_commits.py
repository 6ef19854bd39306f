"""Commits: who hears of which, and in which order, also while several threads write."""

import sys
import threading
from collections import Counter
from collections.abc import Callable

import pytest

from rtdb_emulator.database import ADMIN, Access, Change, Commit, Database, PreconditionFailed, etag
from rtdb_emulator.errors import BadRequest, Denied, Refusal
from rtdb_emulator.rules import Rules
from rtdb_emulator.tree import EMPTY, Node, leaf

SIGNED_OUT = Access(admin=False)
THREADS = 4
WRITES_EACH = 100


def database(rules: dict[str, object] | None = None) -> Database:
    return Database("test", lambda: 0, Rules.parse({"rules": rules or {".read": True, ".write": True}}))


class Ears:
    """Remembers what it hears."""

    watching = 1

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self.rules_changes = 0

    def committed(self, commit: Commit) -> None:
        self.commits.append(commit)

    def rules_changed(self) -> None:
        self.rules_changes += 1


def test_commit() -> None:
    """A commit tells the trees before and after, what was written where, and in place of what."""
    stored, ears = database(), Ears()
    stored.write(("a",), {"b": 1}, ADMIN)
    before = stored.root
    with stored.listening(ears) as root:
        assert root is before
        stored.write(("a", "b"), 2, ADMIN)
        between = stored.root
        stored.update(("a",), {"c/d": 3, ".priority": 4}, ADMIN)
    changes = (Change(("a", "c", "d"), leaf(3), replaced=EMPTY), Change(("a",), leaf(4), priority_only=True))
    assert ears.commits == [
        Commit(before, between, ("a", "b"), (Change(("a", "b"), leaf(2), replaced=leaf(1)),), patch=False),
        Commit(between, stored.root, ("a",), changes, patch=True),
    ]


def write_until_refused(stored: Database) -> None:
    stored.write((), 2, ADMIN)
    stored.write((), 3, ADMIN, if_match="other")


def test_only_while_listening() -> None:
    """A listener hears nothing before and after, and an error meanwhile ends it too."""
    stored, ears = database(), Ears()
    stored.write((), 1, ADMIN)
    with pytest.raises(PreconditionFailed), stored.listening(ears):
        write_until_refused(stored)
    stored.write((), 3, ADMIN)
    stored.set_rules(Rules.parse({"rules": {}}))
    assert [commit.after for commit in ears.commits] == [leaf(2)]
    assert ears.rules_changes == 0


def test_refused_writes_are_silent() -> None:
    """A write that is refused is no commit."""
    stored, ears = database({"a": {".write": True, ".read": True, ".validate": "newData.isNumber()"}}), Ears()
    refused: list[tuple[type[Refusal], str, object, str | None]] = [
        (Denied, "b", 1, None),
        (Denied, "a", "x", None),
        (BadRequest, "a", {"$": 1}, None),
        (PreconditionFailed, "a", 1, "other"),
    ]
    with stored.listening(ears):
        for refusal, key, data, tag in refused:
            with pytest.raises(refusal):
                stored.write((key,), data, SIGNED_OUT, if_match=tag)
    assert ears.commits == []


def test_rules_change() -> None:
    """New rules hold from then on, and every listener is told."""
    stored, ears, others = database(), Ears(), Ears()
    with stored.listening(ears), stored.listening(others):
        stored.set_rules(Rules.parse({"rules": {}}))
    assert (ears.rules_changes, others.rules_changes) == (1, 1)
    with pytest.raises(Denied):
        stored.write((), 1, SIGNED_OUT)


def test_a_listener_may_leave_while_told() -> None:
    """Two listeners are told apart, and the one that stays hears on."""
    stored, ears, others = database(), Ears(), Ears()
    with stored.listening(ears):
        with stored.listening(others):
            stored.write((), 1, ADMIN)
        stored.write((), 2, ADMIN)
    assert [len(ears.commits), len(others.commits)] == [2, 1]


def together(target: Callable[[int], None]) -> None:
    """Run this in all threads at once, which take turns as often as they can."""
    threads = [threading.Thread(target=target, args=(number,)) for number in range(THREADS)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)


def test_every_commit_once_and_in_order() -> None:
    """While four threads write, each commit begins where the last one ended, and none is lost or doubled."""
    stored, ears = database(), Ears()
    start = threading.Barrier(THREADS)

    def write(thread: int) -> None:
        start.wait()
        for number in range(WRITES_EACH):
            if number % 2:
                stored.write((f"t{thread}",), number, ADMIN)
            else:
                stored.update((), {f"t{thread}": number, "count": {".sv": {"increment": 1}}}, ADMIN)

    with stored.listening(ears) as root:
        together(write)
    for commit in ears.commits:
        assert commit.before is root
        root = commit.after
    assert root is stored.root
    assert Counter(change.path[0] for commit in ears.commits for change in commit.changes) == {
        **{f"t{thread}": WRITES_EACH for thread in range(THREADS)},
        "count": THREADS * WRITES_EACH // 2,
    }
    for thread in range(THREADS):
        heard = [
            change.sent.value for commit in ears.commits for change in commit.changes if change.path == (f"t{thread}",)
        ]
        assert heard == list(range(WRITES_EACH))
    assert root.child("count").value == THREADS * WRITES_EACH // 2


def test_one_winner() -> None:
    """Of several that write on the same precondition, one succeeds; retrying with what is current, nothing is lost."""
    stored = database()
    start = threading.Barrier(THREADS)

    def count_up(_: int) -> None:
        start.wait()
        current: Node = EMPTY
        for _ in range(WRITES_EACH):
            while True:
                number = current.value
                data = number + 1 if isinstance(number, int) else 1
                try:
                    current = stored.write(("n",), data, ADMIN, if_match=etag(current))
                    break
                except PreconditionFailed as failed:
                    current = failed.current

    together(count_up)
    assert stored.root.child("n").value == THREADS * WRITES_EACH
