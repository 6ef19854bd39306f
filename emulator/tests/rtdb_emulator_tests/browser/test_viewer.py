"""The emulator's own page in a real browser: what it shows is what the database has, and the other way round."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from rtdb_emulator.emulator import Emulator
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.browsers import opened
from rtdb_emulator_tests.helpers.wire import OWNER, call

Open: TypeAlias = Callable[..., AbstractContextManager[Page]]

LOCK = {
    "acquiredAt": 1794992400123,
    "expiresAt": 1794992460123,
    "holder": "fd8vTbinVRUGgjv7",
    "instanceId": "api-v3-00042-abcdefghijkl",
    "slot": "2026-11-18T09:00:00Z",
}
HIDDEN = "left \u202e right\u202c\u0007\n<b>bold</b>"


@pytest.fixture
def viewer(browser: Browser, rtdb: Rtdb) -> Open:
    """Opens the page of the test's own database, and waits until it is live."""

    @contextmanager
    def view(path: str = "/", view: str = "", **options: Any) -> Iterator[Page]:
        query = urlencode({"ns": rtdb.namespace, "path": path, "view": view})
        with opened(browser, f"{rtdb.emulator.url}/?{query}", **options) as page:
            expect(page.locator("#status")).to_have_text("live")
            expect(page.locator("#tree .value").first).not_to_be_empty() if view != "console" else None
            yield page

    return view


def row(page: Page, key: str) -> Locator:
    """The row of the first node with this key."""
    return page.locator(".row", has=page.locator(".key bdi", has_text=key)).first


def fill(page: Page, type_: str, value: str) -> None:
    """Say in the dialog what is to be written, and send it."""
    page.get_by_label("Type").select_option(type_)
    value_field = page.locator("#truth") if type_ == "boolean" else page.locator("#value")
    value_field.select_option(value) if type_ == "boolean" else value_field.fill(value)
    page.locator("#save").click()


def test_a_write_is_seen_at_once(viewer: Open, rtdb: Rtdb) -> None:
    """Over REST, in a node that is open, and one that appears or goes."""
    rtdb.set("/jobs", {"digest": {"runs": 1}})
    with viewer("/jobs") as page:
        row(page, "digest").locator(".twisty").click()
        expect(row(page, "runs").locator(".value")).to_have_text("1")
        call(rtdb, "PUT", "/jobs/digest/runs.json", "2")
        expect(row(page, "runs").locator(".value")).to_have_text("2")
        call(rtdb, "PATCH", "/jobs.json", '{"report":{"runs":7},"digest":null}')
        expect(row(page, "report").locator(".value")).to_contain_text("runs 7")
        expect(row(page, "runs")).to_have_count(0)


def test_an_edit_writes_what_was_typed(viewer: Open, rtdb: Rtdb) -> None:
    """A number keeps all its digits, a text its lines; an object is edited as JSON."""
    rtdb.set("/a", {"number": 1, "text": "x", "object": {"b": 1}})
    with viewer("/a") as page:
        for key, type_, value in (
            ("number", "number", "9007199254740993"),
            ("text", "string", "two\nlines"),
            ("object", "json", '{"b": [true, 1.5]}'),
        ):
            row(page, key).click()
            page.get_by_role("button", name="Edit").click()
            fill(page, type_, value)
            expect(page.locator("dialog")).to_be_hidden()
        expect(row(page, "number").locator(".value")).to_have_text("9007199254740993")
        assert rtdb.get("/a") == {"number": 9007199254740993, "text": "two\nlines", "object": {"b": [True, 1.5]}}


def test_an_edit_overwrites_nothing_that_was_not_seen(viewer: Open, rtdb: Rtdb) -> None:
    """What has changed meanwhile is shown, and replaced only by saving again."""
    rtdb.set("/a", 1)
    with viewer("/") as page:
        row(page, "a").dblclick()
        page.locator("#value").wait_for()
        rtdb.set("/a", 2)
        fill(page, "number", "3")
        expect(page.locator("#complaint")).to_contain_text("is now 2")
        assert rtdb.get("/a") == 2
        page.locator("#save").click()
        expect(page.locator("dialog")).to_be_hidden()
        assert rtdb.get("/a") == 3


