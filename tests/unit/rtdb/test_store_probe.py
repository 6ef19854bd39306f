"""What anyone may read, as the database answers without credentials; and a large reply, which is read in pieces."""

from __future__ import annotations

import json
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firecron.base.clocks import Deadline, SystemTiming
from firecron.errors import Unavailable
from firecron.rtdb.store import RtdbStore, in_pieces, may_read
from firecron.rtdb.target import Target, find_target
from rtdb_emulator.pytest_plugin import Rtdb


def deadline() -> Deadline:
    return Deadline.after(SystemTiming(), 10)


def target(rtdb: Rtdb) -> Target:
    return Target(rtdb.emulator.url, {"ns": rtdb.namespace}, None)


def test_the_rules_of_the_database_decide(rtdb: Rtdb) -> None:
    """What the rules of this very database close can't be read, everything else can, there or not."""
    rtdb.set_rules({"rules": {"open": {".read": True}}})
    assert may_read(target(rtdb), "open/a b", deadline())
    assert not may_read(target(rtdb), "closed", deadline())


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_is_one_by_either_status(rtdb: Rtdb, status: int) -> None:
    """Whether it is called unauthorized or forbidden, it can't be read."""
    with rtdb.faults.answer(status, path="/cron-locks"):
        assert not may_read(target(rtdb), "cron-locks", deadline())


def test_another_answer_tells_nothing(rtdb: Rtdb) -> None:
    """An error of the database is neither a refusal nor a permission."""
    with rtdb.faults.answer(503, path="/cron-locks"), pytest.raises(Unavailable, match="RTDB answered 503"):
        may_read(target(rtdb), "cron-locks", deadline())


def test_a_database_that_can_not_be_reached_tells_nothing() -> None:
    """A host that doesn't answer is named; a database's own URL needs no namespace."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nothing listens there
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(Unavailable, match=f"RTDB can't be reached at {url}"):
            may_read(Target(url, {}, None), "cron-locks", deadline())


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=8,
)


@given(JSON, st.sampled_from([(",", ":"), (", ", ": "), (" ,", " :")]), st.sampled_from([None, 1]))
def test_what_is_read_in_pieces_is_what_is_read_at_once(value: object, marks: tuple[str, str], indent: int) -> None:
    """Whatever the reply is, and however it is spaced."""
    text = json.dumps(value, separators=marks, indent=indent)
    assert in_pieces(text) == json.loads(text) == value


@given(st.dictionaries(st.text(), JSON, min_size=1, max_size=3), st.data())
def test_what_is_cut_is_no_reply(value: dict[str, object], data: st.DataObject) -> None:
    """Neither is one that goes on after its end."""
    text = json.dumps(value, separators=(",", ":"))
    for odd in (
        text[: data.draw(st.integers(0, len(text) - 1))],
        f"{text}]",
        f'{{"a",{text[1:]}',
        f"{text[:-1]},}}",
    ):
        with pytest.raises(ValueError):  # noqa: PT011  # the text is the decoder's
            in_pieces(odd)


@pytest.mark.parametrize("size", [50, 5_000])
def test_a_large_reply_is_read_as_a_small_one(rtdb: Rtdb, size: int) -> None:
    """With all that it says."""
    nodes = {f"job-{number}": {"slot": "2026-11-18T09:00:00Z", "expiresAt": number} for number in range(size)}
    rtdb.set("/cron-locks", nodes)
    store = RtdbStore(lambda: find_target(None, rtdb.url), SystemTiming())
    assert store.read("cron-locks", deadline()).node == nodes
    store.close()
