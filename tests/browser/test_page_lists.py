"""The lists of the page and its timeline in a real browser: their order, their times, whose they are."""

from __future__ import annotations

import re
import time

from playwright.sync_api import Browser, expect
from tests.browser.fleet import SAMPLES, seed
from tests.browser.served import Served, is_live, row, served, width
from tests.page.paging import attend, declare
from tools.browser import find_axe

from firecron import FireCron, distributed_cron
from firecron.base.instants import to_milliseconds, to_text
from firecron.cron.bounded import NO_TICKS
from firecron.lock.asks import Asks, Taking
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.browsers import opened

MINUTE = 60_000


def test_the_jobs_are_in_the_order_that_somebody_has_chosen(browser: Browser, rtdb: Rtdb) -> None:
    """And grouped by service, with a sentence for each; the browser keeps both. An instance's name finds its jobs."""
    now = int(time.time() * 1000)
    services = {"backup": "shop", "digest": "mail", "cleanup": "shop"}
    for number, (name, service) in enumerate(services.items()):
        declare(rtdb, name, f"{number} * * * *", since=now, declared_at=now, service=service)
        slot, ran = to_text(now - MINUTE), {"startedAt": 1, "endedAt": 2, "instance": f"inst-{name}"}
        entry = {"outcome": "succeeded", "slot": slot, "durationMs": (5, 900, 70)[number], "attempt": 1, **ran}
        rtdb.set(f"/cron-runs/{name}/{slot}", entry)
    attend(rtdb, *services)
    rtdb.set(
        "/cron-locks/cleanup", {"expiresAt": 1, "acquiredAt": 1, "slot": to_text(0), "failures": 3, "outcome": "failed"}
    )
    with served(rtdb, jobs=()) as site, opened(browser, site.url) as page:
        is_live(page)
        names = page.locator("#list .name:visible")
        expect(names).to_have_count(3)
        page.get_by_label("Order").select_option("name")
        expect(names).to_have_text(["backup", "cleanup", "digest"])
        page.get_by_label("Order").select_option("duration")
        expect(names).to_have_text(["digest", "cleanup", "backup"])
        page.get_by_label("by service").check()
        expect(names).to_have_text(["digest", "cleanup", "backup"])
        expect(page.locator("#list strong")).to_have_text(["mail", "shop"])
        expect(page.locator("#list [role=row]", has=page.locator("strong", has_text="shop"))).to_contain_text(
            re.compile("2 jobs, (1 needs|2 need) a hand")
        )
        page.locator("#filter").fill("inst-digest")
        expect(names).to_have_text(["digest"])
        expect(page.locator("#list strong:visible")).to_have_text(["mail"])
        page.goto(site.url)
        expect(names).to_have_text(["digest", "cleanup", "backup"])
        expect(page.get_by_label("Order")).to_have_value("duration")


def test_times_name_their_zone(browser: Browser, rtdb: Rtdb) -> None:
    """A job's page shows its own zone, the lists the reader's. The switch shows another, and the browser keeps it."""
    now = int(time.time() * 1000)
    declare(rtdb, "close", "0 9 * * *", timezone="Asia/Tokyo", since=now, declared_at=now)
    attend(rtdb, "close")
    with served(rtdb, jobs=()) as site, opened(browser, f"{site.url}#job/close") as page:
        zone, first = page.get_by_label("Times in"), page.locator("#next time").first
        expect(page.locator("#next-title")).to_have_text("Next ticks, Tokyo")
        expect(first).to_have_text(re.compile("09:00$"))
        expect(first).to_have_attribute("title", re.compile(" 00:00:00 UTC$"))
        zone.select_option("UTC")
        expect(page.locator("#next-title")).to_have_text("Next ticks, UTC")
        expect(first).to_have_text(re.compile("00:00$"))
        page.locator("#back").click()
        label, next_tick = page.locator("#list .labels > *").nth(2), row(page, "close").locator("time.first")
        expect(zone).to_have_value("here")
        zone.select_option("own")
        expect(label).to_have_text("Next, each its own")
        expect(next_tick).to_have_text(re.compile("09:00$"))
        expect(row(page, "close")).to_contain_text("· Tokyo")
        page.reload()
        expect(zone).to_have_value("own")
        page.evaluate("() => { location.hash = '#job/close' }")
        expect(zone).to_have_value("UTC")


