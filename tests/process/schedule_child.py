"""A program that puts and removes stored schedules, one after another, until it is killed: `schedule_child.py URL`."""

from __future__ import annotations

import sys

from firecron import LockService
from firecron.settings import load

KEYS = 500


def main(url: str) -> None:
    service = LockService(settings=load(database_url=url))
    for number in range(KEYS):
        service.schedules.put("remind", f"k{number:03}", "0 9 * * *", args={"number": number})
        if number % 2:
            service.schedules.remove("remind", f"k{number - 1:03}")
        print(number, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
