"""What the page asks and hears, in a real browser: streams, polls and strips, and how it is without them."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, Page, Request, expect
from tests.browser.served import Served, is_live, row, served

from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.browsers import opened
from rtdb_emulator_tests.helpers.processes import BOUND

HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_away_and_back(browser: Browser, rtdb: Rtdb) -> None:
    """The page says that it is old, and why: its browser is offline, or its server is gone; then it is live again."""
    with served(rtdb) as site:
        port = int(site.url.rsplit(":", 1)[1].strip("/"))
        with opened(browser, site.url, allowed="Failed to load resource") as page:
            is_live(page)
            page.context.set_offline(True)
            expect(page.locator("#detail")).to_have_text("This browser is offline.")
            expect(page.locator("#sentence")).to_contain_text(re.compile("^At .*: 3 jobs"))
            page.context.set_offline(False)
            is_live(page)
            site.stop()
            page.evaluate("() => dispatchEvent(new Event('online'))")
            expect(page.locator("#detail")).to_contain_text("server does not reply")
            with served(rtdb, port):
                page.evaluate("() => dispatchEvent(new Event('online'))")
                is_live(page)
                expect(page.locator("#sentence")).to_have_text("3 jobs, all as they should be")


def test_a_view_claims_nothing_that_it_was_not_told(browser: Browser, site: Served) -> None:
    """While the database is away each view says so, and of when it is; what it lacks comes with the database. Of a job
    that nobody knows it says that.
    """
    away = {"error": "unavailable", "message": "no reply"}
    empty = re.compile("Nobody|No (instance|group|other lock|run)|No tick")
    with opened(browser, site.url, allowed="Failed to load resource") as page:
        is_live(page)
        page.route("**/api/**", lambda route: route.fulfill(status=503, json=away))
        page.evaluate("() => dispatchEvent(new Event('offline'))")
        expect(page.locator("#detail")).to_have_text("The database is away: no reply.")
        for view in ("#instances", "#acts", "#job/digest"):
            page.evaluate("view => { location.hash = view }", view)
            expect(page.locator(f"#v-{view[1:].partition('/')[0]}")).to_be_visible()
            expect(page.locator("#problem")).to_have_text(re.compile(r"^The database is away: no reply\. Shown as of "))
            expect(page.locator("main > section:visible")).not_to_contain_text(empty, use_inner_text=True)
        page.evaluate("() => { location.hash = '#locks' }")
        page.reload()
        expect(page.locator("#problem")).to_have_text("The database is away: no reply.")
        expect(page.locator("#v-locks")).not_to_contain_text(empty, use_inner_text=True)
        page.evaluate("() => { location.hash = '#job/digest' }")
        page.unroute("**/api/**")
        page.evaluate("() => dispatchEvent(new Event('online'))")
        expect(page.locator("#options")).to_contain_text("shop.jobs:digest")
        expect(page.locator("#problem")).to_be_empty()
        page.evaluate("() => { location.hash = '#job/nobody' }")
        expect(page.locator("#problem")).to_contain_text("nobody is no job")
        expect(page.locator("#job-body")).to_be_hidden()


def test_strips_are_asked_for_when_they_come_in_sight(browser: Browser, rtdb: Rtdb) -> None:
    """Of 60 jobs those on the screen and just below it, and the last when somebody has scrolled to it."""
    jobs = tuple((f"job-{number:02}", "0 9 * * *") for number in range(60))
    with served(rtdb, jobs=jobs) as site, opened(browser, "about:blank") as page:
        with page.expect_request("**/api/strips?*") as first:
            page.goto(site.url)
        assert "job-01" in first.value.url
        assert "job-35" not in first.value.url
        with page.expect_request(re.compile("api/strips.*job-59")):
            row(page, "job-59").scroll_into_view_if_needed()


def test_two_windows_share_one_stream(browser: Browser, site: Served) -> None:
    """The second hears from the first, and has the stream once the first is closed. Hidden, it has none."""
    streams: list[Page] = []

    def note(request: Request) -> None:
        if request.url.endswith("/api/events"):
            streams.append(request.frame.page)

    with opened(browser, site.url) as first:
        first.context.on("request", note)
        is_live(first)
        second = first.context.new_page()
        second.goto(site.url)
        is_live(second)
        site.claim()
        for page in (first, second):
            expect(row(page, "digest").locator(".now")).to_contain_text("running")
        assert second not in streams
        other = first.context.new_page()
        with first.context.expect_event("request", lambda request: request.url.endswith("/api/events")):
            first.goto("about:blank")
        site.let_go()
        expect(row(second, "digest").locator(".now")).to_have_text("1,204 mails")
        assert set(streams) <= {first, second}
        with first.context.expect_event("requestfailed", lambda request: request.url.endswith("/api/events")):
            second.evaluate(HIDE, True)
        with first.context.expect_event("request", lambda request: request.url.endswith("/api/events")):
            second.evaluate(HIDE, False)
        other.close()


def test_without_a_stream_it_asks_after_an_act(browser: Browser, site: Served) -> None:
    """Half a second after a run was begun, and as soon as anything else was done: by a clock that stands still."""
    with opened(browser, "about:blank") as page:
        page.clock.install()
        page.route("**/api/events", lambda route: route.fulfill(status=204))
        page.goto(f"{site.url}#job/digest")
        expect(page.locator("#live")).to_have_text("asks every 5 s")
        page.get_by_role("button", name="Run now").click()
        page.clock.pause_at(page.evaluate("Date.now() / 1000 + 1"))
        page.locator("#confirm").click()
        # The page's server shows the run from its start on, which is a little later than the claim.
        assert site.has_begun.wait(BOUND)
        page.clock.run_for(500)
        expect(page.locator("#job-now")).to_contain_text("running")
        site.may_end.set()
        expect(page.locator("#notices")).to_contain_text("succeeded")
        expect(page.locator("#job-now")).not_to_contain_text("running")
        page.get_by_role("button", name="Pause").click()
        page.locator("#confirm").click()
        expect(page.locator("#job-now")).to_contain_text("paused")


def test_without_a_stream_it_asks_with_an_etag(browser: Browser, site: Served) -> None:
    """Every five seconds by a clock of the test's; what has not changed is not sent again. The browser's clock, which
    is wrong by years, changes no time that is shown.
    """
    statuses: list[int] = []
    with opened(browser, "about:blank") as page:
        page.clock.install(time="2001-01-01T00:00:00Z")
        page.route("**/api/events", lambda route: route.fulfill(status=204))  # as Flask and Django do
        page.goto(site.url)
        expect(page.locator("#live")).to_have_text("asks every 5 s")
        expect(row(page, "invoices")).to_contain_text(re.compile(r"in (1?\d min|\d+ s)|now|due"))
        page.on("response", lambda response: statuses.append(response.status) if "api/jobs" in response.url else None)
        for _ in range(2):
            with page.expect_response("**/api/jobs"):
                page.clock.fast_forward(5_000)
        site.pause()
        with page.expect_response("**/api/jobs"):
            page.clock.fast_forward(5_000)
        expect(row(page, "digest").locator(".now")).to_contain_text("paused")
        assert statuses[:2] == [304, 304]
        page.evaluate("() => { location.hash = '#job/invoices' }")
        last = page.locator("#next li:last-child .note")
        before = last.inner_text()
        page.clock.fast_forward(120_000)
        expect(last).not_to_have_text(before)
