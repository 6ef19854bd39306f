"""The texts of the messages: what a client asks, and what it is answered, pushed and told.

Values are JSON texts already where they may be large; everything is ASCII.
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
# The one action that is not the protocol's, but the emulator's own page's.
INSPECT: Final = "inspect"


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks: its number, the action, and the body."""

    number: int
    action: str
    body: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Control:
    """What a client says about the connection itself."""

    kind: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request is answered: a status, and its data as JSON. `refused` is what the rules have denied."""

    status: str
    data: str = '""'
    refused: Refused | None = None


OK: Final = Answer("ok")


def refusal(status: str, text: str) -> Answer:
    """An answer that says no; its data must be a string, or a Java client breaks."""
    return Answer(status, dumps(text))


def parse(text: str) -> Request | Control:
    """What a message says. Raises Broken for what can't be answered, because it has no form or no number."""
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
    """A value as it goes over the wire, with its priorities."""
    return dumps(render(node, priorities=True, arrays=False))


def control(kind: str, data: object) -> Message:
    return Message(dumps({"t": "c", "d": {"t": kind, "d": data}}))


def answered(number: int, answer: Answer) -> Message:
    return Message(f'{{"t":"d","d":{{"r":{number},"b":{{"s":"{answer.status}","d":{answer.data}}}}}}}')


def pushed(kind: Literal["d", "m"], path: Path, data: str, tag: int | None = None) -> Message:
    """The value at a path is this now, or (m) the values below it are."""
    tagged = "" if tag is None else f',"t":{tag}'
    return Message(f'{{"t":"d","d":{{"a":"{kind}","b":{{"p":{dumps("/".join(path))},"d":{data}{tagged}}}}}}}')


def ended(path: Path, query: object | None) -> Message:
    """A listen is over. The client knows one with a query by the very query that it has sent."""
    body: dict[str, object] = {"p": "/".join(path)}
    if query is not None:
        body["q"] = [query]
    return Message(dumps({"t": "d", "d": {"a": "c", "b": body}}))


def expired(text: str) -> Message:
    """The credential is no longer good: the client comes back with another one."""
    return Message(dumps({"t": "d", "d": {"a": "ac", "b": {"s": "expired_token", "d": text}}}))


def inspected(state: Mapping[str, object]) -> Message:
    """What is new on an open page of the emulator's own."""
    return Message(dumps({"t": "d", "d": {"a": INSPECT, "b": state}}))


def said(text: str) -> Message:
    """A text for the client's console."""
    return Message(dumps({"t": "d", "d": {"a": "sd", "b": {"msg": text}}}))


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# `json.loads` and `json.dumps` would make one of these for each message.
_decoder = json.JSONDecoder(parse_constant=_no_constant)
_encoder = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
