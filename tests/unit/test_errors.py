"""What errors say."""

from __future__ import annotations

import pytest

from firecron.errors import CommandFailed, FirecronError, NotStarted, Stopping, StoreError, Unavailable


@pytest.mark.parametrize("kind", [FirecronError, Stopping, StoreError, Unavailable])
def test_an_error_without_a_message_says_what_to_do(kind: type[FirecronError]) -> None:
    """Its text is then the docstring of its class, as one line."""
    assert str(kind()) == " ".join((kind.__doc__ or "").split()) != ""


def test_an_error_says_what_it_was_given() -> None:
    """A message takes the place of the docstring, and a class of somebody's own without one says nothing."""

    class Own(FirecronError):
        pass

    assert [str(kind("no")) for kind in (FirecronError, Unavailable, Own)] == ["no"] * 3
    assert str(Own()) == ""


def test_a_command_that_failed_says_its_code() -> None:
    """The exit code is in the text; of one that did not start it is an attribute."""
    assert str(CommandFailed(3)) == "the command ended with exit code 3"
    missing = NotStarted("no such command", 127)
    assert (str(missing), missing.code) == ("no such command", 127)
