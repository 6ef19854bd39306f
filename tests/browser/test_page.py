"""The page of the jobs in a real browser, with a real server and the emulator: what it shows and does."""

from __future__ import annotations

import re
import time

import pytest
import requests
from playwright.sync_api import Browser, expect
from tests.browser.fleet import SAMPLES, seed
from tests.browser.served import LOCK, Served, is_live, row, served, width
from tests.page.paging import OWN, declare

from firecron import Access
from firecron.base.instants import to_text
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.browsers import opened

HIDDEN = "<img src=x onerror=alert(1)> left \u202e right\u202c\u0007 \u05e9\u05dc\u05d5\u05dd <b>bold</b> " + "w" * 120
LONG = "L" + "-very" * 18 + "-long-job"
# A key that somebody wrote by hand: no program has such a job.
ODD = "<b>odd\u202e job"


def test_a_row_turns_live_with_the_claim_and_sees_a_takeover(browser: Browser, site: Served) -> None:
    """Both are heard on the stream: the page asks for nothing again. The strip and the sentence follow."""
    asked: list[str] = []
    with opened(browser, site.url) as page:
        is_live(page)
        expect(page.locator("#sentence")).to_have_text("3 jobs, all as they should be")
        now = row(page, "digest").locator(".now")
        page.on("request", lambda request: asked.append(request.url.removeprefix(site.url)))
        site.claim(1)
        expect(now).to_contain_text(f"/{site.crons.locks.identity.instance}")
        expect(now).to_contain_text("running")
        expect(row(page, "digest").locator(".strip .going")).to_have_count(1)
        other = site.another()
        row(page, "digest").locator(".name").click()
        # It is unlocked only once it was asked to stop, and doesn't.
        for act, said in (("Stop this run", "is asked to end"), ("Unlock", "digest is unlocked")):
            page.get_by_role("button", name=act).click()
            page.get_by_label("Why").fill(" it hangs ")
            page.locator("#confirm").click()
            expect(page.locator("#notices")).to_contain_text(said)
        acts = site.rtdb.get("/cron-acts")
        assert isinstance(acts, dict)
        assert [(act["act"], act["why"]) for act in acts.values()] == [("cancel", "it hangs"), ("unlock", "it hangs")]
        page.locator("#back").click()
        site.claim(0, other)
        expect(now).to_contain_text(f"/{other.locks.identity.instance}")
        site.let_go()
        expect(now).to_have_text("1,204 mails")
        expect(row(page, "digest").locator(".glyph .ran")).to_have_count(1)
        assert [path for path in asked if path == "api/jobs"] == []
        other.stop()


def test_texts_are_texts_and_fit_a_phone(browser: Browser, rtdb: Rtdb) -> None:
    """Markup, marks of direction and long names in every view: spelled out, and at 320 pixels nothing goes sideways."""
    held = {**LOCK, "instance": HIDDEN, "instanceId": HIDDEN, "releasedAt": None, "expiresAt": 4102444800000}
    leads = {**held, "slot": None, "kind": "leader"}
    rtdb.set("/cron-locks", {LONG: {**held, "paused": True}, "leader": leads, "bad": HIDDEN})
    rtdb.set(f"/cron-runs/{LONG}/2026-11-18T09:00:00Z", {
        "outcome": "failed", "slot": "2026-11-18T09:00:00Z", "error": HIDDEN, "note": HIDDEN, "instance": HIDDEN,
        "startedAt": 1794992400123, "endedAt": 1794992401123, "durationMs": 1000, "attempt": 2, "fence": 7,
    })  # fmt: skip
    rtdb.set("/cron-instances/x-1", {"seenAt": 1, "startedAt": 1, "instanceId": HIDDEN})
    rtdb.set("/cron-acts/x1", {"at": 1, "act": "pause", "name": LONG, "who": HIDDEN, "why": HIDDEN})
    declare(rtdb, ODD)
    declare(rtdb, LONG, where=HIDDEN, service=HIDDEN)
    with served(rtdb) as site, opened(browser, site.url, width=320) as page:
        is_live(page)
        expect(row(page, LONG)).to_contain_text("paused")
        for view in ("", f"#job/{LONG}", "#locks", "#instances", "#acts"):
            page.evaluate("view => { location.hash = view }", view)
            shown = page.locator(f"#v-{view.strip('#').partition('/')[0] or 'jobs'}:visible")
            expect(shown).to_have_count(1)
            if view and view != "#acts":
                expect(shown).to_contain_text("<img src=x onerror=alert(1)>")
            if view.startswith("#job"):
                expect(page.locator("#raw")).to_contain_text("\\u202e right\\u202c")
            assert width(page) == 320, view
        assert page.locator("main img, main b, main script").count() == 0
        bad = page.locator("#v-locks [role=row]", has_text="malformed")
        assert (bad.count(), bad.locator("button").count()) == (1, 0)
        assert "\u202e" not in page.locator("main").text_content()  # type: ignore[operator]  # there is a main


