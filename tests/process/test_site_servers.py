"""The page and the triggers over real servers."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
import requests
from tests.process.tick_processes import BOUND, Process, Ticking, until
from tests.process.tick_servers import APPS, assert_clean_end, page
from tests.process.tick_specs import ASYNC_WORK, SHORT, WORK
from tests.triggers.triggering import HEADER, NINE, TEN, Google, google

pytest_plugins = ["tests.process.tick_fixtures"]

UVICORN = ("-m", "uvicorn", "--port", "0")
GUNICORN = ("-m", "gunicorn", "--workers", "1", "--threads", "4", "--bind", "127.0.0.1:0")
NIGHTLY = {"name": "nightly", "line": "0 9 * * *", "takes": 0.005, "options": {"lock_ttl": 10}}
OWN = {"Sec-Fetch-Site": "same-origin"}


def mount(server: Process, prefix: str = "") -> str:
    """The URL of the page, without a slash at its end."""
    pattern = re.compile(r"(?:running on|Listening at:) (http://127\.0\.0\.1:[1-9]\d*)")
    until(lambda: pattern.search(server.log) is not None, "a server that says where it listens")
    found = pattern.search(server.log)
    assert found is not None
    url = f"{found[1]}{prefix}/crons"

    def is_up() -> bool:
        try:
            return get(f"{url}/page.css").status_code == 200
        except requests.ConnectionError:
            return False  # a parent of workers listens before they do

    until(is_up, f"a page at {url}")
    return url


def get(url: str, **options: Any) -> requests.Response:
    return requests.get(url, timeout=BOUND / 2, **options)


def events(url: str, ending: ExitStack) -> Iterator[tuple[str, Any]]:
    """The events of a stream, each with its data; the first is read when this returns."""
    reply = ending.enter_context(get(f"{url}/api/events", stream=True))
    assert (reply.status_code, reply.headers["content-type"]) == (200, "text/event-stream")

    def read() -> Iterator[tuple[str, Any]]:
        name = ""
        for line in reply.iter_lines(chunk_size=1):
            kind, _, value = line.decode().partition(": ")
            if kind == "event":
                name = value
            elif kind == "data":
                yield name, json.loads(value)

    return read()


@pytest.mark.parametrize(
    ("options", "number"),
    [((), signal.SIGTERM), ((), signal.SIGINT), (("--workers", "2"), signal.SIGTERM)],
    ids=["SIGTERM", "Ctrl-C", "two workers"],
)
def test_an_open_stream_does_not_delay_the_end(
    ticks: Ticking, options: tuple[str, ...], number: signal.Signals
) -> None:
    """uvicorn waits for open responses before it tells the jobs to stop. The streams end at the signal, so the jobs
    have their whole grace, and their locks are released.
    """
    server = ticks.start(*UVICORN, *options, f"{APPS}.page_fastapi:app", jobs=[SHORT, WORK])
    url = mount(server)
    with ExitStack() as ending:
        streams = [events(url, ending) for _ in range(3)]
        for stream in streams:
            name, value = next(stream)
            assert (name, "jobs" in value) == ("jobs", True)
        ticks.wait_for(1, "start", job="work")
        ticks.wait_for(1, "end", job="short")
        # uvicorn ends by the signal that it was sent; its workers' parent ends by itself.
        assert server.stop(number) in (0, -number, 130)
    assert_clean_end(ticks)


def test_a_stream_tells_of_a_claim(ticks: Ticking) -> None:
    """What changes in the database comes by the stream, without being asked for."""
    server = ticks.start(
        *UVICORN, f"{APPS}.page_fastapi:app", jobs=[{**NIGHTLY, "takes": 30, "obeys": True}], FIRECRON_WATCH="1"
    )
    url = mount(server)
    until(lambda: bool(ticks.rtdb.get("/cron-jobs/nightly")), "the job in the catalogue")
    with ExitStack() as ending:
        stream = events(url, ending)
        _, first = next(stream)
        assert [row["verdict"] for row in first["jobs"]] == ["ok"]
        assert first["gone"] == []
        ticks.rtdb.set("/cron-locks/nightly", {"paused": True})
        verdicts = [row["verdict"] for name, value in (next(stream),) for row in value["jobs"]]
        assert verdicts == ["paused"]
        assert server.stop() in (0, -15)


@pytest.mark.parametrize(
    ("command", "prefix", "environment"),
    [
        ((*UVICORN, f"{APPS}.page_fastapi:app"), "", {}),
        ((*UVICORN, "--root-path", "/behind", f"{APPS}.page_fastapi:app"), "", {}),
        ((*GUNICORN, f"{APPS}.page_flask:app"), "/behind", {"SCRIPT_NAME": "/behind"}),
        ((*GUNICORN, f"{APPS}.page_django:app"), "/behind", {"SCRIPT_NAME": "/behind"}),
    ],
    ids=["uvicorn", "uvicorn-prefix", "flask", "django"],
)
def test_the_page_works_below_any_prefix(
    ticks: Ticking, command: tuple[str, ...], prefix: str, environment: dict[str, str]
) -> None:
    """The page, its files, its JSON and its acts are below the mount, wherever a proxy puts that; the mount without its
    slash leads there.
    """
    server = ticks.start(*command, jobs=[NIGHTLY], RUNTIME_INSTANCE="elsewhere", **environment)
    url = mount(server, prefix)
    html = get(f"{url}/").text
    assert "<html" in html
    # uvicorn's option is for a proxy that takes the prefix off, so there is none here that could lead back.
    if "--root-path" not in command:
        assert get(url).text == html
    for path in re.findall(r'(?:src|href)="([^"#]+)"', html):
        assert get(f"{url}/{path}").status_code == 200, path
    ticks.rtdb.set("/cron-jobs/nightly", {"line": "0 9 * * *", "ticks": False, "service": "shop"})
    assert requests.head(f"{url}/health", timeout=BOUND / 2).status_code == 200
    run = requests.post(f"{url}/api/jobs/nightly/run", json={"why": "a test"}, headers=OWN, timeout=BOUND / 2)
    assert (run.status_code, run.json()["result"]) == (200, "succeeded")
    seen = get(f"{url}/api/jobs")
    assert get(f"{url}/api/jobs", headers={"If-None-Match": seen.headers["ETag"]}).status_code in (200, 304)
    until(lambda: len(get(f"{url}/api/acts").json()["acts"]) == 1, "the act")
    [act] = get(f"{url}/api/acts").json()["acts"]
    assert (act["act"], act["name"], act["who"], act["why"]) == ("run", "nightly", "ops@example.com", "a test")
    with get(f"{url}/api/events", stream=True) as stream:
        assert stream.status_code == (200 if "uvicorn" in command else 204)
    assert server.stop() in (0, -15)


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
