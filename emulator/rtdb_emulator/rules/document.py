"""A rules document: its text dialect, and the places of errors in it.

The dialect is JSON with comments, trailing commas and raw line breaks inside strings. Promises: `read` returns the
document as objects, arrays, texts and constants with their offsets, or raises a `RulesError`. A duplicate key in an
object is an error, because one of the two rules would silently not apply. Nesting deeper than `MAX_DEPTH` is an error
too: data has at most 32 levels, so no rule down there could apply.

A `RulesError` names the line and the column of the wrong character in the document. Both count from 1, and a column is
a character. The location is exact inside an expression too, even after escapes and line breaks in the JSON string:
`Text.places` has the document's offset of each decoded character.

This module doesn't know what a rules document means: `authorize` does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


class RulesError(ValueError):
    """These rules can't be used; correct the named line and column of the rules text and upload them again.

    Args:
        line: The line, counted from 1.
        column: The column, counted from 1.
        message: What is wrong there.
    """

    def __init__(self, line: int, column: int, message: str) -> None:
        super().__init__(f"{line}:{column}: {message}")
        self.line = line
        self.column = column
        self.message = message

    def __reduce__(self) -> tuple[type[RulesError], tuple[int, int, str]]:
        # An exception is pickled with its args. Here that is one joined text, which can't make the error again.
        return type(self), (self.line, self.column, self.message)


def position(document: str, offset: int) -> tuple[int, int]:
    """Return the line and the column of that offset of the document."""
    return document.count("\n", 0, offset) + 1, offset - document.rfind("\n", 0, offset)


def error_at(document: str, offset: int, message: str) -> RulesError:
    """Return the error for the character at that offset of the document."""
    return RulesError(*position(document, offset), message)


@dataclass(frozen=True, slots=True)
class Text:
    """A decoded string of the document. `places` has the document's offsets of each character and of the end."""

    value: str
    places: Sequence[int]
    document: str

    @classmethod
    def alone(cls, value: str) -> Text:
        """Return a text that is its own document."""
        return cls(value, range(len(value) + 1), value)

    @property
    def at(self) -> int:
        """The document's offset of the opening quote; for a text of `alone`, of its start."""
        return max(self.places[0] - 1, 0)

    def error(self, at: int, message: str) -> RulesError:
        """Return the error for the text's character number `at`."""
        return error_at(self.document, self.places[at], message)


def join_surrogates(value: str) -> str:
    """Return the text with each surrogate pair (as escapes write it) replaced by its one character."""
    return _SURROGATE_PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), value)


# --- the dialect

MAX_DEPTH = 64


@dataclass(frozen=True, slots=True)
class Object:
    at: int
    members: dict[str, tuple[Text, Value]]


@dataclass(frozen=True, slots=True)
class Array:
    at: int
    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Constant:
    at: int
    value: float | bool | None


Value: TypeAlias = Object | Array | Text | Constant

