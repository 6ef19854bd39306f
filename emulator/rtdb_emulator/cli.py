"""The command `rtdb-emulator`: an emulator on a port, until Ctrl-C or SIGTERM; or with `exec`, `firebase_cli`.

A mistake of the user's (a rules file, a port, an import) is one line on stderr and exit code 2.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue

from rtdb_emulator import __version__
from rtdb_emulator.clock import Clock

DEFAULT_PORT = 9000


def main(arguments: Sequence[str] | None = None, name: str = "rtdb-emulator") -> int:
    """Run the command. `name` is the name of the command, and its error lines begin with it."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["exec"]:
        from rtdb_emulator import firebase_cli

        try:
            return firebase_cli.run(given[1:])
        except (OSError, ValueError) as error:
            return _fail(name, str(error))
    options = make_parser(name).parse_args(given)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    # A queue, not an event: a signal handler may put into a queue at any moment. The lock of an event may be held by
    # the very thread that the handler interrupts.
    signals: SimpleQueue[int] = SimpleQueue()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: signals.put(number))
    # Imported here, not above: it takes longer than all before, and signals count from now on.
    from rtdb_emulator.session import run

    try:
        run(**vars(options), wait=signals.get, say=lambda line: print(line, flush=True))
    except OSError as error:
        return _fail(name, error.strerror or str(error))
    except ValueError as error:
        return _fail(name, str(error))
    return 0


def make_parser(name: str) -> argparse.ArgumentParser:
    """The options of the command, by their names in `session.run`; `name` is as in `main`."""
    parser = argparse.ArgumentParser(
        prog=name,
        description="A Firebase Realtime Database emulator. Everything is in memory, and gone when it stops.",
        epilog="Point a client at it with FIREBASE_DATABASE_EMULATOR_HOST=HOST:PORT. "
        "`rtdb-emulator exec -- firebase emulators:start` has the Firebase CLI run this emulator.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port", type=_port, default=DEFAULT_PORT, help="port to listen on, 0 for any free one (default: %(default)s)"
    )
    parser.add_argument(
        "--rules",
        type=Path,
        metavar="FILE",
        help="security rules of every database, read again when FILE changes (default: open to all)",
    )
    parser.add_argument(
        "--import",
        type=Path,
        metavar="FILE",
        dest="imported",
        help="JSON to begin with, as the Firebase console exports it; FILE.<namespace>.json beside it likewise",
    )
    parser.add_argument(
        "--export-on-exit",
        type=Path,
        metavar="FILE",
        dest="export",
        help="where to write the data at the end; databases beside the project's go to FILE.<namespace>.json beside it",
    )
    parser.add_argument(
        "--project",
        metavar="ID",
        default="demo-firecron",
        help="the database of requests that name none, unless there is exactly one (default: %(default)s)",
    )
    parser.add_argument(
        "--clock",
        type=_clock,
        metavar="TIME",
        help="server's time, which stands still: milliseconds, or such as 2024-03-10T01:59:00Z (default: real time)",
    )
    parser.add_argument("--seed", type=int, metavar="N", help="make the same push ids in each run")
    parser.add_argument(
        "--explain", action="store_true", help="tell clients on sockets why rules deny something; the SDKs print it"
    )
    parser.add_argument(
        "--functions",
        type=_address,
        metavar="HOST:PORT",
        help="where the Firebase CLI's functions emulator is, which registers functions to be called at writes",
    )
    parser.add_argument("--version", action="version", version=f"rtdb-emulator {__version__}")
    return parser


def _clock(text: str) -> Clock:
    try:
        return Clock.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _address(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon or not host:
        raise argparse.ArgumentTypeError(f"{text!r} is not an address: 127.0.0.1:5001")
    _port(port)
    return text


def _port(text: str) -> int:
    port = int(text) if text.isascii() and text.isdigit() else -1
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: 0 to 65535")
    return port


def _fail(name: str, line: str) -> int:
    print(f"{name}: {line}", file=sys.stderr)
    return 2
