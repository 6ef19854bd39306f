"""A Cloud Run job that imports stock levels from a feed, one execution at a time.

    python nightly_import.py FEED      # a file with lines such as "apples,12"

If a second execution starts while the first one is running, it ends at once with exit code 0: there is nothing to
repeat. An execution may be frozen, and wake up after its lease has expired. The lock alone can't keep it from writing
then. So each write carries the fencing token, and the database refuses a token that is lower than one it has seen.
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
    """A later execution has already written this item, so this execution has lost its lock."""


def write(stock: sqlite3.Connection, item: str, level: int, fence: int) -> None:
    """Set an item's level. Raises Fenced if the item was written under a higher fence."""
    with stock:
        if stock.execute(WRITE, {"item": item, "level": level, "fence": fence}).rowcount == 0:
            raise Fenced(f"{item} was written under a fence higher than {fence}")


def main(feed: Path) -> int:
    firecron.logging.setup()
    stock = sqlite3.connect(os.environ.get("STOCK", "/tmp/stock.db"))  # noqa: S108  # a container's own
    stock.execute(CREATE)
    try:
        with LockService().hold("nightly-import", ttl=60, fenced=True) as lease, feed.open(encoding="utf-8") as lines:
            assert lease.fence is not None, "fenced=True gives the lease a fence"
            for line in lines:
                item, level = line.split(",")
                lease.check()
                write(stock, item, int(level), lease.fence)
                print(f"imported {item} under fence {lease.fence}", flush=True)
    except NotAcquired as error:
        print(f"nothing done: {error}", flush=True)
        # If the lock is held, another execution does the work. Any other reason is a failure: Cloud Run shows it and
        # retries.
        return 0 if error.refusal.reason == "held" else 1
    finally:
        stock.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
