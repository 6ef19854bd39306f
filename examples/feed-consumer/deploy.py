"""A deploy on this machine: two instances of a revision, then two of the next one, while the feed goes on.

Run it with `firecron emulator -- python deploy.py`.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

FOLDER = Path(__file__).parent
# Prices that each revision reads at least.
ENOUGH = 20


def main() -> int:
    if "FIREBASE_DATABASE_EMULATOR_HOST" not in os.environ:
        sys.exit("there is no emulator: run this as firecron emulator -- python deploy.py")
    with tempfile.TemporaryDirectory() as folder:
        feed, store = Path(folder) / "prices.log", Path(folder) / "prices.db"
        feed.touch()
        ended = threading.Event()
        threading.Thread(target=publish, args=(feed, ended), daemon=True).start()
        try:
            old = [start("feed-v1", feed, store) for _ in range(2)]
            wait_for(store, "feed-v1")
            print("feed-v1 reads the feed")
            new = [start("feed-v2", feed, store) for _ in range(2)]
            for process in old:
                process.terminate()
            codes = [process.wait(20) for process in old]
            print("feed-v1 has ended")
            wait_for(store, "feed-v2")
            print("feed-v2 reads the feed")
        finally:
            ended.set()
        for process in new:
            process.terminate()
        codes += [process.wait(20) for process in new]
        # An instance that is told to end while it is still starting ends by the signal.
        return judge(store) if all(code in (0, -signal.SIGTERM) for code in codes) else 1


def publish(feed: Path, ended: threading.Event) -> None:
    """Write a numbered price every 20 ms."""
    with feed.open("a", encoding="utf-8") as lines:
        number = 0
        while not ended.wait(0.02):
            number += 1
            lines.write(f"{number} {100 + number % 7}\n")
            lines.flush()


def start(revision: str, feed: Path, store: Path) -> subprocess.Popen[str]:
    """Start an instance of this revision."""
    return subprocess.Popen(
        [sys.executable, "consumer.py"],
        cwd=FOLDER,
        env={
            **os.environ,
            "RUNTIME_INSTANCE": "production",
            "K_REVISION": revision,
            "FEED": str(feed),
            "STORE": str(store),
        },
        stderr=subprocess.DEVNULL,  # the log
        text=True,
    )


def wait_for(store: Path, revision: str) -> None:
    """Wait until the revision has read enough prices; give up after half a minute."""
    for _ in range(300):
        if read(store)[1][revision] >= ENOUGH:
            return
        time.sleep(0.1)
    sys.exit(f"{revision} has not read the feed")


def read(store: Path) -> tuple[list[int], Counter[str]]:
    """Return the numbers of all prices in the store, and how many each revision has read."""
    try:
        with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=10)) as prices:
            rows = prices.execute("SELECT number, revision FROM prices ORDER BY number").fetchall()
    except sqlite3.OperationalError:
        return [], Counter()  # no leader has made the tables yet
    return [number for number, _ in rows], Counter(revision for _, revision in rows)


def judge(store: Path) -> int:
    """Print whether each price was read once, and by which revision."""
    numbers, by_revision = read(store)
    is_whole = numbers == list(range(1, len(numbers) + 1))
    print(f"{'each price once' if is_whole else 'prices are missing'}; read by {' and '.join(sorted(by_revision))}")
    return 0 if is_whole else 1


if __name__ == "__main__":
    raise SystemExit(main())