def test_a_changed_object_is_shown_in_lines(viewer: Open, rtdb: Rtdb) -> None:
    """An object that has changed under an edit is shown as JSON in lines; hidden characters in it stay spelled out."""
    rtdb.set("/a", {"b": 1})
    with viewer("/") as page:
        row(page, "a").click()
        page.get_by_role("button", name="Edit").click()
        page.locator("#value").wait_for()
        rtdb.set("/a", {"b": 2, "c": "\u202e"})
        fill(page, "json", '{"b": 3}')
        expect(page.locator("#complaint pre")).to_have_text('{\n  "b": 2,\n  "c": "\\u202e"\n}', use_inner_text=True)
        page.locator("#save").click()
        expect(page.locator("dialog")).to_be_hidden()
        assert rtdb.get("/a") == {"b": 3}


def test_equal_operations_are_one_row(viewer: Open, rtdb: Rtdb) -> None:
    """Operations that follow each other and say the same are one row with their number; an admin's are named so."""
    for _ in range(3):
        call(rtdb, "GET", "/a.json", None, OWNER)
    with viewer("/") as page:
        top = page.locator("#operation-list > li").first
        expect(top.locator(".asked")).to_contain_text("GET/a \u00d73allowed by admin")
        call(rtdb, "GET", "/a.json", None, OWNER)
        expect(top.locator(".asked")).to_contain_text("GET/a \u00d74allowed by admin")
        expect(page.locator("#operation-list > li")).to_have_count(1)
        call(rtdb, "GET", "/a.json")
        expect(top.locator(".detail")).to_have_text("by a client not signed in")
        expect(page.locator("#operation-list > li")).to_have_count(2)


def test_the_page_and_the_rules_coverage_lead_to_each_other(viewer: Open, rtdb: Rtdb) -> None:
    """One click leads from the data to the marked text of the database's rules, and one back."""
    rtdb.set_rules('{"rules": {".read": "auth != null"}}')
    call(rtdb, "GET", "/a.json")
    with viewer("/") as page:
        page.get_by_role("link", name="rules and coverage").click()
        expect(page.locator("mark.half", has_text="auth")).to_have_text('"auth != null"')
        page.get_by_role("link", name="the data and the operations").click()
        expect(page.locator("#status")).to_have_text("live")
        expect(page.locator("#database")).to_have_value(rtdb.namespace)


def test_what_can_not_be_shown_or_edited_is_explained(viewer: Open, rtdb: Rtdb) -> None:
    """A path that no node can have, one without a node, and a value too large for an editor."""
    rtdb.set("/many", {f"k{number}": 1 for number in range(6_000)})
    with viewer("/many") as page:
        page.get_by_role("button", name="Edit").click()
        expect(page.locator("#complaint")).to_contain_text("6,000 children")
        expect(page.locator("#save")).to_be_disabled()
        page.keyboard.press("Escape")
        for path, text in (("/a.b", "Invalid token"), ("/none", "nothing at this path")):
            page.goto(f"{rtdb.emulator.url}/?ns={rtdb.namespace}&path={path}")
            expect(page.locator("#hint")).to_contain_text(text)


def test_a_child_is_added_and_deleted(viewer: Open, rtdb: Rtdb) -> None:
    """As an operator pauses a job: a boolean; what is there already is not replaced, and what can't be is explained."""
    rtdb.set("/cron-locks/digest", LOCK)
    with viewer("/cron-locks/digest") as page:
        page.get_by_role("button", name="Add").click()
        page.get_by_label("Key").fill("a/b")
        fill(page, "boolean", "true")
        expect(page.locator("#complaint")).to_contain_text("A key has")
        page.get_by_label("Key").fill("holder")
        page.locator("#save").click()
        expect(page.locator("#complaint")).to_contain_text("already")
        page.get_by_label("Key").fill("paused")
        page.locator("#save").click()
        expect(row(page, "paused").locator(".value")).to_have_text("true")
        assert rtdb.get("/cron-locks/digest") == {**LOCK, "paused": True}
        row(page, "paused").click()
        page.get_by_role("button", name="Delete").click()
        expect(page.locator("#editor-path")).to_have_text("/cron-locks/digest/paused")
        page.locator("#save").click()
        expect(row(page, "paused")).to_have_count(0)
        assert rtdb.get("/cron-locks/digest") == LOCK
        expect(row(page, "digest").locator("..")).to_have_attribute("aria-selected", "true")


