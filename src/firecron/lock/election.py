"""An election: what a candidate stands for. A value; making one loads nothing but the standard library."""

from __future__ import annotations

from dataclasses import dataclass

from firecron.base.durations import DAY, milliseconds
from firecron.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Election:
    """What is stood for. Durations are milliseconds."""

    name: str
    ttl: int
    pause: int
    max_term: int | None = None


def make_election(name: str, ttl: object, pause: object, max_term: object) -> Election:
    """Check the options of a leader against each other. The bid checks the name, and the ttl against the margin."""
    for_ms, most = (
        milliseconds(ttl, "ttl"),
        None if max_term is None else milliseconds(max_term, "max_term", most=7 * DAY),
    )
    if most is not None and most < for_ms:
        raise ConfigurationError(
            f"max_term ({most / 1000:g} s) must not be shorter than ttl ({for_ms / 1000:g} s), which one renewal covers"
        )
    return Election(name, for_ms, milliseconds(pause, "pause"), most)
