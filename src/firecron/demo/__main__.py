"""Show three instances that race for a job; one is killed."""

from __future__ import annotations

import argparse
import sys

_EXTRA = {"rtdb_emulator", "rich"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m firecron.demo", description=__doc__)
    parser.add_argument(
        "--ticks", type=int, default=9, choices=range(2, 13), metavar="2…12", help="number of ticks to play"
    )
    ticks: int = parser.parse_args().ticks
    try:
        from firecron.demo.show import run
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        print(f"firecron.demo: {error.name} is not installed: pip install 'firecron[emulator,cli]'", file=sys.stderr)
        return 2
    return run(ticks)


if __name__ == "__main__":
    raise SystemExit(main())