def test_a_notice_is_its_jobs_and_leaves_by_itself(browser: Browser, site: Served) -> None:
    """It leads to its job, and the next one of that job takes its place. On a phone its button stays in one piece."""
    with opened(browser, f"{site.url}#job/digest", width=320, allowed="409") as page:
        page.clock.install()
        page.get_by_role("button", name="Pause").click()
        page.locator("#confirm").click()
        told = page.locator("#notices p")
        expect(told).to_contain_text(re.compile("^digest.*paused"))
        close = told.get_by_role("button", name="Close").bounding_box()
        assert close is not None
        assert (close["height"] < 40, width(page)) == (True, 320)
        page.locator("#job-acts [data-act=resume]").click()
        page.locator("#confirm").click()
        expect(told).to_have_count(1)
        expect(told).not_to_contain_text("is paused")
        page.locator("#back").click()
        told.get_by_role("link", name="digest").click()
        expect(page.locator("#job-name")).to_have_text("digest")
        page.clock.fast_forward(10_000)
        expect(told).to_have_count(0)


def test_the_instances_say_who_is_dead(browser: Browser, rtdb: Rtdb) -> None:
    """By service and revision, with their age and their last sign. A late job has those that would run it."""
    now = int(time.time() * 1000)
    declare(rtdb, "digest", "* * * * *")
    attend(rtdb, "digest")
    rtdb.set("/cron-instances", {
        "00bf4b12aa01-abc": {"seenAt": now, "startedAt": now - 90 * MINUTE, "instanceId": "shop-00042", "jobs": 3},
        "11bf4b12aa01-abc": {"seenAt": now - 12 * MINUTE, "startedAt": now - 90 * MINUTE, "instanceId": "shop-00042"},
        "22bf4b12aa01-abc": {"seenAt": now, "startedAt": now, "instanceId": "shop-00043"},
    })  # fmt: skip
    with served(rtdb, jobs=()) as site, opened(browser, f"{site.url}#instances") as page:
        rows = page.get_by_role("table", name="Processes").locator("[role=row]:not(.labels)")
        expect(rows).to_have_count(5)
        expect(rows.nth(0)).to_have_text("shop · shop-00042 1 alive, 1 dead")
        expect(rows.nth(1)).to_contain_text(re.compile(r"00bf4b12aa01\d+ s ago1 h ago3 jobsnothing"))
        expect(rows.nth(2)).to_contain_text("dead, last sign 12 min ago")
        expect(rows.nth(3)).to_have_text("shop · shop-00043 1 alive")
        page.evaluate("() => { location.hash = '#job/digest' }")
        would = page.locator("#job-instances li")
        expect(would).to_have_count(2)
        expect(would.nth(0)).to_contain_text(
            re.compile(r"shop-00042/00bf4b12aa01 started 1 h ago, last sign \d+ s ago Logs")
        )


def test_a_view_that_could_not_be_loaded_is_tried_again(browser: Browser, site: Served) -> None:
    """Its script is loaded when somebody opens it; meanwhile the page says what is missing."""
    with opened(browser, site.url, allowed="Failed to load resource") as page:
        is_live(page)
        page.route("**/job.js", lambda route: route.abort())
        page.clock.install()
        page.evaluate("() => { location.hash = '#job/digest' }")
        expect(page.locator("#problem")).to_contain_text("could not be loaded")
        page.unroute("**/job.js")
        page.clock.fast_forward(3_000)
        expect(page.locator("#job-name")).to_have_text("digest")
        expect(page.locator("#problem")).to_be_empty()


def test_all_jobs_are_held_from_the_page(browser: Browser, site: Served) -> None:
    """The dialog wants an end and a reason. The banner says who holds what until when and why, and names the job that
    somebody resumes; taken back, it is gone, and the jobs tick again.
    """
    with opened(browser, site.url) as page:
        is_live(page)
        page.locator("#hold").click()
        page.locator("#confirm").click()
        expect(page.locator("#complaint")).to_contain_text("Why?")
        page.get_by_label("Why").fill("migrating")
        page.locator("#confirm").click()
        banner = page.locator("#holds .hold")
        expect(banner).to_contain_text("Held by ops@example.com until")
        expect(banner).to_contain_text(": migrating")
        expect(banner).to_contain_text("every job")
        expect(row(page, "digest").locator(".now")).to_contain_text("paused until")
        row(page, "digest").get_by_role("button", name="Acts on digest").click()
        page.get_by_role("menuitem", name="Resume").click()
        page.locator("#confirm").click()
        expect(banner).to_contain_text("Not held: digest")
        banner.get_by_role("button", name="Take it back").click()
        page.locator("#confirm").click()
        expect(banner).to_have_count(0)
        expect(row(page, "cleanup").locator(".now")).not_to_contain_text("paused")
        expect(page.locator("#notices")).to_contain_text("2 locks are resumed")


