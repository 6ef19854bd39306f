"""The page in a real browser on loopback: when its rows are painted, how soon a claim is seen, the timeline's drawing.

    python tests/bench/page.py [--rounds 7]

"Painted" is the time from the start of the navigation to the frame that shows all rows, in a new profile, so nothing is
cached; the server has read the database before, as for every visitor but the first. A claim is a write to the
database, and is seen when the row says so. Without a Chromium (`make browser`) nothing is measured.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING
from urllib.request import urlopen

import goals

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from rtdb_emulator.pytest_plugin import Rtdb

# It runs in the page, before the page's own script.
PAINTED = """
globalThis.painted = new Promise((resolve) => {
  const look = () => {
    if (document.querySelectorAll(".jobs > [role=row]:not(.labels)").length < COUNT) return requestAnimationFrame(look);
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now())));
  };
  requestAnimationFrame(look);
});
"""
FILTERED = """() => {
  const field = document.getElementById("filter"), at = performance.now();
  field.value = "invoice 1";
  field.dispatchEvent(new Event("input"));
  document.body.offsetHeight;
  return performance.now() - at;
}"""
# All rows of the timeline are drawn again.
DRAWN = """() => {
  const at = performance.now();
  dispatchEvent(new Event("resize"));
  document.body.offsetHeight;
  return performance.now() - at;
}"""
# The last round's change is told.
CALM = """() =>
  !document.querySelector("[href='#job/cache-warmup-0']").closest("[role=row]").querySelector(".now").textContent
    .startsWith("running")
"""
SEEN = """() => new Promise((resolve) => {
  const cell = document.querySelector("[href='#job/cache-warmup-0']").closest("[role=row]").querySelector(".now");
  const look = () => cell.textContent.startsWith("running") ? resolve(Date.now()) : requestAnimationFrame(look);
  look();
})"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the page in a browser.")
    parser.add_argument("--rounds", type=int, default=7, help="how often each figure is measured (default: 7)")
    rounds = parser.parse_args().rounds
    sys.path.append(str(Path(__file__).resolve().parents[2]))
    from playwright.sync_api import sync_playwright

    from rtdb_emulator import Emulator
    from rtdb_emulator.pytest_plugin import Rtdb
    from rtdb_emulator_tests.helpers.browsers import FLAGS
    from rtdb_emulator_tests.helpers.chromium import find, problem

    chromium = find()
    if why := problem(chromium):
        goals.leave_out(why)
        return
    with Emulator() as emulator, sync_playwright() as playwright:
        os.environ["FIREBASE_DATABASE_EMULATOR_HOST"] = f"127.0.0.1:{emulator.port}"
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        for count in (50, 1000):
            rtdb = Rtdb(emulator, f"bench-{count}")
            os.environ["FIRECRON_DATABASE_URL"] = rtdb.url
            measure(browser, rtdb, count, rounds)


def measure(browser: Browser, rtdb: Rtdb, count: int, rounds: int) -> None:
    """Measure a page of so many jobs."""
    from tests.browser.fleet import SAMPLES, seed
    from tests.browser.served import served

    samples = [replace(SAMPLES[n % 12], name=f"{SAMPLES[n % 12].name}-{n // 12}") for n in range(count)]
    wanted = {50: (300, 100, 1000), 1000: (2000, 100, None)}[count]
    seed(rtdb, samples, in_need=False)
    with served(rtdb, jobs=()) as site:
        with urlopen(f"{site.url}api/jobs") as reply:
            size = len(reply.read())
        painted, filtered, seen, drawn = [], [], [], list[float]()
        for turn in range(rounds):
            context = browser.new_context(viewport={"width": 1280, "height": 800})
            context.add_init_script(PAINTED.replace("COUNT", str(count)))
            page = context.new_page()
            page.goto(site.url)
            painted.append(float(page.evaluate("painted")))
            filtered.append(float(page.evaluate(FILTERED)))
            # A claim without a goal is looked at once.
            if wanted[2] is not None or turn == 0:
                page.locator("#filter").fill("")
                page.wait_for_function("document.getElementById('live').textContent === 'live'")
                page.wait_for_function(CALM)
                ends = time.monotonic() + 30
                while not rtdb.emulator.listeners(rtdb.namespace):
                    assert time.monotonic() < ends, "the server has opened no stream"
                    page.wait_for_timeout(10)
                seen.append(_seen(page, rtdb))
            if count == 50:
                page.set_viewport_size({"width": 1280, "height": 2400})
                page.goto(f"{site.url}#timeline")
                page.locator("#tl .job .floor").nth(count - 1).wait_for(state="attached")
                drawn.append(float(page.evaluate(DRAWN)))
            context.close()
    print(f"{count:,} jobs, the median of {rounds} rounds")
    if drawn:
        _say(f"{count:,} jobs drawn on the timeline", median(drawn), 50, "ms")
    for what, measured, goal in zip(
        ("painted", "filtered", "a claim seen"), (painted, filtered, seen), wanted, strict=True
    ):
        _say(f"{count:,} jobs {what}", median(measured), goal, "ms")
    _say(f"{count:,} jobs as JSON", size / 1000, 60 if count == 50 else None, "kB")


def _say(name: str, measured: float, wanted: float | None, unit: str) -> None:
    goal = "" if wanted is None else f" (goal: {wanted} at most)"
    print(f"  {name}: {measured:.4g} {unit}{goal}")
    if wanted is not None:
        goals.at_most(name, measured, wanted, unit)


def _seen(page: object, rtdb: Rtdb) -> float:
    """Claim a job in the database, and return how many ms later the page's row says so; then release it."""
    from playwright.sync_api import Page

    assert isinstance(page, Page)
    path = "/cron-locks/cache-warmup-0"
    before = rtdb.get(path)
    assert isinstance(before, dict)
    now = int(time.time() * 1000)
    handle = page.evaluate_handle(f"() => ({{ seen: ({SEEN})() }})")
    started = time.time() * 1000
    rtdb.set(path, {**before, "acquiredAt": now, "expiresAt": now + 60_000, "releasedAt": None, "outcome": None})
    took = float(page.evaluate("(one) => one.seen", handle)) - started
    rtdb.set(path, before)
    return took


if __name__ == "__main__":
    main()
