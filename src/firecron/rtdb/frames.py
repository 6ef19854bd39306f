"""What RTDB streams, without the network: the frames of Server-Sent Events, and a copy of a node that events change."""

from __future__ import annotations

from dataclasses import dataclass

# A frame is one change of a node. Larger than this it is no change of a node of firecron's.
_LONGEST = 32_000_000


class TooLong(ValueError):
    """The line of a frame does not end."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One event, as it came: its name, and its data as text."""

    name: str
    data: bytes


class Frames:
    """Takes a stream apart, in whatever pieces it comes."""

    def __init__(self) -> None:
        self._rest = b""
        self._name = ""
        self._data: list[bytes] = []

    def feed(self, received: bytes) -> list[Frame]:
        """Return the frames that end in what was received. Raise TooLong if one is longer than any can be."""
        *lines, self._rest = (self._rest + received).split(b"\n")
        if len(self._rest) > _LONGEST:
            raise TooLong(f"a line of more than {_LONGEST} bytes")
        frames = []
        for line in lines:
            name, _, value = line.removesuffix(b"\r").partition(b":")
            value = value.removeprefix(b" ")
            if name == b"event":
                self._name = value.decode("utf-8", "replace")
            elif name == b"data":
                self._data.append(value)
            elif not line.strip() and (self._name or self._data):
                frames.append(Frame(self._name, b"\n".join(self._data)))
                self._name, self._data = "", []
        return frames


class Copy:
    """A copy of a node, kept up to date by the events of its stream."""

    def __init__(self) -> None:
        self._node: object = None

    @property
    def node(self) -> object:
        """The node as a read of it would return it: arrays are arrays again."""
        return _shown(self._node)

    def put(self, path: str, value: object) -> None:
        """Replace the value at the path; None deletes it."""
        self._node = _replaced(self._node, [key for key in path.split("/") if key], _stored(value))

    def patch(self, path: str, values: dict[str, object]) -> None:
        """Replace each of these values below the path. A key may be a path."""
        for key, value in values.items():
            self.put(f"{path}/{key}", value)


def _replaced(node: object, keys: list[str], value: object) -> object:
    if not keys:
        return value
    children = dict(node) if isinstance(node, dict) else {}
    child = _replaced(children.pop(keys[0], None), keys[1:], value)
    if child is None:
        # Nothing can be deleted below a leaf.
        return node if not isinstance(node, dict) else children or None
    return {**children, keys[0]: child}


def _stored(value: object) -> object:
    """Return a value as a tree: an array is a node whose children are numbers."""
    if isinstance(value, list):
        value = {str(number): child for number, child in enumerate(value)}
    if not isinstance(value, dict):
        return value
    children = {key: _stored(child) for key, child in value.items()}
    return {key: child for key, child in children.items() if child is not None} or None


def _shown(node: object) -> object:
    """Return a tree as RTDB shows it: as an array if most of the numbers up to its highest key are there."""
    if not isinstance(node, dict):
        return node
    children = {key: _shown(child) for key, child in node.items()}
    numbers = {int(key): child for key, child in children.items() if key.isascii() and key.isdigit()}
    is_array = {str(number) for number in numbers} == children.keys() and max(numbers) < 2 * len(numbers)
    return [numbers.get(number) for number in range(max(numbers) + 1)] if is_array else children