def test_acts_are_dialogs_that_name_what_they_do(browser: Browser, site: Served) -> None:
    """Pause and resume, by keyboard alone: Escape leaves, focus comes back, and the database has what was said."""
    with opened(browser, f"{site.url}#job/digest") as page:
        page.get_by_role("button", name="Run now").wait_for()  # then all buttons are there
        button = page.get_by_role("button", name="Pause")
        button.press("Enter")
        dialog = page.get_by_role("dialog", name="Pause digest")
        expect(dialog).to_contain_text("No instance starts it any more.")
        expect(dialog.get_by_role("button")).to_have_text(["Keep it as it is", "Pause"])
        expect(page.get_by_label("Why")).to_be_focused()
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        expect(button).to_be_focused()
        page.keyboard.press("Enter")
        page.keyboard.type("<b>the move</b>")
        page.keyboard.press("Enter")
        expect(page.locator("#job-now")).to_have_text(re.compile("^paused"))
        expect(page.locator("#job-acts [data-act=resume]")).to_be_focused()
        assert site.rtdb.get("/cron-locks/digest/paused") is not None
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name="Pause")).to_be_visible()
        assert site.rtdb.get("/cron-locks/digest/paused") is None


def test_focus_is_not_lost_with_a_button(browser: Browser, site: Served) -> None:
    """While a dialog is open, another visitor does the same: the button that opened it is gone, the one in its place
    has the focus.
    """
    with opened(browser, f"{site.url}#job/digest") as page:
        page.get_by_role("button", name="Run now").wait_for()
        page.get_by_role("button", name="Pause").click()
        site.pause()
        expect(page.locator("#job-acts [data-act=resume]")).to_have_count(1)
        page.keyboard.press("Escape")
        expect(page.locator("#job-acts [data-act=resume]")).to_be_focused()


def test_a_run_by_hand_says_how_it_ended(browser: Browser, site: Served) -> None:
    """The dialog closes at once; the end is told when it comes, and the run is in the history with its note."""
    with opened(browser, f"{site.url}#job/digest") as page:
        page.get_by_role("button", name="Run now").click()
        page.locator("#confirm").click()
        expect(page.locator("#job-now")).to_contain_text("running")
        site.may_end.set()
        expect(page.locator("#notices")).to_contain_text('"digest" succeeded')
        expect(page.locator("#runs [role=row]").nth(1)).to_contain_text(re.compile("by hand.*1,204 mails"))


def test_a_job_that_is_open_follows_its_runs(browser: Browser, site: Served) -> None:
    """What is told of a run that ends soon after its claim is not what was read before its end."""
    with opened(browser, f"{site.url}#job/digest") as page:
        page.get_by_role("button", name="Run now").wait_for()
        site.claim()
        expect(page.locator("#job-now")).to_contain_text("running")
        expect(page.locator("#words")).to_contain_text("has held it since")
        site.let_go()
        expect(page.locator("#runs [role=row]").nth(1)).to_contain_text(re.compile("succeeded.*1,204 mails"))
        expect(page.locator("#job-strip .ran")).to_have_count(1)


