"""Lock names. They become keys in the database, so only characters that every tool shows well are allowed."""

from __future__ import annotations

import re

from firecron.errors import ConfigurationError

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}", re.ASCII)


def check_name(name: object) -> str:
    """Return the name itself. Raise ConfigurationError if it can't name a lock."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} can't name a lock: use a letter, then up to 99 letters, digits, hyphens or underscores"
        )
    return name
