"""The texts of the messages: requests of the client, and answers, pushes and control messages of the server.

Values that may be large are JSON texts already. All texts are ASCII.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NoReturn

from rtdb_emulator.jsondata import render
from rtdb_emulator.rules.explain import Refused
from rtdb_emulator.tree import Node, Path
from rtdb_emulator.ws.segments import Broken, Message

VERSION: Final = "5"
# The only action outside the protocol; the emulator's own page uses it.
INSPECT: Final = "inspect"


@dataclass(frozen=True, slots=True)
class Request:
    """A client's request: its number, the action, and the body."""

    number: int
    action: str
    body: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Control:
    """A client's message about the connection itself."""

    kind: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request: a status, and its data as JSON. `refused` is the operation that rules have denied."""

    status: str
    data: str = '""'
    refused: Refused | None = None


OK: Final = Answer("ok")


def refusal(status: str, text: str) -> Answer:
    """Return an answer that refuses; its data must be a string, or a Java client breaks."""
    return Answer(status, dumps(text))


def parse(text: str) -> Request | Control:
    """Return the content of a message. Raises Broken for a text without a message's form, or without its number."""
    try:
        envelope = _decoder.decode(text)
    except (ValueError, RecursionError):
        raise Broken(1007, "a message is JSON") from None
    inner = envelope.get("d") if isinstance(envelope, dict) else None
    if isinstance(envelope, dict) and isinstance(inner, dict):
        if envelope.get("t") == "c":
            return Control(str(inner.get("t")))
        number, action, body = inner.get("r"), inner.get("a"), inner.get("b", {})
        if envelope.get("t") == "d" and isinstance(number, int) and not isinstance(number, bool):
            return Request(number, action if isinstance(action, str) else "", body if isinstance(body, dict) else {})
    raise Broken(1007, 'a message is {"t":"d","d":{"r":NUMBER,"a":ACTION,"b":{…}}} or {"t":"c","d":{…}}')


def dumps(data: object) -> str:
    return _encoder.encode(data)


def exported(node: Node) -> str:
    """Return a value in the form of the protocol, with its priorities."""
    return dumps(render(node, priorities=True, arrays=False))


def control(kind: str, data: object) -> Message:
    return Message(dumps({"t": "c", "d": {"t": kind, "d": data}}))


def answered(number: int, answer: Answer) -> Message:
    return Message(f'{{"t":"d","d":{{"r":{number},"b":{{"s":"{answer.status}","d":{answer.data}}}}}}}')


def pushed(kind: Literal["d", "m"], path: Path, data: str, tag: int | None = None) -> Message:
    """Return the push of a new value at a path (d), or of new values below it (m)."""
    tagged = "" if tag is None else f',"t":{tag}'
    return Message(f'{{"t":"d","d":{{"a":"{kind}","b":{{"p":{dumps("/".join(path))},"d":{data}{tagged}}}}}}}')


def ended(path: Path, query: object | None) -> Message:
    """Return the message that ends a listen. The client finds the listen by the very query that it has sent."""
    body: dict[str, object] = {"p": "/".join(path)}
    if query is not None:
        body["q"] = [query]
    return Message(dumps({"t": "d", "d": {"a": "c", "b": body}}))


def expired(text: str) -> Message:
    """Return the message that the credential has expired: the client reconnects with another one."""
    return Message(dumps({"t": "d", "d": {"a": "ac", "b": {"s": "expired_token", "d": text}}}))


def inspected(state: Mapping[str, object]) -> Message:
    """Return the message with the news of an open page."""
    return Message(dumps({"t": "d", "d": {"a": INSPECT, "b": state}}))


def said(text: str) -> Message:
    """Return the message with a text for the client's console."""
    return Message(dumps({"t": "d", "d": {"a": "sd", "b": {"msg": text}}}))


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# Made once: `json.loads` and `json.dumps` would make one of these for each message.
_decoder = json.JSONDecoder(parse_constant=_no_constant)
_encoder = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
