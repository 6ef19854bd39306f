"""The names of steps: which are allowed, their keys in RTDB, and the idempotency keys made of them. Pure.

A name is any text of 1 to 200 bytes. RTDB takes no `. $ # [ ] /` and no control characters in a key, and shows a node
whose keys are all numbers as an array. Those characters, and `%`, are written as `%XX`, and so is the first digit of a
name of digits. So two names never have one key, and a key has 600 of the 768 bytes that RTDB allows, at the most.
"""

from __future__ import annotations

import re

from firecron.errors import ConfigurationError

MOST_BYTES = 200
# Stripe takes no idempotency key that is longer.
_LONGEST_KEY = 255
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f.$#\[\]/%]")
_HASH = 64


def check_step_name(name: object) -> str:
    """Return the name, or raise a ConfigurationError that says what is wrong with it."""
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"the name of a step is a text of 1 to {MOST_BYTES} bytes, not {name!r:.80}")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise ConfigurationError(f"the name of a step has half a character in it: {name!r:.80}") from None
    if size > MOST_BYTES:
        raise ConfigurationError(
            f"the name of a step has {MOST_BYTES} bytes at the most, and {name[:40]!r}… has {size}: use an id"
        )
    return name


def to_key(name: str) -> str:
    """Return the key of a step in the database."""
    key = _FORBIDDEN.sub(lambda found: _escaped(found[0]), name)
    return _escaped(key[0]) + key[1:] if key.isascii() and key.isdigit() else key


def to_name(key: str) -> str:
    """Return the name that a key in the database stands for."""
    from urllib.parse import unquote

    return unquote(key, errors="replace")


def idempotency_key(of_run: str, name: str) -> str:
    """Return the key of one step of a run: the same at every attempt, and 255 characters long at the most."""
    key = f"{of_run}:{name}"
    if len(key) <= _LONGEST_KEY:
        return key
    from hashlib import sha256

    return f"{key[: _LONGEST_KEY - _HASH - 1]}:{sha256(key.encode()).hexdigest()}"


def _escaped(character: str) -> str:
    return f"%{ord(character):02X}"
