"""A real browser: Playwright drives a Chromium that `make browser` has found.

One Chromium serves a file of tests, in the worker that runs it. Not a whole session: as long as Playwright's
synchronous interface is open, its event loop is the thread's, and `asyncio.run` fails in every other test.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from rtdb_emulator_tests.helpers.chromium import find, problem

# The last six keep it from calling home. Each start has a folder of its own for the user's data.
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# In milliseconds. It bounds what never comes; what comes is not waited for.
PATIENCE = 20_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium; tests that need it are skipped where there is none that runs."""
    chromium = find()
    if why := problem(chromium):
        pytest.skip(why)
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))


@contextmanager
def opened(
    browser: Browser, url: str, *, width: int = 1280, dark: bool = False, touch: bool = False, allowed: str = ""
) -> Iterator[Page]:
    """A page in a profile of its own. It ends with an AssertionError if the console has an error or a breach of the
    policy; those that contain `allowed` are expected. With `touch` there is a screen to tap.
    """
    problems: list[str] = []
    scheme: Literal["light", "dark"] = "dark" if dark else "light"
    context = browser.new_context(viewport={"width": width, "height": 760}, color_scheme=scheme, has_touch=touch)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: problems.append(said.text) if said.type in ("error", "warning") else None)
    try:
        page.goto(url)
        yield page
        # What the browser has to say of the page, it says before it answers this.
        page.evaluate("() => null")
        assert [text for text in problems if not allowed or allowed not in text] == []
    finally:
        context.close()
