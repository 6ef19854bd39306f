"""Messages as frames: a long message is a count, then that number of segments.

A client counts a segment's length in UTF-16 units, and a character must not be torn. What we send is ASCII (other
characters are escaped), so it may be cut anywhere.
"""

from __future__ import annotations

from typing import Final, final

SEGMENT: Final = 16_384
# The most characters of a client's message: the SDKs' own limit for a write.
MAX_MESSAGE: Final = 16 * 1024 * 1024
KEEP_ALIVE: Final = "0"

_LONGEST_COUNT = 6


class Broken(Exception):
    """A client has sent something that is not a message; the connection closes with this code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


@final
class Assembler:
    """Puts the segments of one client's messages together."""

    def __init__(self, limit: int = MAX_MESSAGE) -> None:
        self._limit = limit
        self._segments: list[str] = []
        self._missing = 0
        self._size = 0

    def feed(self, frame: str) -> str | None:
        """Return the message that this frame completes; None for a count, a segment or a keep-alive. Raises Broken."""
        if not self._missing:
            if len(frame) <= _LONGEST_COUNT and frame.isascii() and frame.isdigit():
                self._missing = int(frame)
                return None
            self._check(len(frame))
            return frame
        self._size += len(frame)
        self._check(self._size)
        self._segments.append(frame)
        self._missing -= 1
        if self._missing:
            return None
        whole = "".join(self._segments)
        self._segments, self._size = [], 0
        return whole

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise Broken(1009, f"a message has at most {self._limit} characters")


def cut(text: str) -> list[str]:
    """Return the frames of a message, which is ASCII."""
    if len(text) <= SEGMENT:
        return [text]
    segments = [text[start : start + SEGMENT] for start in range(0, len(text), SEGMENT)]
    return [str(len(segments)), *segments]


def framed(text: str) -> bytes:
    """Return the bytes of a text frame. A server's frame has no mask."""
    data = text.encode()
    size = len(data)
    if size < 126:
        head = bytes((0x81, size))
    elif size < 0x10000:
        head = b"\x81\x7e" + size.to_bytes(2, "big")
    else:
        head = b"\x81\x7f" + size.to_bytes(8, "big")
    return head + data


@final
class Message:
    """A message to send, maybe to many clients: its bytes are made once."""

    __slots__ = ("_wire", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._wire: bytes | None = None

    @property
    def wire(self) -> bytes:
        if self._wire is None:
            self._wire = b"".join(map(framed, cut(self.text)))
        return self._wire

    def __repr__(self) -> str:
        return f"Message({self.text!r})"
