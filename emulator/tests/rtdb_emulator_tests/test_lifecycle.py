"""`Emulator` from its start to its end: what it loads, who may use it, what it leaves behind."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from queue import SimpleQueue
from typing import Any

import firebase_admin
import pytest
import requests
from firebase_admin import db

from rtdb_emulator import Emulator
from rtdb_emulator_tests.helpers.processes import BOUND, Run

THREADS = 8


def test_importing_the_package_loads_nothing(run: Run) -> None:
    """`import rtdb_emulator` loads no other package, and of the standard library neither asyncio nor sockets."""
    code = """
import sys
before = set(sys.modules)
import rtdb_emulator
loaded = {name for name in set(sys.modules) - before if name.partition(".")[0] not in sys.stdlib_module_names}
assert loaded == {"rtdb_emulator"}, loaded
assert not {"asyncio", "socket", "json", "logging"} & set(sys.modules)
assert "Emulator" in dir(rtdb_emulator)
rtdb_emulator.Emulator
assert {"starlette", "uvicorn"} <= set(sys.modules)
"""
    finished = run("-c", code)
    assert finished.returncode == 0, finished.stderr


def test_all_public_names_are_there(run: Run) -> None:
    """Each name of `__all__` can be imported, and another one is an AttributeError with its name."""
    code = """
import rtdb_emulator
from rtdb_emulator import *
for name in rtdb_emulator.__all__:
    assert globals()[name] is getattr(rtdb_emulator, name)
try:
    rtdb_emulator.Nothing
except AttributeError as error:
    assert "'Nothing'" in str(error)
"""
    finished = run("-c", code)
    assert (finished.returncode, finished.stderr) == (0, "")


def test_stops_while_the_sdk_listens() -> None:
    """`stop` cuts the SDK's listeners off, and leaves no thread and no listening port behind."""
    before = set(threading.enumerate())
    told: SimpleQueue[Any] = SimpleQueue()
    with ExitStack() as ending:
        with Emulator() as emulator:
            ports = [emulator.port, emulator.add_port()]
            app = firebase_admin.initialize_app(
                options={"databaseURL": emulator.database_url("mine")}, name="listening"
            )
            ending.callback(firebase_admin.delete_app, app)
            listeners = [db.reference("a", app).listen(told.put) for _ in range(3)]
            for _ in listeners:
                assert told.get(timeout=BOUND).data is None
            # Else the SDK's threads try to connect again after 3 s, and die of an exception.
            for listener in listeners:
                source = listener._sse  # firebase-admin's own: there is no other way to it
                source.should_connect, source.retry = False, 0
        for thread in set(threading.enumerate()) - before:
            thread.join(BOUND)
    assert set(threading.enumerate()) <= before
    for port in ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), BOUND)


def at_once(act: Callable[[int], object]) -> None:
    """Do this on several threads that begin together."""
    together = threading.Barrier(THREADS)

    def begin(number: int) -> None:
        together.wait(BOUND)
        act(number)

    with ThreadPoolExecutor(THREADS) as threads:
        for _ in threads.map(begin, range(THREADS)):
            pass


def test_can_be_used_from_several_threads() -> None:
    """Threads of the test and clients write at the same time, and no write is lost."""
    with Emulator() as emulator:

        def write(number: int) -> None:
            for turn in range(20):
                emulator.set("mine", f"/direct/{number}-{turn}", turn)
                url = emulator.database_url("mine").replace("?", f"http/{number}-{turn}.json?")
                assert requests.put(url, json=turn, timeout=BOUND).ok
                assert emulator.get("mine", f"/http/{number}-{turn}") == turn

        at_once(write)
        everything = {f"{number}-{turn}": turn for number in range(THREADS) for turn in range(20)}
        assert emulator.get("mine") == {"direct": everything, "http": everything}
        assert emulator.requests.count(method="PUT") == len(everything)


def test_several_emulators_run_side_by_side() -> None:
    """Each emulator has its own port and data, also when many start and stop at the same time."""

    def count(number: int) -> None:
        for _ in range(5):
            with Emulator() as emulator:
                assert emulator.get("mine") is None
                url = emulator.database_url("mine").replace("?", ".json?")
                assert requests.put(url, json=number, timeout=BOUND).json() == number
                assert emulator.get("mine") == number

    before = set(threading.enumerate())
    at_once(count)
    assert set(threading.enumerate()) <= before
