"""Conformance of the watch, which a store may leave out: without it these tests pass, and whoever waits asks again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from firecron.base.clocks import Deadline
from firecron.errors import Unavailable
from firecron.store import KeptAlive, Watch, Watching
from firecron.testing.conformance.kit import PATIENCE, TTL, Kit, taken


class WatchConformance(Kit):
    """Tests of what a watch tells about the lock's node."""

    def test_a_watch_begins_with_the_whole_node(self) -> None:
        """The first value is the node as it is: absent, or with all its children."""
        service = self.service()
        for node in (None, {"paused": True, "expiresAt": 0}):
            self.node = node
            with _watching(service.store, self.path) as watch:
                assert watch is None or watch.next() == node

    def test_a_watch_tells_each_state_that_lasts(self) -> None:
        """After a write, a write of a child, the removal of a child and a deletion, the whole node is told."""
        service = self.service()
        with _watching(service.store, self.path) as watch:
            if watch is None:
                return
            for path, value, node in (
                (self.path, {"holder": "h", "expiresAt": 1}, {"holder": "h", "expiresAt": 1}),
                (f"{self.path}/paused", True, {"holder": "h", "expiresAt": 1, "paused": True}),
                (f"{self.path}/holder", None, {"expiresAt": 1, "paused": True}),
                (self.path, {"expiresAt": 2}, {"expiresAt": 2}),
                (self.path, None, None),
            ):
                self.write(path, value)
                _hear(watch, node)

    def test_a_watch_tells_what_a_holder_does(self) -> None:
        """An acquire and a release are told as the record that is stored."""
        service = self.service()
        with _watching(service.store, self.path) as watch:
            if watch is None:
                return
            lease = taken(service.acquire(self.name, TTL, fenced=True))
            _hear(watch, self.node)
            lease.release()
            _hear(watch, self.node)

    def test_a_watch_that_is_closed_ends_at_once(self) -> None:
        """A thread that waits for the next value gets Unavailable when another thread closes the watch."""
        service = self.service()
        with _watching(service.store, self.path) as watch:
            if watch is None:
                return
            watch.next()
            closing = threading.Timer(0, watch.close)
            closing.start()
            try:
                watch.next()
            except Unavailable:
                return
            finally:
                closing.join()
            raise AssertionError("a watch that was closed has told another value")

    def test_a_watch_that_has_just_told_something_is_not_silent(self) -> None:
        """A watch may tell for how long its database has shown no life: a value is a sign of it."""
        service = self.service()
        with _watching(service.store, self.path) as watch:
            if not isinstance(watch, KeptAlive):
                return
            self.node = {"expiresAt": 1}
            _hear(watch, self.node)
            assert 0 <= watch.silence() < PATIENCE * 1000

    def test_the_lock_is_handed_over_to_a_waiter(self) -> None:
        """An acquire that waits gets the lock once its holder has released it."""
        one, other = self.service(), self.service()
        lease = taken(one.acquire(self.name, TTL))
        releasing = threading.Timer(0, lease.release)
        releasing.start()
        try:
            assert taken(other.acquire(self.name, TTL, wait=PATIENCE)).release()
        finally:
            releasing.join()


@contextmanager
def _watching(store: object, path: str) -> Iterator[Watch | None]:
    """Yield a watch that ends by itself after a while, so that no test waits for ever. None: the store has none."""
    if not isinstance(store, Watching):
        yield None
        return
    watch = store.watch(path, _SOON)
    limit = threading.Timer(PATIENCE, watch.close)
    limit.start()
    try:
        yield watch
    finally:
        limit.cancel()
        watch.close()
        limit.join()


def _hear(watch: Watch, node: object) -> None:
    """Read values until this one comes. Others may come before it, or it may come twice."""
    while watch.next() != node:
        continue


_SOON = Deadline(lambda: 0.0, PATIENCE * 1000.0)
