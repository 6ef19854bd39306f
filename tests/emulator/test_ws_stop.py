"""The end of the emulator, for its sockets."""

from __future__ import annotations

import gc

from tests.emulator.sockets import socket_client

from rtdb_emulator.emulator import Emulator


def test_sockets_are_closed_when_the_emulator_stops() -> None:
    """Its loop doesn't wait for the clients' answers, and leaves nothing open."""
    emulator = Emulator().start()
    with socket_client(emulator, "shop") as client:
        emulator.stop()
        assert client.closed() == 1001
    gc.collect()  # a transport that was left open says so here
