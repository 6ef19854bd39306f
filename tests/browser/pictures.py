"""Take the pictures of the page for the documentation, docs/pictures/page-*.png: `make screenshots`.

A real page shows a database that is made up (`fleet.py`). The times in the pictures are those of the moment.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Final, Literal

from playwright.sync_api import Browser, ViewportSize, expect, sync_playwright
from tests.browser.fleet import SAMPLES, seed
from tests.browser.served import served

from rtdb_emulator import Emulator
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.browsers import FLAGS
from rtdb_emulator_tests.helpers.chromium import FOLDER, find, problem

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"
SIZE: Final[ViewportSize] = {"width": 1280, "height": 720}
# The Chromium of `make browser` brings one typeface, so that pictures look alike on all machines.
_FONTS = """<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>
<dir>{fonts}</dir><dir>/usr/share/fonts</dir><cachedir>{cache}</cachedir>
<match target="pattern"><test name="family"><string>system-ui</string></test>
<edit name="family" mode="assign" binding="strong"><string>Open Sans</string></edit></match></fontconfig>"""


def main() -> None:
    chromium = find()
    if why := problem(chromium):
        sys.exit(why)
    with tempfile.TemporaryDirectory() as folder, Emulator() as emulator, sync_playwright() as playwright:
        fonts = Path(folder, "fonts.conf")
        fonts.write_text(_FONTS.format(fonts=FOLDER / "fonts", cache=folder), "utf-8")
        rtdb = Rtdb(emulator, "orders")
        os.environ["FIREBASE_DATABASE_EMULATOR_HOST"] = f"127.0.0.1:{emulator.port}"
        os.environ["FIRECRON_DATABASE_URL"] = rtdb.url
        with served(rtdb, name="fx-rates", jobs=()) as site:
            seed(rtdb, SAMPLES)
            environment: dict[str, str | float | bool] = {**os.environ, "FONTCONFIG_FILE": str(fonts)}
            browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS), env=environment)
            schemes: tuple[Literal["light"], Literal["dark"]] = ("light", "dark")
            for scheme in schemes:
                _take(browser, site.url, f"overview-{scheme}", scheme)
                _take(browser, f"{site.url}#job/fx-rates", f"job-{scheme}", scheme)
            browser.close()


def _take(browser: Browser, url: str, name: str, scheme: Literal["light", "dark"]) -> None:
    context = browser.new_context(viewport=SIZE, color_scheme=scheme, reduced_motion="reduce", timezone_id="UTC")
    page = context.new_page()
    page.goto(url)
    expect(page.locator("#live")).to_have_text("live")
    shown = page.locator("#runs .glyph" if "#" in url else ".strip .ran")
    expect(shown.nth(8)).to_be_visible()
    file = PICTURES / f"page-{name}.png"
    page.screenshot(path=file)
    context.close()
    print(f"{file.name}: {file.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
