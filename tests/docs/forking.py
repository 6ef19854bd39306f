"""`firecron` for the shell blocks of the pages: each call is forked from a process that has imported it, because that
takes longer than nearly all of them. That the installed command works is seen by `tests/process`.

The command on the path sends its arguments, folder, environment and standard files here, and ends with the exit code
that comes back.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

COMMAND = """#!{python} -ISE
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({path!r})
    socket.send_fds(server, [b" "], [0, 1, 2])
    server.sendall(json.dumps([sys.argv, os.getcwd(), dict(os.environ)]).encode())
    server.shutdown(socket.SHUT_WR)
    code = server.recv(16)
sys.exit(int(code) if code else "firecron was killed")
"""


@contextmanager
def forked_firecron(folder: Path) -> Iterator[Path]:
    """Yield a folder with the command in it. No process that was forked outlives the block."""
    path, command = folder / "socket", folder / "firecron"
    command.write_text(COMMAND.format(python=sys.executable, path=str(path)), "utf-8")
    command.chmod(0o755)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.docs.forking", str(path)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            yield folder
        finally:
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)


def serve(path: str) -> None:
    """Fork for each call, until somebody kills this process."""
    import firecron.cli.commands

    for found in pkgutil.walk_packages(firecron.cli.commands.__path__, "firecron.cli.commands."):
        importlib.import_module(found.name)
    for name in ("firecron.rtdb.store", "requests", "pydantic_settings"):
        importlib.import_module(name)
    assert threading.active_count() == 1, f"a fork would lose {threading.enumerate()}"
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how they have ended
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        print("ready", flush=True)
        while True:
            call, _ = server.accept()
            with call:
                if not os.fork():
                    server.close()
                    _run(call)


def _run(call: socket.socket) -> None:
    """In the child: run the command, whose exit code is told last of all."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    answer, code = call.dup(), 1

    def tell() -> None:
        answer.sendall(str(code).encode())

    atexit.register(tell)
    _, files, _, _ = socket.recv_fds(call, 1, 3)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    with call.makefile("rb") as rest:
        sys.argv, folder, environment = json.loads(rest.read())
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    from firecron.cli import main

    try:
        main(name="firecron")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise
    sys.exit(code := 0)


if __name__ == "__main__":
    serve(sys.argv[1])