def test_a_run_that_is_asked_for_is_followed_to_its_end(browser: Browser, site: Served) -> None:
    """This page has no code of the job: it shows who has asked, then where it runs, then how it has ended."""
    taker = FireCron(distributed_cron("cleanup", "30 2 * * *")(lambda: None), enabled=False)
    with opened(browser, site.url) as page:
        is_live(page)
        row(page, "cleanup").get_by_role("button", name="Acts on cleanup").click()
        page.get_by_role("menuitem", name="Run now").click()
        page.locator("#confirm").click()
        expect(page.locator("#notices")).to_contain_text("Asked for")
        expect(row(page, "cleanup").locator(".now")).to_contain_text("asked by ops@example.com")
        [ask] = Asks(taker.database).read().values()
        taking = Taking(taker.database, ask, "a-token", lambda: None)
        taker.engine.runner.run_manually(taker.registry.get("cleanup"), "manual", None, taking)
        Asks(taker.database).remove(ask)
        site.crons.board.asked()  # which it would see within seconds
        expect(page.locator("#notices")).to_contain_text("succeeded on")
        expect(row(page, "cleanup").locator(".now")).not_to_contain_text("asked by")
    taker.stop()


def test_the_schedules_of_a_stored_job_are_listed(browser: Browser, rtdb: Rtdb) -> None:
    """By pages, found by how their keys begin, counted when somebody asks; by keyboard each opens, and is acted on. It
    fits a phone, and axe finds nothing. Without the list the job is shown nevertheless.
    """
    declare(rtdb, "remind", schedule=NO_TICKS, stored={"stored": True, "parameters": "event"}, since=1)
    attend(rtdb, "remind")
    at = to_milliseconds("2100-01-01T09:00:00Z")
    entry = {
        "line": "0 9 * * *",
        "timezone": "UTC",
        "since": at - 1,
        "nextAt": at,
        "args": '{"event":"<b>"}',
        "by": "ann",
    }
    rtdb.set("/cron-schedules/remind", {f":k{number:02}": entry for number in range(52)})
    rtdb.set("/cron-schedules/remind/:k01/line", "ever")
    asked: list[str] = []
    with served(rtdb, jobs=()) as site, opened(browser, f"{site.url}#job/remind", width=320, allowed="503") as page:
        page.clock.install()
        page.reload()
        page.on("request", lambda request: asked.append(request.url.removeprefix(site.url)))
        keys, back = page.locator("#entries .name"), page.get_by_role("button", name="Back")
        expect(keys).to_have_count(50)
        expect(row(page, "k00")).to_contain_text(re.compile("at 09:00 every day, UTC.*waiting"))
        expect(row(page, "k01").locator(".hot")).to_contain_text(re.compile("stuck.*cron line"))
        expect(back).to_be_disabled()
        page.get_by_role("button", name="Next").press("Enter")
        expect(keys).to_have_text(["k50", "k51"])
        back.press("Enter")
        expect(keys).to_have_count(50)
        assert not [path for path in asked if path.endswith("/count")]
        page.get_by_role("button", name="Count").click()
        expect(page.get_by_role("button", name="52 schedules")).to_be_visible()
        with page.expect_request(re.compile(r"schedules\?")):  # no stream tells of them
            page.clock.fast_forward(5_000)
        page.get_by_role("searchbox", name="Key begins with").fill("x")
        expect(page.locator("#entries")).to_contain_text("No key begins with “x”.")
        page.get_by_role("searchbox", name="Key begins with").fill("k0")
        expect(keys).to_have_count(10)
        assert width(page) == 320
        if (script := find_axe()) is not None:
            page.evaluate(f"{script.read_text('utf-8')};0")
            found = page.evaluate("() => axe.run()")
            assert [(one["id"], one["nodes"][0]["html"]) for one in found["violations"]] == []
        row(page, "k00").get_by_role("button", name="Acts on remind:k00").press("Enter")
        expect(page.get_by_role("menuitem")).to_have_text(["Pause…"])
        page.keyboard.press("Enter")
        page.get_by_role("dialog", name="Pause remind:k00").wait_for()
        page.keyboard.type("the move")
        page.keyboard.press("Enter")
        expect(row(page, "k00")).to_contain_text(re.compile("paused.*by ops@example.com: the move"))
        keys.nth(0).press("Enter")
        expect(page.locator("#job-name")).to_have_text("remind:k00")
        expect(page.locator("#options")).to_contain_text('arguments{"event": "<b>"}')
        page.locator("#job-acts").get_by_role("button", name="Resume").press("Enter")
        page.locator("#confirm").click()
        expect(page.locator("#job-acts [data-act=pause]")).to_be_visible()
        assert rtdb.get("/cron-schedules/remind/:k00/paused") is None
        page.route("**/schedules?*", lambda route: route.fulfill(status=503, json={"message": "no rules"}))
        page.locator("#back").click()
        expect(page.locator("#entries")).to_contain_text("The database is away: no rules.")
        expect(page.locator("#options")).to_contain_text("shop.jobs:digest")


# --- the timeline


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
