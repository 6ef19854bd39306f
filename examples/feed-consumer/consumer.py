"""A consumer of a price feed that runs on one of any number of instances, and survives each deploy.

    FEED=prices.log STORE=prices.db python consumer.py

The feed is a file that grows; it could as well be a socket or a subscription. The instance that leads reads it, from
where the last leader stopped: the position is written in the same transaction as the price, under the term's fence. A
leader that was frozen and wakes up too late has a lower fence than its successor, and the database refuses its write.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import firecron.logging
from firecron import FireCron, Term, leader

CREATE = """
    CREATE TABLE IF NOT EXISTS prices (number INTEGER PRIMARY KEY, price TEXT NOT NULL, revision TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS position (id INTEGER PRIMARY KEY, bytes INTEGER NOT NULL, fence INTEGER NOT NULL);
    INSERT OR IGNORE INTO position VALUES (1, 0, 0);
"""
ADVANCE = "UPDATE position SET bytes = :bytes, fence = :fence WHERE id = 1 AND fence <= :fence"
INSERT = "INSERT INTO prices (number, price, revision) VALUES (:number, :price, :revision)"


class Fenced(Exception):
    """A later leader has read on, so this instance leads no more."""


def write(store: sqlite3.Connection, line: str, end: int, fence: int) -> None:
    """Store one line of the feed, and where the next one begins. Raises Fenced under a fence that is too low."""
    number, price = line.split()
    with store:
        if store.execute(ADVANCE, {"bytes": end, "fence": fence}).rowcount == 0:
            raise Fenced(f"the feed was read under a fence higher than {fence}")
        revision = os.environ.get("K_REVISION", "local")
        store.execute(INSERT, {"number": int(number), "price": price, "revision": revision})


@leader("price-feed", ttl=6)
def consume(term: Term) -> None:
    """Read the feed for as long as this instance leads."""
    with (
        closing(sqlite3.connect(os.environ["STORE"], timeout=10)) as store,
        Path(os.environ["FEED"]).open("rb") as feed,
    ):
        store.executescript(CREATE)
        feed.seek(store.execute("SELECT bytes FROM position").fetchone()[0])
        while not (term.stopping or term.lost):
            line = feed.readline()
            if line.endswith(b"\n"):
                write(store, line.decode(), feed.tell(), term.fence)
            else:
                feed.seek(-len(line), os.SEEK_CUR)
                term.stopping.wait(0.02)


crons = FireCron(consume)

if __name__ == "__main__":
    firecron.logging.setup()
    asked_to_end = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked_to_end.set())
    with crons:
        while not asked_to_end.wait(1):
            pass  # not for ever: a signal that comes just before a wait is only heard after it
