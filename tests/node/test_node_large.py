"""Values of many frames, between the JavaScript SDK and the database."""

from __future__ import annotations

from tests.node.conftest import Play

from rtdb_emulator.pytest_plugin import Rtdb

LETTERS = 2_000_000
FRAME = 16_384


def test_two_megabytes_go_there_and_back(play: Play, rtdb: Rtdb) -> None:
    """A value of 2 MB is written in one piece, heard by a listener, and read by another client."""
    assert play("large.text", letters=LETTERS) == {"heard": True, "read": True}
    assert rtdb.get("/text") == "x" * (LETTERS - 1) + "é"


def test_no_seam_of_frames_tears_a_character(play: Play, rtdb: Rtdb) -> None:
    """Characters of one, two, three and four bytes arrive whole, wherever the frames that bring them are cut."""
    values = {
        f"{name}-{shift}": "x" * shift + character * (2 * FRAME)
        for name, character in (("two", "é"), ("three", "漢"), ("four", "🏠"))
        for shift in range(4)
    }
    rtdb.set("/", values)
    assert play("large.seams", values=values) == []


def test_what_the_client_cuts_is_put_together(play: Play, rtdb: Rtdb) -> None:
    """Characters of up to three bytes that a client sends in several frames are stored whole, whatever the lengths."""
    # Around the limit of a frame and of two, and a count of one digit more.
    lengths = [FRAME + more for more in (-60, -30, -1, 0, 1, FRAME, 99_999 - FRAME)]
    values = {
        f"{name}-{length}": character * length
        for name, character in (("two", "é"), ("three", "漢"))
        for length in lengths
    }
    play("large.sent", values=values)
    assert rtdb.get() == values
