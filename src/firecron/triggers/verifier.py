"""The interface of a verifier, which decides whether a request is served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class Denial:
    """Why a request isn't served.

    Args:
        status: 401 for an invalid token, 403 for the token of another caller, 503 if the token can't be verified now.
        message: The message in the response.
        detail: Further words, for the log only.
        kind: The message without its values, if it has any that callers choose. The log has one line a minute for each
            status and kind. By default it is the message.
    """

    status: Literal[401, 403, 503]
    message: str
    detail: str | None = None
    kind: str | None = None

    @property
    def cause(self) -> str:
        """The status and the kind, which are the same for each denial of this cause."""
        return f"{self.status} {self.message if self.kind is None else self.kind}"


class Verifier(Protocol):
    """Decides about a request by its `Authorization` header. It is called on many threads at the same time."""

    def check(self, authorization: str | None) -> Denial | None:
        """Return None if the request may be served, or else a Denial.

        Args:
            authorization: The request's header `Authorization`; None if it has none.
        """
