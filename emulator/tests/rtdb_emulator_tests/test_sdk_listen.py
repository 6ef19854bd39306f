"""firebase-admin's `listen` against the emulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from queue import SimpleQueue
from typing import Any, TypeAlias

import pytest

from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.conftest import ReferenceTo

Told: TypeAlias = tuple[str, str, object]
Listen: TypeAlias = Callable[[str], Callable[[], Told]]

# Far longer than anything here takes, the 3 s that the SDK sleeps before it connects again included.
BOUND = 30.0

# The SDK's own thread may end with an AttributeError when `close()` takes the connection from under it.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


@pytest.fixture
def listen(reference: ReferenceTo) -> Iterator[Listen]:
    """Starts a listener at a path; what it gives waits for the listener's next event."""
    with ExitStack() as listeners:

        def start(path: str) -> Callable[[], Told]:
            events: SimpleQueue[Any] = SimpleQueue()
            listeners.enter_context(closing(reference(path).listen(events.put)))

            def told() -> Told:
                event = events.get(timeout=BOUND)
                return event.event_type, event.path, event.data

            return told

        yield start


def test_begins_with_what_is_there(listen: Listen, rtdb: Rtdb) -> None:
    """The first event is a put of the whole value, or of None where there is none."""
    rtdb.set("/a", {"b": "ünïcödé 😀"})
    assert listen("a")() == ("put", "/", {"b": "ünïcödé 😀"})
    assert listen("a/b")() == ("put", "/", "ünïcödé 😀")
    assert listen("nowhere")() == ("put", "/", None)


def test_hears_every_kind_of_write(listen: Listen, reference: ReferenceTo) -> None:
    """Set, update, push, transaction and delete are told in order, each with the path that was written."""
    node = reference("a")
    told = listen("a")
    assert told() == ("put", "/", None)
    node.set({"x": 1, "list": ["p", "q"]})
    assert told() == ("put", "/", {"x": 1, "list": ["p", "q"]})
    node.child("x").set(2)
    assert told() == ("put", "/x", 2)
    node.child("list").update({"0": "P", "2/deep": True})
    assert told() == ("patch", "/list", {"0": "P", "2/deep": True})
    node.update({"x": None, "y": {"z": 1}})
    assert told() == ("patch", "/", {"x": None, "y": {"z": 1}})
    pushed = node.push("new")
    assert told() == ("put", f"/{pushed.key}", "new")
    node.child("y/z").transaction(lambda seen: seen + 1)
    assert told() == ("put", "/y/z", 2)
    node.child("y/z").delete()
    assert told() == ("put", "/y/z", None)
    node.delete()
    assert told() == ("put", "/", None)


def test_hears_what_concerns_its_path_and_nothing_else(listen: Listen, reference: ReferenceTo) -> None:
    """A listener further down hears of writes above as its own new value, and nothing of its siblings."""
    told = listen("a/b")
    assert told() == ("put", "/", None)
    reference("a/sibling").set(1)
    reference("a/b").set(1)
    assert told() == ("put", "/", 1)
    reference("a").set({"b": {"c": 2}, "sibling": 3})
    assert told() == ("put", "/", {"c": 2})
    reference("a").update({"b/c": 3, "sibling": 4})
    assert told()[1:] in [("/c", 3), ("/", {"c": 3})]
    reference("/").delete()
    assert told() == ("put", "/", None)


def test_a_closed_listener_hears_no_more(reference: ReferenceTo) -> None:
    """After `close()` writes are no longer told, while another listener still hears them."""
    events: SimpleQueue[Any] = SimpleQueue()
    others: SimpleQueue[Any] = SimpleQueue()
    registration = reference("a").listen(events.put)
    with closing(reference("a").listen(others.put)):
        assert events.get(timeout=BOUND).data is None
        assert others.get(timeout=BOUND).data is None
        registration.close()
        reference("a").set("later")
        assert others.get(timeout=BOUND).data == "later"
    assert events.empty()


def test_connects_again_after_a_cut(listen: Listen, reference: ReferenceTo, rtdb: Rtdb) -> None:
    """When the stream is cut the SDK comes back by itself, and is told the whole value of then."""
    rtdb.set("/a", "before")
    told = listen("a")
    assert told() == ("put", "/", "before")
    rtdb.faults.cut_off(header=("Accept", "text/event-stream")).remove()
    reference("a").set("meanwhile")
    assert told() == ("put", "/", "meanwhile")
    reference("a").set("after")
    assert told() == ("put", "/", "after")
    assert rtdb.count(path="/a", method="GET") == 2
