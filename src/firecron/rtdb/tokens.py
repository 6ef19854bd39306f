"""Access tokens: refreshed ahead of time, on a thread of their own, so that no request waits for one that it could
have had.

A token's age is measured on the monotonic clock, from when it came. While it is good, `header` costs nothing; when a
tenth of its life is left, the next call has a new one fetched behind its back; only a caller without any good token
waits, and no longer than its deadline.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from firecron.base.clocks import Deadline, Timing
from firecron.errors import NoCredentials, StoreError, Unavailable
from firecron.rtdb.causes import find_cause, in_words, named

_FALLBACK_LIFE = 3_600_000.0
_REJECTED_AGAIN = 300_000.0


class Credential(Protocol):
    """What is used of google-auth's credentials."""

    token: str | None
    expiry: datetime | None

    def refresh(self, request: object) -> None: ...


class Tokens(Protocol):
    """Where the Authorization header comes from."""

    def header(self, deadline: Deadline) -> str: ...

    def rejected(self) -> None: ...


class StaticToken:
    """The emulator's: whoever says `owner` is one."""

    def header(self, deadline: Deadline) -> str:
        return "Bearer owner"

    def rejected(self) -> None:
        """There is no other."""


class RefreshingTokens:
    """`load` finds the credential (it may ask the metadata server), `fetch` refreshes it; both only ever on the
    refreshing thread.
    """

    def __init__(self, load: Callable[[], Credential], fetch: Callable[[Credential], None], timing: Timing) -> None:
        self._load = load
        self._fetch = fetch
        self._timing = timing
        self._credential: Credential | None = None
        self._forget()

    def header(self, deadline: Deadline) -> str:
        """The header's value. Raises NoCredentials where they don't do, Unavailable where no token comes."""
        with self._changed:
            now = self._timing.mono()
            if now < self._renew_at:
                return self._value
            self._start_refresh()
            if now < self._good_until:
                return self._value
            while self._refreshing:
                left = deadline.remaining()
                if left <= 0:
                    raise Unavailable("no access token came within the deadline: is the token endpoint reachable?")
                self._timing.wait(self._changed, left)
            if self._failure is not None:
                raise self._failure
            return self._value

    def rejected(self) -> None:
        """RTDB answered 401: it may be the rules, it may be a revoked token. Fetch another, but not time and again."""
        with self._changed:
            now = self._timing.mono()
            if now - self._fetched_at > _REJECTED_AGAIN:
                self._renew_at = now

    def after_fork(self) -> None:
        """In a forked child: no token of the parent's is used, and its refreshing thread isn't here."""
        self._credential = None
        self._forget()

    def _forget(self) -> None:
        self._changed = threading.Condition()
        self._refreshing = False
        self._failure: StoreError | None = None
        # Good until a time that has not been before the first one came.
        self._value = ""
        self._fetched_at = self._renew_at = self._good_until = float("-inf")

    def _start_refresh(self) -> None:
        if not self._refreshing:
            try:
                threading.Thread(target=self._refresh, name="firecron-token", daemon=True).start()
            except RuntimeError as error:
                raise Unavailable(f"no access token could be fetched: {error}") from error
            # Only now: where no thread can be had, nobody must wait for one. Its end needs the lock that is held here.
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
    """How google-auth refreshes over HTTP, each of its requests within so many seconds."""
    import google.auth.transport.requests

    request = google.auth.transport.requests.Request()

    def with_timeout(*arguments: object, **keywords: object) -> object:
        return request(*arguments, **{**keywords, "timeout": timeout})

    return lambda credential: credential.refresh(with_timeout)


def _life(expiry: datetime | None) -> float:
    if expiry is None:
        return _FALLBACK_LIFE
    # google-auth computed it from this machine's wall clock a moment ago, without a time zone.
    return (expiry.replace(tzinfo=UTC) - datetime.now(UTC)).total_seconds() * 1000


def _told_apart(error: Exception) -> StoreError:
    from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, TransportError

    said = in_words(error).rstrip(".") or type(error).__name__
    if isinstance(error, DefaultCredentialsError):
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
