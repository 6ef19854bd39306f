"""Triggers in real servers: FastAPI under uvicorn, Flask and Django under gunicorn."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests
from tests.process.tick_processes import BOUND, Process, Ticking, until
from tests.process.tick_servers import APPS, page
from tests.process.tick_specs import ASYNC_WORK, SHORT
from tests.triggers.triggering import HEADER, NINE, TEN, Google, google

pytest_plugins = ["tests.process.tick_fixtures"]

NIGHTLY = {"name": "nightly", "line": "0 9 * * *", "takes": 0.005, "options": {"lock_ttl": 10}}
LONG_ASYNC = {**ASYNC_WORK, "name": "report", "line": "0 9 * * *"}


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[Google, str]]:
    with google() as made:
        yield made


class Client:
    """Calls a server as Cloud Scheduler does."""

    def __init__(self, server: Process, one: Google) -> None:
        page(server)
        found = re.search(r"(?:running on|Listening at:) (http://127\.0\.0\.1:[1-9]\d*)", server.log)
        assert found is not None
        self._url = f"{found[1]}/cron"
        self._bearer = f"Bearer {one.token(aud='https://api.example', email='scheduler@example.com')}"

    def request(self, method: str, path: str, slot: str | None, *, has_token: bool = True) -> requests.Response:
        headers = {"Authorization": self._bearer} if has_token else {}
        if slot is not None:
            headers[HEADER] = slot
        return requests.request(method, f"{self._url}{path}", headers=headers, timeout=BOUND / 2)

    def call(self, method: str, path: str, slot: str | None = None, *, has_token: bool = True) -> tuple[int, Any]:
        answer = self.request(method, path, slot, has_token=has_token)
        return answer.status_code, answer.json()

    def post(self, name: str, slot: str | None = None) -> tuple[int, str]:
        status, body = self.call("POST", f"/{name}", slot)
        return status, body["result"]


def test_fastapi_is_triggered_while_it_ticks(ticks: Ticking, shared: tuple[Google, str]) -> None:
    """Mounted under uvicorn, it serves callers with a token while jobs tick; a shutdown interrupts a triggered run in
    order, on the application's loop.
    """
    one, url = shared
    server = ticks.start(
        *("-m", "uvicorn", "--port", "0", "--timeout-graceful-shutdown", "1", f"{APPS}.trigger_fastapi:app"),
        jobs=[SHORT, NIGHTLY, LONG_ASYNC],
        TRIGGER_CERTS=url,
        FIRECRON_SHUTDOWN_GRACE="2.5",
    )
    client = Client(server, one)
    assert client.call("POST", "/nightly", NINE, has_token=False)[0] == 401
    assert [client.post("nightly", slot) for slot in (NINE, NINE, TEN)] == [
        (200, "succeeded"),
        (200, "already_done"),
        (200, "succeeded"),
    ]
    assert [line["slot"] for line in ticks.lines("start", job="nightly")] == [NINE, TEN]
    ticks.wait_for(1, "end", job="short")
    status, overview = client.call("GET", "/")
    assert (status, [job["state"] for job in overview["jobs"]][1:]) == (200, ["ticking", "ticking"])
    statuses: list[int] = []
    with ThreadPoolExecutor(1) as aside:
        aside.submit(lambda: statuses.append(client.request("POST", "/report", NINE).status_code))
        [started] = ticks.wait_for(1, "start", job="report")
        # uvicorn ends by the signal that it was sent.
        assert server.stop() in (0, -15)
    assert statuses == [500]
    [end] = ticks.lines("end", run=started["run"])
    assert end["how"] == "CancelledError"
    ticks.assert_released_after(end)
    entry = ticks.history("report")[NINE]
    assert (entry["outcome"], entry["trigger"]) == ("interrupted", "http")
    ticks.assert_kept("short")
    assert ticks.instances() == set()


@pytest.mark.parametrize("framework", ["flask", "django"])
def test_gunicorn_runs_one_of_many_retries(ticks: Ticking, shared: tuple[Google, str], framework: str) -> None:
    """With gunicorn's workers, which don't tick, retries of one tick that come at once are one run; a manual run is
    one each time.
    """
    one, url = shared
    options = ("--workers", "2", "--threads", "4", "--bind", "127.0.0.1:0")
    server = ticks.start(
        *("-m", "gunicorn", *options, f"{APPS}.trigger_{framework}:app"),
        jobs=[NIGHTLY],
        TRIGGER_CERTS=url,
        RUNTIME_INSTANCE="elsewhere",
    )
    client = Client(server, one)
    assert client.call("POST", "/nightly", NINE, has_token=False)[0] == 401
    with ThreadPoolExecutor(6) as several:
        said = list(several.map(lambda _: client.post("nightly", NINE), range(6)))
    assert [status for status, _ in said] == [200] * 6
    assert [result for _, result in said].count("succeeded") == 1
    assert [line["slot"] for line in ticks.lines("start")] == [NINE]
    assert client.post("nightly", NINE) == (200, "already_done")
    assert client.post("nightly") == (200, "succeeded")
    until(lambda: len(ticks.history("nightly")) == 2, "two entries in the history")
    assert {entry["trigger"] for entry in ticks.history("nightly").values()} == {"http"}
    status, overview = client.call("GET", "/")
    assert (status, overview["jobs"][0]["state"], overview["jobs"][0]["last_run"]["outcome"]) == (
        200,
        "idle",
        "succeeded",
    )
    assert server.stop() == 0
