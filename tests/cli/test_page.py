"""`firecron page`: what it refuses before it serves anything."""

from __future__ import annotations

import socket
import sys

import pytest
from tests.cli.calls import call

from rtdb_emulator.pytest_plugin import Rtdb


def refused(*arguments: str) -> str:
    """What the command says, which is wrong usage."""
    result = call("page", "--port", "0", *arguments)
    assert result.exit_code == 2, result.stderr
    return result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--host", "0.0.0.0"), "FIRECRON_PAGE_PASSWORD"),
        (("--host", "192.168.1.5", "--read-only"), "none of localhost, 127.0.0.1, ::1"),
        (("--host", "example.com"), "none of localhost"),
        (("--host", "127.0.0.2"), "none of localhost"),
        (("--host", ""), "none of localhost"),
        (("--password", "x", "--iap-audience", "/projects/1"), "two ways in"),
        (("--iap-audience", ""), "iap_audience='' is empty"),
        (("--password", ""), "a password that is not blank: give them by --user and FIRECRON_PAGE_PASSWORD"),
        (("--password", "x", "--user", "a:b"), "needs a user without a colon"),
        (("nothing.here:crons",), "there is no module"),
    ],
)
def test_what_cannot_be_served_is_refused(rtdb: Rtdb, arguments: tuple[str, ...], said: str) -> None:
    """A page that others could reach needs a way in, exactly one; an empty address would be every one. The rest is what
    is said everywhere.
    """
    assert said in refused(*arguments)


def test_a_variable_that_is_set_and_empty_opens_nothing(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """A password that came out empty is refused, also on loopback, where the page would be open without one."""
    monkeypatch.setenv("FIRECRON_PAGE_PASSWORD", "")
    assert "needs a user without a colon, and a password" in refused()


def test_a_port_that_is_taken_is_named(rtdb: Rtdb) -> None:
    """Where something else listens, the command says which port it is."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"can't listen on 127.0.0.1:{port}: Address already in use; give" in refused("--port", str(port))


def test_without_uvicorn_it_says_what_to_install(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is named that brings the server."""
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert "pip install 'firecron[page]'" in refused()