def test_a_job_says_what_it_does_and_whose_it_is(browser: Browser, site: Served) -> None:
    """Above all else, with a link to its runbook, if that is one; and of its options those that are no defaults."""
    about = {"description": "Sends the digest.", "owner": "mail", "runbook": "https://wiki.example.com/digest"}
    for field, value in {**about, "retries": 3}.items():
        site.rtdb.set(f"/cron-jobs/digest/{field}", value)
    site.rtdb.set("/cron-jobs/invoices/owner", "<b>sales</b>")
    site.rtdb.set("/cron-jobs/invoices/runbook", "javascript:alert(1)")
    with opened(browser, f"{site.url}#job/digest") as page:
        expect(page.locator("#job-about")).to_have_text("Sends the digest.Owner: mail · Runbook")
        expect(page.locator("#job-about a")).to_have_attribute("href", about["runbook"])
        expect(page.locator("#options")).to_contain_text("retries3")
        expect(page.locator("#options")).not_to_contain_text("grace")
        expect(page.locator("#defaults")).to_be_visible()
        page.goto(f"{site.url}#job/invoices")
        expect(page.locator("#job-about")).to_have_text("Owner: <b>sales</b>")
        assert page.locator("#job-about a, #job-about b").count() == 0


def test_who_may_only_look_sees_no_buttons(browser: Browser, rtdb: Rtdb) -> None:
    """Neither in a job nor beside the locks, and the page says why. Of a lock it says who has paused it."""
    rtdb.set("/cron-locks/plain", {**LOCK, "paused": True, "pausedBy": "ops@example.com", "pausedWhy": "the move"})
    with (
        served(rtdb, access=lambda visitor: Access("guest")) as site,
        opened(browser, f"{site.url}#job/digest") as page,
    ):
        expect(page.locator("#options")).to_contain_text("shop.jobs:digest")
        expect(page.locator("#who")).to_contain_text("may look, not act")
        page.get_by_role("link", name="Locks").click()
        expect(page.locator("#v-locks")).to_contain_text("Paused by ops@example.com: the move.")
        assert page.locator("main [data-act]:not([hidden])").count() == 0


def test_the_keyboard_reaches_everything(browser: Browser, site: Served) -> None:
    """`/` filters, Tab walks, Enter opens, the address goes back; what has the focus is outlined."""
    with opened(browser, site.url) as page:
        is_live(page)
        page.keyboard.press("/")
        expect(page.locator("#filter")).to_be_focused()
        page.keyboard.type("2 o")
        expect(page.locator("#nothing")).to_contain_text("No job matches")
        page.locator("#filter").fill("0 d")
        site.pause()
        expect(row(page, "digest").locator(".now")).to_contain_text("paused")
        expect(page.locator(".jobs .name:visible")).to_have_text(["cleanup", "digest"])
        for _ in ("the order", "by service", "hold", "cleanup", "the acts on it", "digest"):
            page.keyboard.press("Tab")
        name = row(page, "digest").locator(".name")
        expect(name).to_be_focused()
        assert page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle") == "solid"
        page.keyboard.press("Enter")
        expect(page.locator("#job-name")).to_be_focused()
        page.locator("#job-strip .strip").focus()
        page.keyboard.press("ArrowLeft")
        page.go_back()
        expect(name).to_be_focused()
        expect(page.locator("#filter")).to_have_value("0 d")
        expect(row(page, "invoices")).to_be_hidden()


