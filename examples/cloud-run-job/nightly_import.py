"""A Cloud Run job: imports stock levels from a feed, in one execution at a time.

    python nightly_import.py FEED      # a file with lines such as "apples,12"

A second execution that comes while one is running ends at once, and well: there is nothing to repeat. The lock alone
can't keep an execution that was frozen past its lease from writing when it wakes, so each write also carries the
fencing token, and the database refuses one that is lower than what it has seen.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path

import firecron.logging
from firecron import LockService, NotAcquired

CREATE = "CREATE TABLE IF NOT EXISTS stock (item TEXT PRIMARY KEY, level INTEGER NOT NULL, fence INTEGER NOT NULL)"
WRITE = """
    INSERT INTO stock (item, level, fence) VALUES (:item, :level, :fence)
    ON CONFLICT (item) DO UPDATE SET level = excluded.level, fence = excluded.fence WHERE stock.fence <= excluded.fence
"""


class Fenced(Exception):
    """A later execution has written this item already; this one has lost its lock, whether it knows or not."""


def write(stock: sqlite3.Connection, item: str, level: int, fence: int) -> None:
    """Set an item's level, unless that was done under a higher fence."""
    with stock:
        if stock.execute(WRITE, {"item": item, "level": level, "fence": fence}).rowcount == 0:
            raise Fenced(f"{item} was written under a fence higher than {fence}")


def main(feed: Path) -> int:
    firecron.logging.setup()
    stock = sqlite3.connect(os.environ.get("STOCK", "/tmp/stock.db"))  # noqa: S108  # a container's own
    stock.execute(CREATE)
    try:
        with LockService().hold("nightly-import", ttl=60, fenced=True) as lease, feed.open(encoding="utf-8") as lines:
            assert lease.fence is not None, "asked for above"
            for line in lines:
                item, level = line.split(",")
                lease.check()
                write(stock, item, int(level), lease.fence)
                print(f"imported {item} under fence {lease.fence}", flush=True)
    except NotAcquired as error:
        print(f"nothing done: {error}", flush=True)
        # Held: another execution does the work. Anything else is a failure, for Cloud Run to show and to retry.
        return 0 if error.refusal.reason == "held" else 1
    finally:
        stock.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
