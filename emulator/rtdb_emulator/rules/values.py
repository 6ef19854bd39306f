"""The operators of rules, applied to run-time values.

A value is a string, a number, a boolean, None for null, a list or dict of `auth`, or `OBJECT`. `OBJECT` stands for a
database node with children, and equals nothing. Promises: each function returns a value or raises `RuleFailed`, for any
arguments. No text grows longer than `MAX_TEXT`, so that no rule can use up the memory.

Numbers work as in JavaScript, but 64-bit integers stay exact, as the database stores them. A larger integer becomes a
double. Strings are ordered by code point, as in the database.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Final, TypeGuard

MAX_TEXT: Final = 10 * 1024 * 1024  # the longest string that the database stores

_INT64 = range(-(2**63), 2**63)
_PLAIN_FROM, _PLAIN_BELOW = 1e-6, 1e21


class RuleFailed(Exception):
    """The rule has a value of a type that it can't use. The rule then counts as false."""


class _Object:
    """The value of a node that has children."""


OBJECT: Final = _Object()


def is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def text_of(value: object) -> str:
    """Return the value, which must be a string."""
    if isinstance(value, str):
        return value
    raise RuleFailed


def equal(left: object, right: object) -> bool:
    """Return whether two values are equal, without any conversion: values of different types differ.

    Objects and lists equal nothing, not even themselves.
    """
    if left is None or isinstance(left, bool):
        return left is right
    if isinstance(left, str):
        return isinstance(right, str) and left == right
    return is_number(left) and is_number(right) and left == right


def less(left: object, right: object) -> bool:
    if is_number(left) and is_number(right):
        return left < right
    return text_of(left) < text_of(right)


def less_or_equal(left: object, right: object) -> bool:
    if is_number(left) and is_number(right):
        return left <= right
    return text_of(left) <= text_of(right)


def add(left: object, right: object) -> object:
    """Return the sum of two numbers or, if one of the two is a string, their concatenated texts."""
    if is_number(left) and is_number(right):
        return _computed("+", left, right)
    if not isinstance(left, str) and not isinstance(right, str):
        raise RuleFailed
    first, second = _joinable(left), _joinable(right)
    if len(first) + len(second) > MAX_TEXT:
        raise RuleFailed
    return first + second


def arithmetic(operator: str, left: object, right: object) -> int | float:
    """Return the result of `-`, `*`, `/` or `%` for two numbers."""
    if is_number(left) and is_number(right):
        return _computed(operator, left, right)
    raise RuleFailed


def negative(value: object) -> int | float:
    return arithmetic("-", 0, value)


def replaced(text: object, old: object, new: object) -> str:
    """Return the text with every occurrence of `old` replaced by `new`. Both are plain text, not patterns."""
    whole, found, put = text_of(text), text_of(old), text_of(new)
    if len(whole) + whole.count(found) * (len(put) - len(found)) > MAX_TEXT:
        raise RuleFailed
    return whole.replace(found, put)


def length(text: str) -> int:
    """Return the length in UTF-16 units, as JavaScript counts."""
    return len(text) if text.isascii() else len(text) + sum(char > "\uffff" for char in text)


def number_text(number: float) -> str:
    """Return the number as JavaScript writes it."""
    number = _bounded(number)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == int(number) and abs(number) < _PLAIN_BELOW:
        return str(int(number))
    if _PLAIN_FROM <= abs(number) < _PLAIN_BELOW:
        return f"{Decimal(repr(number)):f}"
    digits, _, exponent = repr(number).partition("e")
    return f"{digits}e{int(exponent):+d}"


def _joinable(value: object) -> str:
    return number_text(value) if is_number(value) else text_of(value)


def _bounded(number: float) -> int | float:
    """Return the number; an integer of more than 64 bits becomes a double."""
    if not isinstance(number, int) or number in _INT64:
        return number
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _computed(operator: str, left: float, right: float) -> int | float:
    left, right = _bounded(left), _bounded(right)
    match operator:
        case "+":
            return _bounded(left + right)
        case "-":
            return _bounded(left - right)
        case "*":
            return _bounded(left * right)
    if right == 0:
        return math.nan
    if operator == "%":
        return _remainder(left, right)
    return left / right


def _remainder(left: float, right: float) -> int | float:
    """Return the remainder, with the sign of the left operand."""
    if isinstance(left, int) and isinstance(right, int):
        size = abs(left) % abs(right)
        return -size if left < 0 else size
    return math.nan if math.isinf(left) else math.fmod(left, right)
