"""The tokens of a rule expression: names, numbers, strings, regular expressions and operators.

Promises: each token has the offset of its first character in the expression. The last token is an END. As in
JavaScript, a slash in an operand's place starts a regular expression; elsewhere it divides. This module only finds the
end of a regular expression; `regexes` checks it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from rtdb_emulator.rules.source import Text, join_surrogates


class Word(Enum):
    NAME = auto()
    NUMBER = auto()
    STRING = auto()
    REGEX = auto()
    OPERATOR = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """A token. `value` is its text as written; for a string, its content. `flags` has a regular expression's flags."""

    word: Word
    value: str
    at: int
    flags: str = ""


_SPACE = re.compile(r"\s*")
_NAME = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_OPERATOR = re.compile(r"[=!]==?|[<>]=?|&&|\|\||[-+*/%!?:.,()\[\]=]")
# A slash inside a character class doesn't end the regular expression.
_REGEX = re.compile(r"/((?:\\[^\n]|\[(?:\\[^\n]|[^\]\\\n])*\]|[^/\\\[\n])+)/([\w$]*)")
_STRING_PART = re.compile(r"[^\\'\"\n\r]+")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|([^ux]))", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}


def tokens(text: Text) -> Iterator[Token]:
    """Yield the tokens of an expression, with END last."""
    source = text.value
    at = _past_space(source, 0)
    operand_due = True
    while at < len(source):
        token, end = _next(text, at, operand_due)
        yield token
        operand_due = token.word is Word.OPERATOR and token.value not in (")", "]")
        at = _past_space(source, end)
    yield Token(Word.END, "", len(source))


def _past_space(source: str, at: int) -> int:
    space = _SPACE.match(source, at)
    return space.end() if space else at


def _next(text: Text, at: int, operand_due: bool) -> tuple[Token, int]:
    source = text.value
    if match := _NAME.match(source, at):
        return Token(Word.NAME, match[0], at), match.end()
    if match := _NUMBER.match(source, at):
        return Token(Word.NUMBER, match[0], at), match.end()
    if source[at] in "'\"":
        return _string(text, at)
    if source[at] == "/" and operand_due:
        if match := _REGEX.match(source, at):
            return Token(Word.REGEX, match[1], at, match[2]), match.end()
        raise text.error(at, "unterminated regular expression literal")
    if match := _OPERATOR.match(source, at):
        return Token(Word.OPERATOR, match[0], at), match.end()
    raise text.error(at, f"Unexpected '{source[at]}'.")


def _string(text: Text, start: int) -> tuple[Token, int]:
    source, quote, at = text.value, text.value[start], start + 1
    parts: list[str] = []
    while (char := source[at : at + 1]) != quote:
        if plain := _STRING_PART.match(source, at):
            parts.append(plain[0])
            at = plain.end()
        elif escape := _ESCAPE.match(source, at):
            code, simple = escape[1] or escape[2], escape[3]
            parts.append(chr(int(code, 16)) if code else _ESCAPED.get(simple, simple))
            at = escape.end()
        elif char == "\\" and at + 1 < len(source):
            raise text.error(at, f"Invalid escape: '\\{source[at + 1]}'")
        elif not char or char in "\\\n\r":
            raise text.error(start, "Unterminated string literal.")
        else:
            parts.append(char)
            at += 1
    return Token(Word.STRING, join_surrogates("".join(parts)), start), at + 1