def test_a_warning_is_told_whatever_the_verdict(browser: Browser, site: Served) -> None:
    """Of a job that is as it should be, and of a paused one: in its row and on its page."""
    site.pause()
    told = requests.get(f"{site.url}api/jobs", timeout=10).json()
    for job in told["jobs"]:
        job.update({"warning": True, "why": "two revisions differ"})
    with opened(browser, "about:blank", allowed="404") as page:
        page.route("**/api/events", lambda route: route.fulfill(status=404))
        page.route("**/api/jobs", lambda route: route.fulfill(json=told))
        page.goto(site.url)
        expect(page.locator("#sentence")).to_have_text("3 jobs, all as they should be; 3 worth a look")
        expect(row(page, "cleanup").locator(".now.hot")).to_have_text("worth a looktwo revisions differ")
        expect(row(page, "digest").locator(".now.hot")).to_have_text("pausedtwo revisions differResume digest")
        row(page, "digest").locator(".name").click()
        expect(page.locator("#job-why")).to_have_text("two revisions differ")


def test_a_phone_shows_a_run_without_a_jump(browser: Browser, site: Served) -> None:
    """The rows stay where they are when a run begins and ends. A finger covers many ticks of a strip, so a tap on it
    opens the list, which has the tick that did not run and why.
    """
    slot = "2026-11-18T09:00:00Z"
    site.rtdb.set(f"/cron-runs/invoices/{slot}", {"outcome": "missed", "slot": slot})
    with opened(browser, site.url, width=320, touch=True) as page:
        is_live(page)
        strip, now = row(page, "invoices").locator(".strip"), row(page, "digest").locator(".now")
        expect(strip.locator(".miss")).to_have_count(1)
        place = strip.bounding_box()
        assert place is not None
        assert place["height"] >= 24
        site.claim()
        expect(now).to_have_text(re.compile("^running"))
        assert strip.bounding_box() == pytest.approx(place, abs=1)
        requests.post(f"{site.url}api/jobs/digest/cancel", json={}, headers=OWN, timeout=10)
        expect(now).to_contain_text("asked to stop")
        strip.tap()
        expect(page.locator("#runs [role=row]").nth(1)).to_contain_text(
            re.compile("missed.*no instance claimed it in time")
        )
        expect(page.locator("#tip")).to_be_hidden()


def test_a_strip_has_each_tick_at_its_place(browser: Browser, rtdb: Rtdb) -> None:
    """The run under way stands before the ticks that came behind it, and each says why it did not run. A click on it
    leads to its row, which has its steps.
    """
    minute = 60_000
    now = int(time.time() * 1000) // minute * minute
    slots = [to_text(now - back * minute) for back in (6, 5, 4, 3)]
    declare(rtdb, "import", "* * * * *", since=now - 6 * minute - 1)
    runs = {slot: {"outcome": "succeeded", "slot": slot, "durationMs": 900, "attempt": 1} for slot in slots[:3]}
    rtdb.set("/cron-runs/import", runs)
    held = {**LOCK, "slot": slots[3], "unfinished": slots[3], "acquiredAt": now - 3 * minute, "releasedAt": None}
    rtdb.set("/cron-locks/import", {**held, "expiresAt": now + 60 * minute})
    rtdb.set(f"/cron-steps/import/{slots[3]}/download", {"startedAt": now, "attempt": 1, "fence": 7})
    with served(rtdb, jobs=()) as site, opened(browser, f"{site.url}#job/import") as page:
        strip, behind = page.locator("#job-strip .strip"), page.locator("#runs [role=row]").nth(2)
        expect(strip).to_have_attribute(
            "aria-label", re.compile(r"^Last \d ticks: 3 succeeded, 1 running, [34] skipped$")
        )
        expect(behind).to_contain_text(re.compile(r"^skipped .[34].*the run of [\d:]+ holds the lock$"))
        box = strip.bounding_box()
        assert box is not None
        ticks = len(runs) + 1 + int(re.findall("skipped .(.)", behind.inner_text())[0])
        strip.hover(position={"x": box["width"] * (50 - ticks + 3.5) / 50, "y": 9})
        expect(page.locator("#tip")).to_contain_text("running")
        page.evaluate("() => document.dispatchEvent(new Event('scroll'))")
        expect(page.locator("#tip")).to_be_hidden()
        strip.click(position={"x": box["width"] * (50 - ticks + 3.5) / 50, "y": 9})
        running = page.locator("#runs [role=row]").nth(1)
        expect(running).to_be_focused()
        expect(running).to_contain_text(re.compile("1 step.*download under way"))


