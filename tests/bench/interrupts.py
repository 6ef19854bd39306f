"""Stop an instance at each line of firecron that a program's thread comes to, as a signal's handler may.

The tests do so at some of them.
"""

from __future__ import annotations

import logging

from tests.unit.test_interrupts import ACTS, lines_in, stop_in


def main() -> None:
    logging.getLogger("firecron").setLevel(logging.CRITICAL)
    for name, act in ACTS.items():
        came = [stop_in(act, line) for line in lines_in(act)]
        print(f"{name}: stopped at {sum(came)} lines of {len(came)}, and never came to the others")


if __name__ == "__main__":
    main()
