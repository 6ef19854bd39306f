"""A stand-in for the NestJS original: its lock, over REST as its transaction does it, with nothing but Python.

It keeps to the original's ways: three fields, this machine's wall clock, an expired record overwritten whole, and a
release that deletes the node without a look.
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
    """The original's lock service, on the emulator at `host`."""

    def __init__(self, host: str, namespace: str, instance_id: str, clock: Callable[[], float] = time.time) -> None:
        self._host = host
        self._namespace = namespace
        self._instance_id = instance_id
        self._clock = clock

    def acquire(self, name: str, ttl_ms: int = 300_000) -> bool:
        """Whether it is ours now."""
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
    """Where the emulator is; a SystemExit says how to have one."""
    host = os.environ.get("FIREBASE_DATABASE_EMULATOR_HOST")
    if host is None:
        raise SystemExit("no emulator to meet at: firecron emulator -- python side_by_side.py")
    return host
