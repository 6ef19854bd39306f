"""Each state that a job can be in, drawn in a real browser: at 360, 1280 and 2560 pixels, light and dark.

A picture is not compared with another one, since that would compare the fonts of two machines. What has to be so in
each picture is held instead: the first act of the state and what is offered beside it; nothing is wider than the
window, no text of a button is cut off, no two targets overlap or are smaller than 24 pixels, and axe finds the contrast
of each text sufficient. The picture of what fails is kept in build/pictures.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from playwright.sync_api import Browser, Page, ViewportSize, expect
from tests.browser.served import LOCK, Served, is_live, row, served
from tests.page.paging import attend, declare
from tools.browser import find_axe

from firecron.ops.holds import Holds
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.browsers import opened

PICTURES = Path(__file__).parents[2] / "build" / "pictures"
Scheme: TypeAlias = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
# Windows in which all rows are in sight: what is not, has no layout.
WINDOWS: tuple[ViewportSize, ...] = (
    {"width": 360, "height": 3_000}, {"width": 1280, "height": 1_500}, {"width": 2560, "height": 1_400},
)  # fmt: skip
HOUR = 3_600_000
SLOT = "2026-11-18T09:00:00Z"


class State(NamedTuple):
    """What is held of a state: how its row begins to say it, the act in the row, if any, the acts that are offered,
    and whether the first of them is the one to do.
    """

    said: str
    first: str
    menu: str
    is_to_do: bool = True


# The first act has its own button where somebody has to act, or, in words, what to do.
STATES = {
    "stuck": State("stuck", "Stop the run of", "Stop this run, Pause…, Mute…"),
    "deaf": State("stuck", "Unlock deaf", "Unlock…, Pause…, Mute…"),
    "running": State("running", "", "Stop this run, Pause…", False),
    "paused": State("paused until", "", "Resume"),
    "late": State("late", "Run the missed tick of", "Run the missed tick, Run now, Pause…, Mute…"),
    "unreadable": State("stuck", "Show the node", "Show the node, Mute…"),
    "failing": State("failing for", "Run the tick of", "Run again, Pause until…, Mute…"),
    "unattended": State("unattended", "Start lonely", "Forget…, Mute…", False),
    "retired": State("retired", "", "Forget…"),
    "ok": State("", "", "Run now, Pause…", False),
    # A hold is meant, and ends by itself.
    "held": State("paused until", "", "Resume", False),
    "muted": State("late", "Run the missed tick of", "Run the missed tick, Run now, Pause…, Unmute"),
}

# Returns what is wrong with the layout, in words.
LAYOUT = """() => {
  const wrong = [];
  const wide = document.documentElement.scrollWidth - innerWidth;
  if (wide > 0) wrong.push(`the page is ${wide} pixels too wide`);
  const all = [...document.querySelectorAll("button, input:not([type=checkbox]), label:has(input), select, #menu")];
  const seen = all.filter((one) => one.checkVisibility()).map((one) => [one, one.getBoundingClientRect()]);
  const say = (one, what) => wrong.push(`${(one.getAttribute("aria-label") ?? one.textContent).trim()} ${what}`);
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  seen.forEach(([one, box], index) => {
    if (Math.min(box.width, box.height) < 24) say(one, `is ${box.width} x ${box.height}`);
    const isCut = one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1;
    if (one.tagName === "BUTTON" && isCut) say(one, "is cut off");
    const place = (one.closest("[role=cell], .actions, .head") ?? document.body).getBoundingClientRect();
    const [left, right, below] = [place.left - box.left, box.right - place.right, box.bottom - place.bottom];
    if (Math.max(left, right, below) > 1) say(one, "is outside");
    for (const [other, there] of seen.slice(index + 1)) if (meet(box, there)) say(one, `lies on ${other.textContent}`);
  });
  return wrong;
}"""


# Returns of each row what it says, the act in it, and the acts in its menu.
ROWS = """() => Object.fromEntries([...document.querySelectorAll(".jobs > [role=row]:has(.name)")].map((row) => {
  const text = (selector) => row.querySelector(selector).innerText;
  row.querySelector(".more").click();
  const menu = [...document.querySelectorAll("#menu button")].map((item) => item.textContent).join(", ");
  document.querySelector("#menu").hidePopover();
  return [text(".name"), [text(".now .first"), text(".do").replace("→ ", ""), menu]];
}))"""


def fill(rtdb: Rtdb, site: Served) -> None:
    """A job in each of the states, by the nodes that make it so."""
    at = int(time.time() * 1000)
    old = at - 72 * HOUR
    for name in STATES:
        service = {"unattended": "lonely", "retired": "shop"}.get(name, "shop")
        since = old if name in ("late", "muted") else at
        declare(rtdb, name, since=since, declared_at=old, service=service)
    attend(rtdb, *(name for name in STATES if name not in ("unattended", "retired")))
    held = {**LOCK, "acquiredAt": at - 20_000, "expiresAt": at + HOUR, "fence": at, "unfinished": SLOT, "slot": SLOT}
    held = {name: value for name, value in held.items() if name not in ("releasedAt", "outcome")}
    failed = {**LOCK, "outcome": "failed", "failures": 3, "succeededSlot": "2026-11-15T09:00:00Z"}
    pause = {
        "paused": True,
        "pausedBy": "ops@example.com",
        "pausedAt": at,
        "pausedWhy": "the move",
        "pausedUntil": at + HOUR,
    }
    nodes = {
        "stuck": held, "deaf": {**held, "renews": False}, "running": held, "paused": {**LOCK, **pause},
        "unreadable": {**LOCK, "slot": "yesterday"}, "failing": failed, "ok": LOCK, "held": LOCK, "unattended": LOCK,
        "retired": LOCK,
    }  # fmt: skip
    rtdb.set("/cron-locks", nodes)
    for name in ("stuck", "deaf"):
        rtdb.set(f"/cron-jobs/{name}/expectedRuntime", 5)
    error = "ReadTimeout: rates.example.com did not reply within 10 s"
    run = {"outcome": "failed", "slot": SLOT, "error": error, "attempt": 1, "durationMs": 900, "startedAt": old}
    rtdb.set(f"/cron-runs/failing/{SLOT}", run)
    rtdb.set("/cron-mutes/muted", {"until": at + HOUR, "by": "ops@example.com", "why": "the supplier is on holiday"})
    Holds(site.crons.database).hold(datetime.now(UTC) + timedelta(hours=2), "migrating", match="held", by="ops")


@contextmanager
def pictured(page: Page, name: str) -> Iterator[None]:
    """Keep the picture of what fails in this block."""
    try:
        yield
    except BaseException as error:
        picture = PICTURES / f"{name}.png"
        PICTURES.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=picture, full_page=True)
        error.add_note(f"the picture: {picture}")
        raise


def draw(page: Page, name: str, schemes: Sequence[Scheme], has_axe: bool) -> None:
    """Draw what is shown in each window, and hold its layout; with axe also its contrast, names and roles."""
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme)
        for window in WINDOWS:
            page.set_viewport_size(window)
            with pictured(page, f"{name}-{window['width']}-{scheme}"):
                assert page.evaluate(LAYOUT) == [], (name, window, scheme)
                if has_axe and window == WINDOWS[0]:
                    found = page.evaluate("() => axe.run()")
                    assert [(one["id"], one["nodes"][0]["html"]) for one in found["violations"]] == []


def test_each_state_is_drawn_with_what_to_do(browser: Browser, rtdb: Rtdb) -> None:
    """In the overview's rows, and on the page of each job. The act of a node that nobody can claim leads to what is
    stored, with what is wrong and what to mend.
    """
    script = find_axe()
    with served(rtdb, jobs=(), name="late") as site:
        fill(rtdb, site)
        with opened(browser, site.url) as page:
            page.set_viewport_size(WINDOWS[1])
            is_live(page)
            if script is not None:
                page.evaluate(f"{script.read_text('utf-8')};0")
            with pictured(page, "overview"):
                expect(page.locator("#sentence")).to_have_text("11 jobs, 6 need a hand")
                drawn = page.evaluate(ROWS)
                for name, (said, do, menu) in drawn.items():
                    state = STATES[name]
                    assert (said[: len(state.said)], menu) == (state.said, state.menu), name
                    assert do[: len(state.first)] == state.first, name
                    assert bool(do) == bool(state.first), name
                assert {*drawn} == {*STATES}
                expect(row(page, "muted")).to_contain_text("muted by ops@example.com until")
                assert row(page, "stuck").locator(".now").inner_text().count("api-00042-kex/00bf4b") == 1
                expect(page.locator("#holds")).to_contain_text("Held by ops until")
            draw(page, "overview", SCHEMES, script is not None)
            for number, (name, state) in enumerate(STATES.items()):
                page.evaluate("name => { location.hash = `#job/${name}` }", name)
                expect(page.locator("#job-name")).to_have_text(name)
                expect(page.locator("#job-body")).to_be_visible()
                with pictured(page, name):
                    acts = page.locator("#job-acts button")
                    assert ", ".join(acts.all_inner_texts()) == state.menu
                    primary = page.locator("#job-acts .primary").all_inner_texts()
                    assert primary == state.menu.split(", ")[: state.is_to_do]
                # The first one has buttons of each kind; of the others a scheme each is enough.
                schemes = SCHEMES[number % 2 :][:1] if number else SCHEMES
                draw(page, name, schemes, script is not None and not number)
            page.locator("#back").click()
            row(page, "unreadable").get_by_role("button", name="Show the node").click()
            expect(page.locator("#raw")).to_contain_text('"slot": "yesterday"')
            expect(page.locator("#job-why")).to_contain_text("its field slot is wrong")
            expect(page.locator("#job-do")).to_contain_text(
                "Mend the node cron-locks/unreadable in the Firebase console"
            )
