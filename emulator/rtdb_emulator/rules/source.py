"""The location of an error: the rules text, and the offset in it of each character of a rule.

Promises: a `RulesError` names the line and the column of the wrong character in the document. Both count from 1, and a
column is a character. The location is exact inside an expression too, even after escapes and line breaks in the JSON
string: `Text.places` has the document's offset of each decoded character.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


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
    return SURROGATE_PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), value)