def test_a_traceback_comes_when_somebody_asks(browser: Browser, site: Served) -> None:
    """It is a text, whatever it holds; of a run without one the page says so."""
    slots = [to_text(1794992400000 + number * 86_400_000) for number in range(2)]
    failed = {"outcome": "failed", "error": "ValueError: no", "attempt": 1}
    site.rtdb.set("/cron-runs/digest", {slot: {**failed, "slot": slot} for slot in slots})
    site.rtdb.set(f"/cron-errors/digest/{slots[1]}", f"Traceback:\n  {HIDDEN}\nValueError: no")
    with opened(browser, f"{site.url}#job/digest") as page:
        with page.expect_request("**/tracebacks/*") as asked:
            page.get_by_text("Traceback").first.click()
        assert asked.value.url.endswith(slots[1].replace(":", "%3A"))
        expect(page.locator("#runs pre").first).to_contain_text("<img src=x onerror=alert(1)> left")
        page.get_by_text("Traceback", exact=True).nth(1).click()
        expect(page.locator("#runs pre").nth(1)).to_have_text("No traceback is kept of this run.")


def test_equal_errors_fold(browser: Browser, site: Served) -> None:
    """The newest in full, with how many there are and since when, and the first; the others when somebody asks, and
    they stay open when another run comes.
    """
    at = 1794992400000
    for number in range(6):
        slot = to_text(at + number * 86_400_000)
        error = "no route to host" if number else "another error"
        site.rtdb.set(f"/cron-runs/digest/{slot}", {"outcome": "failed", "slot": slot, "error": error, "attempt": 1})
    with opened(browser, f"{site.url}#job/digest") as page:
        rows = page.locator("#runs > [role=row]:not(.labels)")
        expect(rows).to_have_count(4)
        expect(rows.nth(0)).to_contain_text(re.compile("no route to host .5 since .*19 Nov|Thu"))
        expect(rows.nth(2)).to_contain_text("no route to host")
        expect(rows.nth(3)).to_contain_text("another error")
        page.get_by_text("3 runs like these").click()
        expect(rows.nth(1).locator("[role=row]")).to_have_count(3)
        site.claim()
        expect(page.locator("#job-now")).to_contain_text("running")
        expect(rows.nth(0)).to_contain_text("running")
        expect(rows.nth(2).locator("[role=row]")).to_have_count(3)


def test_those_in_need_are_counted_and_on_top(browser: Browser, site: Served) -> None:
    """The sentence and the title say how many jobs need a hand. Their rows come first, and go back once they don't."""
    with opened(browser, site.url) as page:
        names = page.locator("#list .name")
        expect(names).to_have_text(["cleanup", "digest", "invoices"])
        for need, name in enumerate(("invoices", "digest"), 1):
            site.rtdb.set(f"/cron-locks/{name}", {**LOCK, "outcome": "failed", "failures": 1})
            expect(page.locator("#sentence")).to_have_text(f"3 jobs, {need} need{'s' if need == 1 else ''} a hand")
            expect(page).to_have_title(re.compile(rf"^\({need}\) "))
        expect(names).to_have_text(["digest", "invoices", "cleanup"])
        site.rtdb.set("/cron-locks/digest", LOCK)
        expect(names).to_have_text(["invoices", "cleanup", "digest"])


def test_the_labels_of_a_strip_stand_apart(browser: Browser, rtdb: Rtdb) -> None:
    """The first tick at the left, the longest run in the middle, the newest tick at the right."""
    with served(rtdb, jobs=()) as site:
        seed(rtdb, SAMPLES[:1], in_need=False)
        with opened(browser, f"{site.url}#job/{SAMPLES[0].name}", width=360) as page:
            expect(page.locator("#scale > *")).to_have_count(3)
            ends = "all => all.map(one => one.getBoundingClientRect()).flatMap(({ left, right }) => [left, right])"
            places = page.locator("#scale > *").evaluate_all(ends)
            left, right = page.locator("#job-strip .strip").evaluate_all(ends)
            assert (places[0], places[-1]) == (pytest.approx(left, abs=1), pytest.approx(right, abs=1))
            assert min(places[2] - places[1], places[4] - places[3]) > 10


