"""Recordings of the official SDKs, replayed frame by frame: the emulator says what the clients were told then."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import requests
from tests.emulator.sockets import opened
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from rtdb_emulator import Emulator

RECORDED = json.loads((Path(__file__).parent / "data" / "websocket-transcripts.json").read_text("utf-8"))
DATABASE = "demo"
_REPEATED = re.compile(r"<(.) \* (\d+)>")


class Replay:
    """One recording, played to an emulator: its clients' frames are sent, and the server's compared."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._open = ExitStack()
        self._connections: dict[int, ClientConnection] = {}
        self._sessions: dict[str, str] = {}

    def play(self, frame: dict[str, object]) -> None:
        number = frame.get("conn", 1)
        assert isinstance(number, int)
        if "open" in frame:
            target = str(frame["open"])
            for recorded, session in self._sessions.items():
                target = target.replace(recorded, session)
            self._connections[number] = self._open.enter_context(opened(target, self._emulator.port))
        if "c" in frame:
            self._connections[number].send(_spelled_out(str(frame["c"])))
        if "s" in frame:
            self._compare(self._connections[number], _spelled_out(str(frame["s"])))
        if "rest" in frame:
            self._write(frame["rest"])
        if "close" in frame:
            if frame["close"] == "1006":  # its process ended in the middle of nothing
                # No more was said than recorded: the answer to this is the next message.
                self._connections[number].send('{"t":"c","d":{"t":"p","d":{}}}')
                self._compare(self._connections[number], '{"t":"c","d":{"t":"o","d":{}}}')
            self._connections[number].close()

    def finish(self) -> None:
        self._open.close()

    def _compare(self, connection: ClientConnection, recorded: str) -> None:
        said = connection.recv(timeout=10)
        assert isinstance(said, str)
        if not recorded.startswith("{") or not recorded.endswith("}"):  # a count, or a segment
            assert said == recorded
            return
        spoken = json.loads(said)
        if '"t":"h"' in recorded:
            hello = spoken["d"]["d"]
            assert isinstance(hello["ts"], int)
            assert hello["h"] == self._emulator.host
            self._sessions[re.findall("<session-[0-9]+>", recorded)[0]] = hello["s"]
            spoken["d"]["d"] = {"ts": 0, "v": hello["v"], "h": "<host>", "s": "<session>"}
        expected = json.loads(re.sub("<session-[0-9]+>", "<session>", re.sub("<ms>|<now>", "0", recorded)))
        assert _scrubbed(spoken) == expected

    def _write(self, rest: object) -> None:
        assert isinstance(rest, list)
        method, path, body = rest
        answer = requests.request(
            method,
            f"{self._emulator.url}{path}?ns={DATABASE}",
            json=body,
            headers={"authorization": "Bearer owner"},
            timeout=10,
        )
        assert answer.status_code == 200


def _spelled_out(text: str) -> str:
    return _REPEATED.sub(lambda match: match[1] * int(match[2]), text)


def _scrubbed(value: object) -> object:
    """Without times: what is a number of this century's milliseconds."""
    if isinstance(value, dict):
        return {key: _scrubbed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_scrubbed(item) for item in value]
    return 0 if isinstance(value, int) and value > 10**12 else value


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator() as running:
        yield running


@pytest.mark.parametrize("recorded", RECORDED["transcripts"], ids=lambda recorded: recorded["name"])
def test_the_emulator_says_what_the_clients_were_told(emulator: Emulator, recorded: dict[str, object]) -> None:
    """Each message of the server's is the recorded one, but for times, the host and the names of sessions."""
    emulator.drop(DATABASE)
    emulator.set(DATABASE, "/", recorded["start"])
    rules = recorded["rules"]
    assert isinstance(rules, dict)
    emulator.set_rules(DATABASE, {"rules": rules})
    replay = Replay(emulator)
    frames = recorded["frames"]
    assert isinstance(frames, list)
    try:
        for frame in frames:
            replay.play(frame)
    except ConnectionClosed as closed:
        pytest.fail(f"the emulator closed the connection: {closed}")
    finally:
        replay.finish()
