"""What operators do, as it is kept in `cron-acts`: one schema, written and read here alone. Pure.

    act     pause, resume, unlock, cancel, run, forget, or depose: the cancel of a leader's term
    name    the lock, which has its job's or leader's name
    who     `user@host` as the command line claims, a visitor as the page has authenticated it, or a program's instance
    at      when, in milliseconds of RTDB's clock
    why     the reason that was given, without what looks like a secret

A key begins with the instant, so that keys come in the order of time. The newest acts are kept. Whoever may write the
database may write any act, so an act is what somebody says, and no proof.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from firecron.base.exact import number
from firecron.base.instants import to_text
from firecron.base.redaction import redacted

Deed: TypeAlias = Literal["pause", "resume", "unlock", "cancel", "run", "forget", "depose"]

# How many acts are kept.
KEPT = 50
# Characters, as the security rules count them: one beyond the first 65,536 of Unicode counts as two.
LONGEST_WHO, LONGEST_WHY = 200, 500


@dataclass(frozen=True, slots=True)
class Act:
    """One act. `act` is a `Deed`, or a word of a later version. What the node lacks is empty or None."""

    key: str
    act: str
    name: str
    who: str
    at: int | None
    why: str | None = None

    def to_node(self) -> dict[str, object]:
        """Return the act as it is stored."""
        fields = {"act": self.act, "at": self.at, "name": self.name, "who": self.who, "why": self.why}
        return {name: value for name, value in fields.items() if value is not None}

    def to_json(self) -> dict[str, object]:
        """Return the act for programs: it always has every field, and the instant is a text."""
        at = None if self.at is None else to_text(self.at)
        return {"key": self.key, "act": self.act, "name": self.name, "who": self.who, "at": at, "why": self.why}


def make_act(deed: Deed, name: str, who: str, at: int, why: str | None, token: str) -> Act:
    """Return an act with its key. `token` are six random hexadecimal digits."""
    return Act(f"{to_text(at)}-{at % 1000:03d}-{token}", deed, name, said_by(who), at, reason(why))


def read_act(key: str, node: object) -> Act:
    """Return what a node says of an act."""
    fields: Mapping[object, object] = node if isinstance(node, Mapping) else {}
    act, name, who = (_text(fields.get(field)) or "" for field in ("act", "name", "who"))
    return Act(key, act, name, who, number(fields.get("at")), _text(fields.get("why")))


def surplus(keys: Collection[str]) -> list[str]:
    """Return the keys of the oldest acts, which have to go before one more is written."""
    return sorted(keys)[: -(KEPT - 1)]


def said_by(who: str) -> str:
    """Return the name of an operator as it is stored: never empty."""
    return _cut(who, LONGEST_WHO) or "unknown"


def reason(why: str | None) -> str | None:
    """Return a reason as it is stored: without what looks like a secret. None if there is none."""
    return None if why is None else _cut(redacted(why), LONGEST_WHY) or None


def _cut(text: str, longest: int) -> str:
    # RTDB takes no lone surrogates, which come from file names that are not UTF-8.
    whole = text.encode("utf-8", "replace").decode().encode("utf-16-le")
    return whole[: 2 * longest].decode("utf-16-le", "ignore")


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
