"""`firecron page` as a process: alone on loopback, with an application, and its end."""

from __future__ import annotations

import re
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests
from tests.process.tick_processes import BOUND, Process, Ticking, until
from tests.process.tick_specs import WORK

pytest_plugins = ["tests.process.tick_fixtures"]

APP = "tests.process.apps.worker:crons"
JOB = "work"
OWN = {"Sec-Fetch-Site": "same-origin"}
SAYS = re.compile(r"(http://\S+)/ shows the jobs of")


def serve(ticks: Ticking, *arguments: str, **environment: str) -> tuple[Process, str]:
    """The command, and the URL that it says."""
    page = ticks.start("-m", "firecron", "page", "--port", "0", *arguments, jobs=[WORK], **environment)

    def says() -> re.Match[str] | None:
        assert page.popen.poll() is None, page.log
        return SAYS.search(page.log)

    until(lambda: says() is not None, "a page that says where it is")
    found = says()
    assert found is not None
    return page, found[1]


def get(url: str, **options: Any) -> requests.Response:
    return requests.get(url, timeout=BOUND / 2, **options)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_alone_it_shows_and_pauses_and_ends(ticks: Ticking, number: signal.Signals) -> None:
    """Without an application it shows the catalogue and acts on locks, under the user's name; a stream doesn't delay
    its end.
    """
    ticks.rtdb.set(f"/cron-jobs/{JOB}", {"line": "0 9 * * *", "service": "shop"})
    page, url = serve(ticks)
    seen = get(f"{url}/api/jobs").json()
    assert [row["job"] for row in seen["jobs"]] == [JOB]
    assert (seen["visitor"]["canAct"], "@" in seen["visitor"]["who"]) == (True, True)
    pause = requests.post(f"{url}/api/jobs/{JOB}/pause", json={"why": "x"}, headers=OWN, timeout=BOUND / 2)
    assert (pause.status_code, ticks.lock(JOB)["pausedBy"]) == (200, seen["visitor"]["who"])
    run = requests.post(f"{url}/api/jobs/{JOB}/run", json={}, headers=OWN, timeout=BOUND / 2)
    assert (run.status_code, run.json()["error"]) == (409, "paused")
    with get(f"{url}/api/events", stream=True) as stream:
        assert next(stream.iter_lines()) == b"retry: 2000"
        assert page.stop(number) == 0
    assert ticks.lines() == []


def test_on_loopback_it_answers_to_loopbacks_names_alone(ticks: Ticking) -> None:
    """A name that an attacker's DNS leads here is 421, whatever is asked for; read-only is read-only."""
    page, url = serve(ticks, "--read-only")
    port = url.rpartition(":")[2]
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}", "LOCALHOST"):
        assert get(f"{url}/api/jobs", headers={"Host": host}).status_code == 200, host
    for host in (
        "evil.example",
        f"127.0.0.1.evil.example:{port}",
        "localhost.evil.example",
        "0.0.0.0",
        "127.0.0.2",
        "[::2]",
    ):
        for path in ("/", "/api/jobs", "/health", "/nothing"):
            assert get(f"{url}{path}", headers={"Host": host}).status_code == 421, host
    run = requests.post(f"{url}/api/jobs/{JOB}/run", json={}, headers=OWN, timeout=BOUND / 2)
    assert (run.status_code, run.json()["error"]) == (405, "read_only")
    assert page.stop() == 0


def test_elsewhere_it_asks_for_the_password(ticks: Ticking) -> None:
    """On another address the password of the environment is asked for, under any Host."""
    page, url = serve(ticks, "--host", "0.0.0.0", "--user", "me", FIRECRON_PAGE_PASSWORD="a b:c")
    local = url.replace("0.0.0.0", "127.0.0.1")
    assert get(f"{local}/").status_code == 401
    seen = get(f"{local}/api/jobs", auth=("me", "a b:c"), headers={"Host": "page.example"})
    assert (seen.status_code, seen.json()["visitor"]["who"]) == (200, "me")
    assert "a b:c" not in page.log
    assert page.stop() == 0


def test_with_an_application_it_runs_its_jobs_and_waits_for_them(ticks: Ticking) -> None:
    """A job runs when a visitor says so, and never by itself; at the signal the run is asked to end, its visitor gets
    the reply, and its lock is released.
    """
    page, url = serve(ticks, APP)
    with ThreadPoolExecutor(1) as aside:
        reply = aside.submit(requests.post, f"{url}/api/jobs/{JOB}/run", json={}, headers=OWN, timeout=BOUND / 2)
        [started] = ticks.wait_for(1, "start", job=JOB)
        assert started["trigger"] == "manual"
        assert page.stop() == 0, page.log
        assert (reply.result().status_code, reply.result().json()["result"]) == (200, "interrupted")
    assert "releasedAt" in ticks.lock(JOB)
    assert len(ticks.lines("start")) == 1
    assert ticks.instances() == set()


def test_it_listens_on_ipv6(ticks: Ticking) -> None:
    """The address of loopback may be that of IPv6."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"this machine has no IPv6 on loopback: {error}")
    page, url = serve(ticks, "--host", "::1")
    assert url.startswith("http://[::1]:")
    assert get(f"{url}/api/jobs").status_code == 200
    assert page.stop() == 0
