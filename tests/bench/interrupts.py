"""Stop an instance at each line of firecron that a program's thread comes to, as a signal's handler may.

The tests do so at some of them.
"""

from __future__ import annotations

import logging

from tests.unit.test_interrupts import ACTS, lines_in, stop_in


def main() -> None:
    logging.getLogger("firecron").setLevel(logging.CRITICAL)
    for name, act in ACTS.items():
        lines = lines_in(act)
        for line in lines:
            stop_in(act, line)
        print(f"{name}: stopped at each of {len(lines)} lines")


if __name__ == "__main__":
    main()