def test_the_acts_of_a_row_are_in_a_menu(browser: Browser, site: Served) -> None:
    """By keyboard alone: it opens with the first act, the arrows go round, Escape and a choice give the focus back."""
    with opened(browser, site.url) as page:
        is_live(page)
        more = row(page, "digest").get_by_role("button", name="Acts on digest")
        more.press("Enter")
        items = page.get_by_role("menuitem")
        expect(items).to_have_text(["Run now", "Pause…"])
        for key, place in (("ArrowDown", 1), ("ArrowDown", 0), ("ArrowUp", 1), ("Home", 0), ("End", 1)):
            page.keyboard.press(key)
            expect(items.nth(place)).to_be_focused()
        page.keyboard.press("Escape")
        expect(items.first).to_be_hidden()
        expect(more).to_be_focused()
        page.keyboard.press("Enter")
        page.keyboard.press("End")
        page.keyboard.press("Enter")
        page.get_by_role("dialog", name="Pause digest").wait_for()
        page.locator("#leave").click()
        expect(more).to_be_focused()
        assert page.url == site.url  # a press of a button opens no job


def test_a_missed_tick_is_run_from_its_row(browser: Browser, site: Served) -> None:
    """The row that needs a hand has the act as its button; the dialog names the tick, and the job is well again."""
    old = int(time.time() * 1000) - 3 * 86_400_000
    site.rtdb.set("/cron-jobs/digest/since", old)
    with opened(browser, site.url) as page:
        button = row(page, "digest").get_by_role("button", name="Run the missed tick of")
        button.click()
        dialog = page.get_by_role("dialog")
        expect(dialog.locator("#dialog-name")).to_have_text("digest")
        expect(dialog.get_by_role("button")).to_have_text(["Keep it as it is", "Run the tick"])
        page.locator("#confirm").click()
        expect(row(page, "digest").locator(".now")).to_contain_text("running")
        site.may_end.set()
        expect(page.locator("#notices")).to_contain_text('"digest" succeeded')
        expect(page.locator("#sentence")).to_have_text("3 jobs, all as they should be")
        expect(button).to_have_count(0)


def test_a_refused_act_says_why_in_the_pages_words(browser: Browser, site: Served) -> None:
    """Somebody else was faster; and a pause of a while needs its end."""
    failed = {**LOCK, "outcome": "failed", "failures": 1}
    site.rtdb.set("/cron-locks/digest", failed)
    with opened(browser, f"{site.url}#job/digest", allowed="409") as page:
        page.get_by_role("button", name="Pause until…").click()
        page.get_by_label("Until").fill("")
        page.locator("#confirm").click()
        expect(page.locator("#complaint")).to_have_text("Until when?")
        page.locator("#leave").click()
        page.locator("#job-acts").get_by_role("button", name="Run again").click()
        expect(page.get_by_role("dialog")).to_contain_text("What its steps have recorded is not done again.")
        page.locator("#confirm").click()
        expect(page.locator("#notices")).to_contain_text('"digest" is not resumed: the history has no run of')


def test_a_job_that_was_taken_out_is_forgotten(browser: Browser, site: Served) -> None:
    """It looks like what destroys, and is gone from the page."""
    declare(site.rtdb, "gone", service="shop")
    with opened(browser, f"{site.url}#job/gone", allowed="404") as page:
        page.get_by_role("button", name="Forget…").click()
        expect(page.locator("#confirm")).to_have_class("danger primary")
        page.locator("#confirm").click()
        expect(page.locator("#notices")).to_contain_text("gone is forgotten; its lock and its history stay")
        expect(page.locator("#sentence")).to_have_text("3 jobs, all as they should be")
        expect(page.locator("#retired")).to_be_hidden()
