"""firebase-admin's ETags and transactions against the emulator."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from firebase_admin import db
from tests.emulator.conftest import MakeApp, ReferenceTo

from rtdb_emulator.pytest_plugin import Rtdb

CLIENTS = 8
INCREMENTS = 50


def test_an_etag_names_a_value(reference: ReferenceTo) -> None:
    """Equal values have one ETag wherever they are, other values another, and nothing has `null_etag`."""
    reference("a").set({"n": 1})
    reference("b").set({"n": 1})
    reference("c").set({"n": 2})
    (value, tag), (_, same), (_, other) = (reference(name).get(etag=True) for name in "abc")
    assert value == {"n": 1}
    assert tag == same != other
    assert reference("nowhere").get(etag=True) == (None, "null_etag")


def test_the_etag_is_the_services_own_hash(reference: ReferenceTo) -> None:
    """The ETag of 600613 is the one that Firebase's announcement of conditional requests shows."""
    reference("a").set(600613)
    assert reference("a").get(etag=True) == (600613, "ViJFJowpbyRvgGNPzPJdGeN+mCY=")


def test_get_if_changed(reference: ReferenceTo) -> None:
    """`get_if_changed` gives value and ETag for an outdated ETag, and nothing but False for the current one."""
    reference("a").set(1)
    changed, value, tag = reference("a").get_if_changed("outdated")
    assert (changed, value) == (True, 1)
    assert reference("a").get_if_changed(tag) == (False, None, None)
    reference("a").set(2)
    assert reference("a").get_if_changed(tag)[:2] == (True, 2)
    assert reference("nowhere").get_if_changed("null_etag") == (False, None, None)


@pytest.mark.parametrize("before", [None, 1, {"n": 1}], ids=str)
@pytest.mark.parametrize("after", [2, {"n": [1, 2]}, {}], ids=str)
def test_set_if_unchanged_writes_over_the_expected_state(
    reference: ReferenceTo, rtdb: Rtdb, before: object, after: object
) -> None:
    """With the current ETag `set_if_unchanged` writes, over nothing as well, and `{}` deletes."""
    rtdb.set("/a", before)
    _, tag = reference("a").get(etag=True)
    assert reference("a").set_if_unchanged(tag, after)[:2] == (True, after)
    assert rtdb.get("/a") == (after or None)


@pytest.mark.parametrize("now", [None, "theirs"], ids=str)
@pytest.mark.parametrize("tag", ["invalid-etag", "AAAAAAAAAAAAAAAAAAAAAAAAAAA="])
@pytest.mark.parametrize("mine", ["mine", {}], ids=str)
def test_set_if_unchanged_leaves_another_state_alone(
    reference: ReferenceTo, rtdb: Rtdb, now: object, tag: str, mine: object
) -> None:
    """With any other ETag nothing is written, and the answer holds the current value and its ETag."""
    rtdb.set("/a", now)
    written, value, current = reference("a").set_if_unchanged(tag, mine)
    assert (written, value) == (False, now)
    assert (value, current) == reference("a").get(etag=True)
    assert rtdb.get("/a") == now


def test_a_transaction_counts(reference: ReferenceTo, rtdb: Rtdb) -> None:
    """A transaction without a rival is one read and one conditional write, also where nothing is yet."""
    assert [reference("n").transaction(lambda seen: (seen or 0) + 1) for _ in range(3)] == [1, 2, 3]
    assert rtdb.get("/n") == 3
    assert (rtdb.count(method="GET"), rtdb.count(method="PUT")) == (3, 3)


def test_a_transaction_that_lost_runs_again_with_the_winners_value(reference: ReferenceTo, rtdb: Rtdb) -> None:
    """The function sees the value that won in between, without another read, and builds on it."""
    seen = []

    def count_up(value: int) -> int:
        seen.append(value)
        if len(seen) == 1:
            rtdb.set("/n", 100)
        return value + 1

    rtdb.set("/n", 1)
    assert reference("n").transaction(count_up) == 101 == rtdb.get("/n")
    assert seen == [1, 100]
    assert (rtdb.count(method="GET"), rtdb.count(method="PUT")) == (1, 2)


def test_a_transaction_that_always_loses_gives_up(reference: ReferenceTo, rtdb: Rtdb) -> None:
    """After 25 tries against a rival who always wins it is a TransactionAbortedError, and the rival's value stays."""

    def too_late(value: int | None) -> int:
        rtdb.set("/n", (value or 0) + 10)
        return 1

    with pytest.raises(db.TransactionAbortedError):
        reference("n").transaction(too_late)
    assert rtdb.get("/n") == 250
    assert rtdb.count(method="PUT") == 25


def test_a_transaction_ends_by_an_exception(reference: ReferenceTo, rtdb: Rtdb) -> None:
    """What the function raises reaches the caller, and nothing is written."""

    def refuse(value: object) -> object:
        raise LookupError(value)

    rtdb.set("/n", 1)
    with pytest.raises(LookupError, match="1"):
        reference("n").transaction(refuse)
    assert rtdb.get("/n") == 1
    assert rtdb.count(method="PUT") == 0


def test_a_transaction_that_returns_an_empty_object_deletes(reference: ReferenceTo, rtdb: Rtdb) -> None:
    """`{}` is how a Python transaction deletes its node."""
    rtdb.set("/a/b", {"n": 1})
    assert reference("a/b").transaction(lambda _: {}) == {}
    assert rtdb.get("/") is None


def test_hundreds_of_increments_from_eight_clients(make_app: MakeApp, rtdb: Rtdb) -> None:
    """Each transaction that returns has counted once: 8 clients count to 400, and no number is given out twice."""

    def count_up(app: object) -> list[int]:
        node = db.reference("n", app)
        counted: list[int] = []
        while len(counted) < INCREMENTS:
            try:
                counted.append(node.transaction(lambda seen: (seen or 0) + 1))
            except db.TransactionAbortedError:
                continue  # it lost 25 times in a row, and wrote nothing
        return counted

    with ThreadPoolExecutor(CLIENTS) as threads:
        counts = list(threads.map(count_up, [make_app() for _ in range(CLIENTS)]))
    assert sorted(number for counted in counts for number in counted) == list(range(1, CLIENTS * INCREMENTS + 1))
    assert rtdb.get("/n") == CLIENTS * INCREMENTS
