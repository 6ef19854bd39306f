"""The pictures of the documentation: files that an image may be, and what they say."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tests.docs.documents import ROOT, name
from tools.demo_svg import Line, picture, record

from firecron.demo.instance import LINE
from firecron.lock.record import FIELDS

SVG = "{http://www.w3.org/2000/svg}"
PICTURES = sorted(ROOT.glob("docs/**/*.svg"))
DEMO = ROOT / "docs" / "pictures" / "demo.svg"
ONE_TICK = ROOT / "docs" / "pictures" / "one-tick.svg"
RECORDING = [Line(0.5, "first"), Line(2.5, ""), Line(4.5, "\x1b[1;32m{second}\x1b[0m & <third>")]


def texts(svg: str) -> list[str]:
    """The words of a picture, by its text elements."""
    return ["".join(node.itertext()).replace("\xa0", " ") for node in ET.fromstring(svg).iter(f"{SVG}text")]


@pytest.mark.parametrize("path", PICTURES, ids=name)
def test_a_picture_is_complete_in_itself(path: Path) -> None:
    """A picture has a size and a title, no script, and nothing from elsewhere, which an image may not load."""
    svg = path.read_text("utf-8")
    root = ET.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    assert {"viewBox", "width"} <= set(root.attrib)
    assert root.findtext(f"{SVG}title")
    assert not [node for node in root.iter() if node.tag in (f"{SVG}script", f"{SVG}image", f"{SVG}foreignObject")]
    assert re.findall(r"https?://[^\"' )]+|@import|@font-face", svg) == ["http://www.w3.org/2000/svg"]


def test_the_recording_shows_the_demonstration() -> None:
    """The recording is of today's demonstration: its cron line, a kill, a takeover, no duplicate, no gap."""
    shown = "".join(texts(DEMO.read_text("utf-8")))
    assert f"one job, {LINE}, on three instances" in shown
    assert re.search(r"✗ api-\d is killed during its run", shown)
    assert re.search(r"↻ api-\d takes the run over \d\.\d s later: the lock has expired", shown)
    assert re.search(r" 9 │ +9 │ +0 │ +0", shown)
    assert "cron-runs/send-digest: 9 succeeded" in shown


def test_the_same_recording_gives_the_same_picture() -> None:
    """A drawing depends on the recorded lines alone, and has the text of each of them, whatever marks are in it."""
    svg = picture(RECORDING)
    assert svg == picture(RECORDING)
    assert texts(svg)[1:] == ["$ ", "firecron demo", "first", "{second}", " & <third>"]


def test_a_line_is_hidden_until_it_came() -> None:
    """The picture begins with all lines; then each is hidden until it came, at four times the recording's speed."""
    svg = picture(RECORDING)
    hidden = dict(re.findall(r"demo-line-(\d+)\)\"\] { animation-duration: ([\d.]+)s }", svg))
    assert hidden == {"1": "0.50", "3": "1.50"}
    assert "animation: demo-hidden 0s linear 3s }" in svg  # from the third second on, and with no effect outside of it
    assert set(re.findall(r"opacity: [\d.]+", svg)) == {"opacity: 0.7", "opacity: 0"}
    assert "from, 97% { opacity: 0 }" in svg


def test_a_recording_is_what_the_terminal_got() -> None:
    """A command runs in a terminal of a fixed width, and its lines are kept with their escape sequences."""
    lines = record(["sh", "-c", r"test -t 1 && printf '\033[1m%s\033[0m\n' $(stty size)"])
    assert [line.text for line in lines] == ["\x1b[1m50\x1b[0m", "\x1b[1m76\x1b[0m"]
    assert 0 <= lines[0].at <= lines[1].at


def test_a_command_that_fails_is_not_drawn() -> None:
    """A recording of a command that fails ends in an error with its exit code."""
    with pytest.raises(SystemExit, match="sh -c exit 3 ended with 3: nothing was drawn"):
        record(["sh", "-c", "exit 3"])


def test_the_picture_of_a_tick_has_the_fields_of_the_node() -> None:
    """What looks like a field in the picture of a tick is one of a lock's record."""
    root = ET.parse(ONE_TICK).getroot()
    words = {"".join(node.itertext()) for node in root.iter(f"{SVG}text") if "field" in node.get("class", "")}
    fields = {word for word in words if re.fullmatch("[a-zA-Z]+", word)} - {"succeeded"}
    assert {"slot", "holder", "expiresAt", "releasedAt", "outcome"} == fields
    assert fields <= {*FIELDS}