_SPACE = re.compile(r"(?:[ \t\r\n]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORD = re.compile(r"true|false|null")
_CONSTANTS = {"true": True, "false": False, "null": None}
_PLAIN = re.compile(r'[^"\\\x00-\x08\x0b\x0c\x0e-\x1f]+')
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_UNICODE = re.compile(r"u([0-9a-fA-F]{4})")


def read(source: str) -> Value:
    """Return the value of the text."""
    return _Reader(source).document()


def as_json(value: Value) -> object:
    """Return the value as plain data, without comments and offsets."""
    if isinstance(value, Object):
        return {key: as_json(member) for key, (_, member) in value.members.items()}
    if isinstance(value, Array):
        return [as_json(item) for item in value.items]
    return value.value


class _Reader:
    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0
        self.depth = 0

    def document(self) -> Value:
        if self.peek() != "{":
            raise self.error("Expected '{'.")
        value = self.value()
        if self.peek():
            raise self.unexpected()
        return value

    def peek(self) -> str:
        """Return the next character that is neither space nor comment, or an empty text at the end."""
        space = _SPACE.match(self.source, self.at)
        assert space is not None  # the pattern matches the empty text as well
        self.at = space.end()
        if self.source.startswith("/*", self.at):
            raise self.error("Unterminated comment.")
        return self.source[self.at : self.at + 1]

    def value(self) -> Value:
        first = self.peek()
        if first == '"':
            return self.text()
        if first and first in "{[":
            if self.depth == MAX_DEPTH:
                raise self.error(f"The rules are nested too deeply: no more than {MAX_DEPTH} levels are supported.")
            self.depth += 1
            found = self.object() if first == "{" else self.array()
            self.depth -= 1
            return found
        if match := _NUMBER.match(self.source, self.at) or _WORD.match(self.source, self.at):
            start, self.at = self.at, match.end()
            word = match[0]
            return Constant(start, _CONSTANTS[word] if word in _CONSTANTS else float(word))
        raise self.unexpected()

    def object(self) -> Object:
        start = self.step()
        members: dict[str, tuple[Text, Value]] = {}
        while (char := self.peek()) != "}":
            if char != '"':
                # After a comma a key must follow; before the first key, any character is unexpected.
                raise self.error("Expected '\"'.") if members and char else self.unexpected()
            key = self.text()
            if key.value in members:
                raise error_at(self.source, key.at, f"Duplicate key '{key.value}'; keep one of the two.")
            if self.peek() != ":":
                raise self.error("Expected ':'.")
            self.step()
            members[key.value] = (key, self.value())
            self.comma_unless("}")
        self.step()
        return Object(start, members)

    def array(self) -> Array:
        start = self.step()
        items: list[Value] = []
        while (char := self.peek()) != "]":
            if char == "," and items:
                raise self.error("Expected '\"'.")
            items.append(self.value())
            self.comma_unless("]")
        self.step()
        return Array(start, tuple(items))

    def comma_unless(self, closing: str) -> None:
        char = self.peek()
        if char == ",":
            self.step()
        elif char != closing:
            raise self.error(f"Expected ',' or '{closing}'.")

    def text(self) -> Text:
        start = self.step()
        parts: list[str] = []
        places: list[Sequence[int]] = []
        while (char := self.source[self.at : self.at + 1]) != '"':
            here = self.at
            if plain := _PLAIN.match(self.source, here):
                parts.append(plain[0])
                places.append(range(here, plain.end()))
                self.at = plain.end()
            elif char == "\\":
                parts.append(self.escape())
                places.append((here,))
            elif not char:
                raise error_at(self.source, start, "Unterminated string.")
            else:
                raise self.error(f"Unexpected control character U+{ord(char):04X} in a string; write it as an escape.")
        places.append((self.step(),))
        value = "".join(parts)
        if len(value) == self.at - start - 2:
            # Without escapes each character has its own offset, and a range stores all offsets in little memory.
            return Text(value, range(start + 1, self.at), self.source)
        exact = [*chain(*places)]
        for pair in reversed([*_SURROGATE_PAIR.finditer(value)]):
            del exact[pair.start() + 1]
        return Text(join_surrogates(value), exact, self.source)

    def escape(self) -> str:
        escaped = self.source[self.at + 1 : self.at + 2]
        if escaped in _ESCAPES:
            self.at += 2
            return _ESCAPES[escaped]
        if code := _UNICODE.match(self.source, self.at + 1):
            self.at = code.end()
            return chr(int(code[1], 16))
        raise self.error(f"Invalid escape: '\\{escaped}'")

    def step(self) -> int:
        """Move past the current character, and return its offset."""
        self.at += 1
        return self.at - 1

    def unexpected(self) -> RulesError:
        char = self.source[self.at : self.at + 1]
        return self.error(f"Unexpected '{char}'." if char else "Unexpected end of the rules.")

    def error(self, message: str) -> RulesError:
        return error_at(self.source, self.at, message)
