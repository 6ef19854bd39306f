"""FastAPI under uvicorn: several workers, the reloader, and the application's own lifespan."""

from __future__ import annotations

from tests.process.tick_processes import HERE, Ticking
from tests.process.tick_servers import APPS, assert_clean_end, page
from tests.process.tick_specs import ASYNC_WORK, SHORT, WORK

pytest_plugins = ["tests.process.tick_fixtures"]

UVICORN = ("-m", "uvicorn", "--port", "0")


def test_i34_uvicorns_workers_share_the_ticks_and_stop_in_order(ticks: Ticking) -> None:
    """With two workers each tick runs once, in one of them; SIGTERM interrupts what runs before the application's
    resources close, and leaves neither locks nor instances.
    """
    server = ticks.start(
        *UVICORN,
        *("--workers", "2", f"{APPS}.fastapi_app:app"),
        jobs=[SHORT, WORK, ASYNC_WORK],
        FIRECRON_SHUTDOWN_GRACE="3",
    )
    opened = {line["pid"] for line in ticks.wait_for(2, "opened")}
    assert len(ticks.wait_for_instances(2)) == len(opened) == 2
    answer = page(server)
    assert answer["pid"] in opened
    assert answer["resource"] == "open"
    ticks.wait_for(4, "end", job="short")
    [in_flight] = ticks.wait_for(1, "start", job="async")
    assert server.stop() == 0
    assert_clean_end(ticks)
    ticks.assert_kept("async")
    lines = ticks.lines()
    assert {line["pid"] for line in lines if line["what"] == "start"} <= opened
    for pid in opened:
        own = [line["what"] for line in lines if line["pid"] == pid]
        assert (own[0], own[-1]) == ("opened", "closed")
    # A run that was cancelled is released after it has cleaned up.
    [end] = ticks.lines("end", run=in_flight["run"])
    assert end["how"] == "CancelledError"
    ticks.assert_released_after(end)
    assert ticks.history("async")[in_flight["slot"]]["outcome"] == "interrupted"


def test_i36_a_reload_stops_the_old_process_and_starts_the_new_one(ticks: Ticking) -> None:
    """Under `--reload` one process ticks, the supervisor never does; after a change it is another one."""
    watched = ticks.folder / "watched"
    watched.mkdir()
    source = watched / "served.py"
    source.write_text((HERE / "apps" / "fastapi_app.py").read_text("utf-8"), "utf-8")
    server = ticks.start(
        *UVICORN,
        *("--reload", "--reload-dir", str(watched), "--app-dir", str(watched), "served:app"),
        jobs=[SHORT, WORK],
    )
    [first] = ticks.wait_for(1, "opened")
    ticks.wait_for(2, "end", job="short")
    assert len(ticks.wait_for_instances(1)) == 1
    source.write_text(source.read_text("utf-8") + "\n# changed\n", "utf-8")
    second = ticks.wait_for(2, "opened")[1]
    assert [line["pid"] for line in ticks.lines("closed")] == [first["pid"]]
    ticks.wait_for(1, "end", job="short", pid=second["pid"])
    ticks.wait_for_instances(1)
    assert server.stop() in (0, -15)
    assert_clean_end(ticks)
    assert {line["pid"] for line in ticks.lines("start")} == {first["pid"], second["pid"]}
