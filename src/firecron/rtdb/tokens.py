"""Access tokens, refreshed ahead of time on a thread of their own, so that no request waits while a good token exists.

A token's age counts on the monotonic clock, from the start of the refresh that brought it. While the token is good,
`header` costs nothing. When a tenth of its life is left, the next call starts a refresh in the background. Only a
caller without a good token waits, and no longer than its deadline.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from firecron.base.clocks import Deadline, Timing
from firecron.errors import NoCredentials, StoreError, Unavailable
from firecron.rtdb.failures import find_cause, in_words, named

_FALLBACK_LIFE = 3_600_000.0
_REJECTED_AGAIN = 300_000.0


class Credential(Protocol):
    """The part of google-auth's credentials that firecron uses."""

    token: str | None
    expiry: datetime | None

    def refresh(self, request: object) -> None: ...


class RefreshingTokens:
    """Access tokens from Google credentials.

    `load` finds the credential (it may ask the metadata server), and `fetch` refreshes it. Both run only on the
    refreshing thread.
    """

    def __init__(self, load: Callable[[], Credential], fetch: Callable[[Credential], None], timing: Timing) -> None:
        self._load = load
        self._fetch = fetch
        self._timing = timing
        self._credential: Credential | None = None
        self._changed = threading.Condition()
        self._refreshing = False
        self._failure: StoreError | None = None
        # Before the first token comes, the token counts as expired.
        self._value = ""
        self._fetched_at = self._renew_at = self._good_until = float("-inf")

    def header(self, deadline: Deadline) -> str:
        """Return the header's value.

        Raise NoCredentials if the credentials can't be used, Unavailable if no token comes in time.
        """
        with self._changed:
            now = self._timing.mono()
            if now < self._renew_at:
                return self._value
            self._start_refresh()
            if now < self._good_until:
                return self._value
            self._wait(deadline)
            if self._failure is not None:
                raise self._failure
            return self._value

    def rejected(self) -> None:
        """Note that RTDB answered 401, so that another token is fetched: the present one may be revoked.

        The rules may be the reason as well. Shortly after a refresh this call has no effect, so the rules' 401s don't
        start one refresh after another.
        """
        with self._changed:
            if not self._is_new():
                self._renew_at = self._timing.mono()

    def another(self, revoked: str, deadline: Deadline) -> str:
        """Return the header's value for a caller whose header was `revoked`: after a refresh, unless it is another one.

        Callers of `header` don't wait for this refresh. Raises as `header` does.
        """
        with self._changed:
            if self._value == revoked:
                self._start_refresh()
                self._wait(deadline)
                if self._failure is None:
                    return self._value
        return self.header(deadline)

    def instead_of(self, refused: str, deadline: Deadline) -> str:
        """Return the header's value for a caller whose token RTDB has refused: the same one, if the token is new.

        Raises as `header` does.
        """
        with self._changed:
            if self._value == refused and self._is_new():
                return refused
        return self.another(refused, deadline)

    def _is_new(self) -> bool:
        """Return whether the token was fetched so shortly ago that the next one would be refused as well."""
        return self._timing.mono() - self._fetched_at <= _REJECTED_AGAIN

    def _wait(self, deadline: Deadline) -> None:
        """Wait for the end of a refresh. Called under the lock."""
        while self._refreshing:
            left = deadline.remaining()
            if left <= 0:
                raise Unavailable("no access token came within the deadline: is the token endpoint reachable?")
            self._timing.wait(self._changed, left)

    def _start_refresh(self) -> None:
        if not self._refreshing:
            try:
                threading.Thread(target=self._refresh, name="firecron-token", daemon=True).start()
            except RuntimeError as error:
                raise Unavailable(f"no access token could be fetched: {error}") from error
            # Set after the start: if no thread can be started, no caller may wait for it. The thread can't end before
            # this line, because its end needs the lock that this caller holds.
            self._refreshing = True

    def _refresh(self) -> None:
        started = self._timing.mono()
        value: str | None = None
        life = 0.0
        failure: StoreError | None = None
        try:
            if self._credential is None:
                self._credential = self._load()
            self._fetch(self._credential)
            value = f"Bearer {self._credential.token}"
            life = _life(self._credential.expiry)
        except Exception as error:
            failure = _told_apart(error)
        with self._changed:
            if value is not None:
                self._value = value
                self._fetched_at = started
                self._renew_at = started + 0.9 * life
                self._good_until = started + life
            self._failure = failure
            self._refreshing = False
            self._changed.notify_all()


def google_fetch(timeout: float) -> Callable[[Credential], None]:
    """Return a function that refreshes a credential over HTTP. Each request takes `timeout` seconds at most."""
    import google.auth.transport.requests

    request = google.auth.transport.requests.Request()

    def with_timeout(*arguments: object, **keywords: object) -> object:
        return request(*arguments, **{**keywords, "timeout": timeout})

    return lambda credential: credential.refresh(with_timeout)


def _life(expiry: datetime | None) -> float:
    if expiry is None:
        return _FALLBACK_LIFE
    # google-auth has just computed the expiry from this machine's wall clock, as a UTC time without a zone.
    return (expiry.replace(tzinfo=UTC) - datetime.now(UTC)).total_seconds() * 1000


def _told_apart(error: Exception) -> StoreError:
    from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, TransportError

    said = in_words(error).rstrip(".") or type(error).__name__
    if isinstance(error, DefaultCredentialsError):
        # What follows is about the same as the remedy below, and longer.
        said = said.partition(". To set up ")[0]
        return NoCredentials(
            f"there are no Google credentials: {said}. Run 'gcloud auth application-default login', or set "
            "GOOGLE_APPLICATION_CREDENTIALS to the path of a key's file; on Cloud Run, check the service account"
        )
    if isinstance(error, GoogleAuthError) and not isinstance(error, TransportError) and not error.retryable:
        return NoCredentials(
            f"the credentials give no access token: {said}. On Cloud Run, check the service account; elsewhere, log in "
            "again with 'gcloud auth application-default login', or make another key"
        )
    cause = find_cause(error)
    why = said if cause is error and isinstance(error, GoogleAuthError) else named(cause)
    return Unavailable(f"no access token could be fetched: {why}: is the token endpoint reachable?")
