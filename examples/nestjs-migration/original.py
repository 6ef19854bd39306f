"""A stand-in for the NestJS original's lock, in plain Python. It uses REST as the original's transaction does.

It works as the original does: its record has three fields, its clock is this machine's wall clock, it overwrites an
expired record as a whole, and its release deletes the node without reading it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from urllib.error import HTTPError
from urllib.request import Request, urlopen

TRIES = 25


class OriginalLocks:
    """The original's lock service, with the emulator at `host` as its database."""

    def __init__(self, host: str, namespace: str, instance_id: str, clock: Callable[[], float] = time.time) -> None:
        self._host = host
        self._namespace = namespace
        self._instance_id = instance_id
        self._clock = clock

    def acquire(self, name: str, ttl_ms: int = 300_000) -> bool:
        """Try to acquire the lock; return whether it is ours now."""
        now = round(self._clock() * 1000)
        for _ in range(TRIES):
            _, etag, current = self._send("GET", name, headers={"X-Firebase-ETag": "true"})
            if isinstance(current, dict) and current["expiresAt"] > now:
                return False
            mine = {"acquiredAt": now, "expiresAt": now + ttl_ms, "instanceId": self._instance_id}
            status, _, _ = self._send("PUT", name, mine, {"if-match": etag})
            if status != 412:
                return True
        return False

    def release(self, name: str) -> None:
        self._send("DELETE", name)

    def _send(
        self, method: str, name: str, body: object = None, headers: dict[str, str] | None = None
    ) -> tuple[int, str, object]:
        url = f"http://{self._host}/cron-locks/{name}.json?ns={self._namespace}"
        data = None if body is None else json.dumps(body).encode()
        all_headers = {"Authorization": "Bearer owner", **(headers or {})}
        request = Request(url, data, all_headers, method=method)  # http, to the emulator
        try:
            with urlopen(request, timeout=10) as reply:  # noqa: S310
                return reply.status, reply.headers.get("ETag", ""), json.load(reply)
        except HTTPError as error:
            if error.code != 412:
                raise
            return error.code, "", None


def emulator_host() -> str:
    """Return the emulator's host and port. Raises SystemExit, with the remedy, if there is no emulator."""
    host = os.environ.get("FIREBASE_DATABASE_EMULATOR_HOST")
    if host is None:
        raise SystemExit("FIREBASE_DATABASE_EMULATOR_HOST is not set: run firecron emulator -- python side_by_side.py")
    return host
