"""The page and its files, as they are served; what it does is in tests/browser."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest
from tests.emulator.test_rest_wire import call

from rtdb_emulator.pytest_plugin import Rtdb

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
NAMES = sorted(file.name for file in files("rtdb_emulator.viewer").joinpath("static").iterdir())
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
)


def test_a_browser_gets_the_page_and_everybody_else_what_they_got(rtdb: Rtdb) -> None:
    """What accepts HTML is a browser."""
    page = call(rtdb, "GET", "/", headers=BROWSER)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for headers in ({}, {"accept": "*/*"}, {"accept": "application/json"}):
        assert call(rtdb, "GET", "/", headers=headers).text == "rtdb-emulator is ready\n"
    assert call(rtdb, "GET", "/.json", headers=BROWSER).json() is None
    assert call(rtdb, "GET", "/a", headers=BROWSER).status_code == 404


def test_the_page_lets_nobody_else_in(rtdb: Rtdb) -> None:
    """No script, style, frame or connection of another origin; nothing is kept."""
    headers = call(rtdb, "GET", "/?path=/a", headers=BROWSER).headers
    assert headers["content-security-policy"] == POLICY
    assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_served_with_its_type(rtdb: Rtdb, name: str) -> None:
    """And with the policy of the page."""
    file = call(rtdb, "GET", f"/.inspect/viewer/{name}")
    kinds = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    assert file.status_code == 200
    assert file.headers["content-type"].startswith(kinds[name.rpartition(".")[2]])
    assert file.headers["content-security-policy"] == POLICY


def test_nothing_else_is_served(rtdb: Rtdb) -> None:
    """Neither a file beside the page's, nor a way out of their folder."""
    for path in ("viewer.py", "", "../viewer.js", "..%2f__init__.py", "static/viewer.js"):
        assert call(rtdb, "GET", f"/.inspect/viewer/{path}").status_code == 404
    assert call(rtdb, "PUT", "/.inspect/viewer/viewer.js", "1").status_code == 404


def test_the_page_is_small_and_makes_no_markup_of_data() -> None:
    """All of it has at most 60 KB, in scripts that set texts only, and load nothing from elsewhere."""
    contents = {
        file.name: file.read_text("utf-8") for file in files("rtdb_emulator.viewer").joinpath("static").iterdir()
    }
    assert sum(len(text.encode()) for text in contents.values()) <= 60_000
    for name, text in contents.items():
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|style=|https?://(?!www\.w3\.org/2000/svg)",
            text,
        ), name
