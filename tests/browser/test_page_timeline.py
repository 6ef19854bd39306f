"""The timeline of the page in a real browser: all jobs on one axis."""

from __future__ import annotations

import re
import time

from playwright.sync_api import Browser, expect
from tests.browser.fleet import SAMPLES, seed
from tests.browser.served import is_live, served, width
from tools.browser import find_axe

from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.browsers import opened


def test_all_jobs_stand_on_one_axis(browser: Browser, rtdb: Rtdb) -> None:
    """Runs, outages and ticks to come, below the instances of the service. What is pointed at is told, by keyboard too,
    and one request has all rows, for each range anew.
    """
    asked: list[str] = []
    with served(rtdb, jobs=()) as site:
        seed(rtdb, SAMPLES)
        with opened(browser, f"{site.url}#timeline", dark=True) as page:
            page.on("request", lambda request: asked.append(request.url) if "api/timeline" in request.url else None)
            is_live(page)
            rows = page.locator("#tl .job")
            expect(rows).to_have_count(len(SAMPLES))
            late = page.locator("#tl .job", has_text="expire-carts")
            expect(late.locator(".miss")).to_have_count(1)
            expect(late.locator(".coming")).to_have_count(1)
            expect(late.locator(".present")).to_have_count(1)
            expect(page.locator("#tl .job", has_text="cache-warmup").locator(".hatch")).to_have_count(1)
            expect(page.locator("#tl .service strong")).to_have_text(["api"])
            expect(page.locator("#tl .service title").first).to_have_text(re.compile("api-00042-kex/.*: started"))
            label = re.compile(r"^\d+ runs?, 3 not succeeded$")
            expect(page.locator("#tl .job", has_text="fx-rates").locator("svg")).to_have_attribute("aria-label", label)
            late.locator("svg").focus()
            page.keyboard.press("ArrowLeft")
            expect(page.locator("#tip")).to_contain_text("to come")
            box = late.locator("svg").bounding_box()
            assert box is not None
            late.locator("svg").hover(position={"x": box["width"] * 12 / 13 - 20, "y": 12})
            expect(page.locator("#tip")).to_contain_text("no instance has claimed it")
            assert len(asked) == 1
            with page.expect_response(re.compile("hours=168")):
                page.get_by_role("button", name="7 d").click()
            expect(page.locator("#tl-axis")).to_contain_text(time.strftime("%a", time.gmtime()))
            expect(page.locator("#tl .job", has_text="daily-report").locator(".ran")).to_have_count(1)
            assert re.findall("hours=(\\d+)", " ".join(asked)) == ["6", "168"]
            if (script := find_axe()) is not None:
                page.evaluate(f"{script.read_text('utf-8')};0")
                found = page.evaluate("() => axe.run()")
                assert [(one["id"], one["nodes"][0]["html"]) for one in found["violations"]] == []
            late.get_by_role("link").click()
            expect(page.locator("#job-name")).to_have_text("expire-carts")


def test_a_phone_shows_one_job_at_a_time(browser: Browser, rtdb: Rtdb) -> None:
    """The one that somebody chooses, in the width that there is."""
    with served(rtdb, jobs=()) as site:
        seed(rtdb, SAMPLES[:3], in_need=False)
        with opened(browser, f"{site.url}#timeline", width=320) as page:
            is_live(page)
            rows = page.locator("#tl .job")
            expect(rows).to_have_count(1)
            page.get_by_label("Job", exact=True).select_option("cache-warmup")
            expect(rows).to_have_text(["cache-warmup"])
            expect(rows.locator(".ran")).to_have_count(1)
            assert width(page) == 320
