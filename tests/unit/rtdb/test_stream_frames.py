"""Server-Sent Events taken apart, and the copy of a node that they keep up to date."""

from __future__ import annotations

import pytest

from firecron.errors import Unavailable
from firecron.rtdb.stream import Copy, Frame, Frames

TEXT = (
    b'event: put\ndata: {"path":"/","data":null}\n\n'
    b": a comment\r\nevent: keep-alive\r\ndata: null\r\n\r\n"
    b"id: 7\nevent: patch\ndata: one\ndata:two\n\n\n"
    b"event: cancel\n\n"
)
FRAMES = [
    Frame("put", b'{"path":"/","data":null}'),
    Frame("keep-alive", b"null"),
    Frame("patch", b"one\ntwo"),
    Frame("cancel", b""),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1_000])
def test_frames_are_found_however_the_text_is_cut(size: int) -> None:
    """A frame ends with an empty line, in whatever pieces it arrives. Comments and unknown fields say nothing."""
    frames = Frames()
    found = [frame for at in range(0, len(TEXT), size) for frame in frames.feed(TEXT[at : at + size])]
    assert found == FRAMES


def test_a_frame_without_its_end_is_none() -> None:
    """What is cut in the middle of an event is not passed on."""
    frames = Frames()
    assert frames.feed(b'event: put\ndata: {"path":"/","da') == []
    assert frames.feed(b'ta":1}\n') == []
    assert frames.feed(b"\n") == [Frame("put", b'{"path":"/","data":1}')]


def test_a_line_without_an_end_is_refused() -> None:
    """A server that sends a line without an end fills no memory."""
    frames = Frames()
    for _ in range(32):
        assert frames.feed(b"x" * 1_000_000) == []
    with pytest.raises(Unavailable, match="a line of more than 32000000 bytes"):
        frames.feed(b"x")


@pytest.mark.parametrize(
    ("before", "path", "value", "after"),
    [
        (None, "/", {"a": 1}, {"a": 1}),
        ({"a": 1}, "/", None, None),
        ({"a": 1}, "/b/c", 2, {"a": 1, "b": {"c": 2}}),
        ({"a": 1, "b": {"c": 2}}, "/b/c", None, {"a": 1}),
        ({"b": {"c": 2}}, "/b/c", None, None),
        ({"a": 1}, "/x/y", None, {"a": 1}),
        ({"a": 1}, "/a/b", None, {"a": 1}),
        ({"a": 1}, "/a/b", 2, {"a": {"b": 2}}),
        ("leaf", "/", "other", "other"),
        ({"a": [1, None, 3]}, "/a/1", 2, {"a": [1, 2, 3]}),
        ({"a": {"5": 1}}, "/a/0", 1, {"a": {"5": 1, "0": 1}}),
        (["x", "y"], "/0", None, [None, "y"]),
        ({"a": {"01": 1}}, "/b", {}, {"a": {"01": 1}}),
        ({"a": False}, "/b", [], {"a": False}),
    ],
)
def test_a_copy_is_what_a_read_returns(before: object, path: str, value: object, after: object) -> None:
    """A value that is put replaces what is there; nothing empty stays; arrays are shown as RTDB shows them."""
    copy = Copy()
    copy.put("/", before)
    assert copy.node == before
    copy.put(path, value)
    assert copy.node == after


def test_a_patch_replaces_the_children_that_it_names() -> None:
    """The keys of a patch may be paths below its own, and None deletes."""
    copy = Copy()
    copy.put("/", {"a": 1, "b": {"c": 2, "d": 3}})
    copy.patch("/", {"a": None, "b/c": 4, "e": {"f": 5}})
    assert copy.node == {"b": {"c": 4, "d": 3}, "e": {"f": 5}}
    copy.patch("/b", {"c": None, "d": None})
    assert copy.node == {"e": {"f": 5}}
