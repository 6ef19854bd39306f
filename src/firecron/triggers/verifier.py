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
        detail: What only the log has beside it.
    """

    status: Literal[401, 403, 503]
    message: str
    detail: str | None = None


class Verifier(Protocol):
    """Decides by a request's `Authorization` header. It is called on many threads at the same time."""

    def check(self, authorization: str | None) -> Denial | None:
        """Return None to have the request served, or why it isn't.

        Args:
            authorization: The request's header `Authorization`; None if it has none.
        """