def test_markup_and_marks_of_direction_are_text(viewer: Open, rtdb: Rtdb) -> None:
    """In keys, values, paths and operations; what would be invisible is spelled out."""
    rtdb.set("/", {"<img src=x onerror=alert(1)>": HIDDEN, "\u202eesrever": 1})
    with viewer() as page:
        expect(row(page, "<img").locator(".value")).to_have_text(
            "\u201cleft \\u202e right\\u202c\\u0007\\n<b>bold</b>\u201d"
        )
        expect(row(page, "esrever").locator(".key")).to_have_text("\\u202eesrever")
        row(page, "<img").click()
        expect(page.locator("#crumbs a").last).to_have_text("<img src=x onerror=alert(1)>")
        call(rtdb, "PUT", "/%3Cimg%20src=x%20onerror=alert(1)%3E.json", '"<script>"', OWNER)
        expect(page.locator("#operation-list .path").first).to_contain_text("<img src=x")
        expect(row(page, "<img").locator(".value")).to_have_text("\u201c<script>\u201d")
        assert page.locator("main img, main b, main script").count() == 0


def test_ten_thousand_children_are_usable(viewer: Open, rtdb: Rtdb) -> None:
    """They are shown a page at a time, and reached by their key; an open page follows what changes on it."""
    rtdb.set("/orders", {f"order-{number:05}": {"total": number} for number in range(10_000)})
    with viewer("/orders") as page:
        where = page.locator(".pager .where")
        expect(where).to_have_text("1 to 100 of 10,000")
        page.get_by_label("Next children").click()
        expect(where).to_have_text("101 to 200 of 10,000")
        expect(row(page, "order-00100")).to_be_visible()
        page.get_by_label("Last children").click()
        expect(where).to_have_text("9,901 to 10,000 of 10,000")
        page.get_by_label("Show the children from this key on").fill("order-04321")
        page.keyboard.press("Enter")
        expect(where).to_have_text("4,322 to 4,421 of 10,000")
        rtdb.set("/orders/order-04321a", {"total": "new"})
        expect(row(page, "order-04321a").locator(".value")).to_contain_text("new")
        expect(where).to_have_text("4,322 to 4,421 of 10,001")
        assert page.locator("*").count() < 2_000


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_phone(viewer: Open, rtdb: Rtdb, dark: bool) -> None:
    """At 360 pixels nothing is cut off sideways, in either scheme; the ground is dark in the dark one."""
    rtdb.set("/", {"k" * 300: "v" * 300, "cron-locks": {"digest": LOCK}, "many": {f"k{n}": 1 for n in range(200)}})
    with viewer("/", width=360, dark=dark) as page:
        call(rtdb, "PUT", f"/{'p' * 300}.json", "1")
        row(page, "many").locator(".twisty").click()
        expect(page.locator(".pager")).to_be_visible()
        row(page, "kkk").click()
        for pane in ("Operations", "Data"):
            page.get_by_role("button", name=pane).click()
            expect(page.get_by_label(pane, exact=True).first).to_be_visible()
            assert page.evaluate("() => document.documentElement.scrollWidth") == 360
            assert page.evaluate("() => document.body.scrollHeight <= innerHeight")
        page.get_by_role("button", name="Edit").click()
        page.locator("dialog").wait_for()
        box = page.locator("dialog").bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360
        ground = page.evaluate("() => getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        assert (max(ground) < 64) == dark


def test_the_preset_shows_what_the_console_shows(viewer: Open, rtdb: Rtdb) -> None:
    """Children closed and without their values, keys sorted, long texts cut, nothing added."""
    rtdb.set("/cron-locks", {"report": LOCK, "digest": LOCK})
    with viewer() as page:
        page.get_by_label("view").select_option("cron-locks")
        expect(page.locator(".row .key")).to_have_text(["cron-locks", "digest", "report"])
        expect(page.locator(".row .value")).to_have_text(["", "", ""])
        row(page, "digest").locator(".twisty").click()
        expect(row(page, "holder").locator(".value")).to_have_text("\u201cfd8vTbinVRUGgjv7\u201d")
        expect(row(page, "instanceId").locator(".value")).to_have_text("\u201capi-v3-00042-abcdefghij…\u201d")
        expect(row(page, "acquiredAt").locator(".value")).to_have_text("1794992400123")
        assert page.locator(".row .key").all_text_contents()[2:7] == sorted(LOCK)
        assert "view=console" in page.url
        page.get_by_label("view").select_option("tree")
        expect(row(page, "digest").locator(".value")).to_contain_text("holder fd8vTbinVRUGgjv7")


def test_databases_can_be_switched(viewer: Open, rtdb: Rtdb) -> None:
    """One that is made appears, and is shown when it is chosen; the address says which."""
    other = f"{rtdb.namespace}-other"
    with viewer() as page:
        expect(page.locator("#hint")).to_have_text("This database is empty.")
        rtdb.emulator.set(other, "/here", True)
        page.get_by_label("database").select_option(other)
        expect(row(page, "here").locator(".value")).to_have_text("true")
        assert f"ns={other}" in page.url
        page.go_back()
        expect(page.locator("#hint")).to_be_visible()
        rtdb.emulator.drop(other)
        expect(page.locator("#database option", has_text=other)).to_have_count(0)


def test_a_denied_operation_is_shown_with_its_reason(viewer: Open, rtdb: Rtdb) -> None:
    """And what was allowed without one; the page's own writes, which come over the socket, are there as well."""
    rtdb.set_rules({"rules": {".read": True, "a": {".write": "auth.uid === 'alice'"}}})
    with viewer() as page:
        operations = page.locator("#operation-list > li")
        call(rtdb, "GET", "/a.json")
        call(rtdb, "PUT", "/a.json", "1")
        expect(operations.first.locator(".verdict")).to_have_text("denied")
        expect(operations.first.locator(".why")).to_contain_text("auth.uid = null")
        expect(operations.nth(1).locator(".asked")).to_contain_text("GET/aallowed")
        page.get_by_label("hide allowed").check()
        expect(operations.nth(1)).to_be_hidden()
        page.get_by_label("hide allowed").uncheck()
        page.get_by_role("button", name="Edit").click()
        fill(page, "json", '{"a": 2}')
        expect(operations.first.locator(".asked")).to_contain_text("PUT/allowed")


def test_it_comes_back_with_the_emulator(browser: Browser) -> None:
    """After a restart on the same port it shows what is there then, without being told to."""
    with Emulator() as emulator:
        emulator.set("shop", "/a", 1)
        with opened(browser, f"{emulator.url}/?ns=shop", allowed="ERR_CONNECTION_REFUSED") as page:
            expect(row(page, "a").locator(".value")).to_have_text("1")
            emulator.stop()
            expect(page.locator("#status")).to_contain_text("away")
            page.get_by_role("button", name="Edit").click()
            expect(page.locator("#hint")).to_have_text("The emulator is away.")
            with Emulator(port=emulator.port) as again:
                again.set("shop", "/b", 2)
                expect(row(page, "b").locator(".value")).to_have_text("2")
                expect(page.locator("#status")).to_have_text("live")
                expect(row(page, "a")).to_have_count(0)


def test_the_keyboard_reaches_everything(viewer: Open, rtdb: Rtdb) -> None:
    """Arrows walk, open and close; Enter edits; Delete asks; Escape leaves; the address follows a link."""
    rtdb.set("/", {"a": {"b": 1}, "c": 2})
    with viewer() as page:
        row(page, rtdb.namespace).click()
        for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
            expect(page.locator("[aria-selected=true]")).to_have_count(1)
            page.keyboard.press(key)
            if key == "ArrowRight":
                expect(row(page, "b")).to_be_visible()
        expect(page.locator("#crumbs")).to_have_text("/a/b")
        page.keyboard.press("Enter")
        expect(page.locator("#value")).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.locator("[aria-selected=true]")).to_be_focused()
        page.keyboard.press("Delete")
        expect(page.locator("#cancel")).to_be_focused()
        page.keyboard.press("Escape")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowLeft")
        expect(row(page, "b")).to_have_count(0)
        page.locator("#crumbs a", has_text="a").click()
        expect(row(page, "b").locator(".value")).to_have_text("1")
        assert "path=/a" in page.url
