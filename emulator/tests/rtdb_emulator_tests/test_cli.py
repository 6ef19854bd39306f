"""The command `rtdb-emulator`, in processes of its own."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from rtdb_emulator import Emulator, cli
from rtdb_emulator_tests.helpers.processes import BOUND, Finished, Process, Run, Start
from rtdb_emulator_tests.helpers.sockets import socket_client

EMULATOR = ("-m", "rtdb_emulator")
OWNER = {"Authorization": "Bearer owner"}


def address(process: Process) -> str:
    """Where the first line of its output says that it listens."""
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.fullmatch(r"rtdb-emulator serves (http://\S+:\d+) \(database \S+\)\n", line)
    assert found, f"{line!r}, not the address; stderr: {process.stderr.read() if process.stderr else ''}"
    return found[1]


def put(url: str, path: str, data: object, **parameters: str) -> None:
    body = json.dumps(data)
    answer = requests.put(f"{url}{path}.json", body, params=parameters, headers=OWNER, timeout=BOUND)
    assert answer.status_code == 200, answer.text


def get(url: str, path: str, **parameters: str) -> object:
    value: object = requests.get(f"{url}{path}.json", params=parameters, headers=OWNER, timeout=BOUND).json()
    return value


def end(process: Process, number: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
    """Its exit code after this signal, and the rest of its output."""
    assert process.stdout is not None
    assert process.stderr is not None
    process.send_signal(number)
    return process.wait(), process.stdout.read(), process.stderr.read()


def assert_refused(finished: Finished, *words: str) -> None:
    """It ended with exit code 2, and one line on stderr that has these words in it."""
    assert finished.returncode == 2, finished
    assert finished.stdout == ""
    assert len(finished.stderr.splitlines()) == 1, finished.stderr
    assert re.match(r"rtdb-emulator: \w", finished.stderr)
    for word in words:
        assert word in finished.stderr


@pytest.fixture
def run_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Runs the command in this process, in a directory of the test, where it ends before it serves."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def complete(*arguments: str) -> Finished:
        code = cli.main(arguments)
        return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())

    yield complete
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("streaming", [False, True], ids=["idle", "streaming"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_success(start: Start, number: signal.Signals, streaming: bool) -> None:
    """SIGINT and SIGTERM end it with exit code 0 and without a word, also while somebody listens to a stream."""
    process = start(*EMULATOR, "--port", "0")
    url = address(process)
    put(url, "/a", 1)
    if streaming:
        stream = requests.get(f"{url}/a.json", headers={"Accept": "text/event-stream"}, stream=True, timeout=BOUND)
        lines = stream.iter_lines()
        assert next(lines) == b"event: put"
    assert end(process, number)[0::2] == (0, "")
    if streaming:
        assert list(lines) == [b'data: {"path":"/","data":1}', b""]


def test_a_request_that_never_ends_does_not_keep_it(start: Start) -> None:
    """SIGTERM ends it also while a client has sent half of a request, and that client is cut off."""
    process = start(*EMULATOR, "--port", "0")
    host, port = address(process).removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), BOUND) as client:
        client.sendall(b"PUT /a.json HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n")
        assert client.recv(1000).startswith(b"HTTP/1.1 100 ")  # so that it is being served
        assert end(process)[0::2] == (0, "")


def test_says_where_it_listens(start: Start) -> None:
    """The first line names the address, the second the setting that leads clients there."""
    process = start(*EMULATOR, "--port", "0")
    url = address(process)
    assert requests.get(url, timeout=BOUND).ok
    _, stdout, _ = end(process)
    assert stdout == f"  export FIREBASE_DATABASE_EMULATOR_HOST={url.removeprefix('http://')}\n"


def test_listens_on_the_given_port(start: Start) -> None:
    """`--port` is the port, also right after another emulator had it."""
    first = start(*EMULATOR, "--port", "0")
    url = address(first)
    put(url, "/a", 1)
    end(first)
    again = start(*EMULATOR, "--port", url.rpartition(":")[2])
    assert address(again) == url
    assert get(url, "/a") is None


def test_the_installed_command_is_the_same(start: Start) -> None:
    """The console script `rtdb-emulator` does what `python -m rtdb_emulator` does."""
    script = Path(sysconfig.get_path("scripts"), "rtdb-emulator")
    if not script.exists():
        pytest.skip("the package isn't installed here, so that there is no console script")
    process = start(str(script), "--port", "0")
    put(address(process), "/a", 1)
    assert end(process)[0::2] == (0, "")


def test_help_lists_all_options(run: Run) -> None:
    """`--help` tells of every option and of the environment variable."""
    finished = run(*EMULATOR, "--help")
    assert finished.returncode == 0
    options = {"--host", "--port", "--rules", "--import", "--export-on-exit", "--project"}
    for word in {*options, "FIREBASE_DATABASE_EMULATOR_HOST"}:
        assert word in finished.stdout


def test_rules_hold_in_every_database(start: Start, tmp_path: Path) -> None:
    """The rules of `--rules`, comments included, decide in the project's database and in all others."""
    Path(tmp_path, "rules.json").write_text('{"rules": {"a": {".read": true /* all */}, }}', "utf-8")
    url = address(start(*EMULATOR, "--port", "0", "--rules", "rules.json"))
    for parameters in ({}, {"ns": "other"}):
        answers = {
            path: requests.get(f"{url}/{path}.json", params=parameters, timeout=BOUND).status_code for path in "ab"
        }
        assert answers == {"a": 200, "b": 401}


def test_changed_rules_are_read_again(start: Start, tmp_path: Path) -> None:
    """A saved `--rules` file holds without a restart; one with an error changes nothing, and the log says where."""
    file = Path(tmp_path, "rules.json")
    file.write_text('{"rules": {"a": {".read": true}}}', "utf-8")
    process = start(*EMULATOR, "--port", "0", "--rules", "rules.json")
    url = address(process)
    assert process.stderr is not None
    file.write_text('{"rules": {"b": {".read": oops}}}', "utf-8")
    assert "WARNING rules.json can't be used, and the rules stay what they were: 1:27: " in _line_with(process, "stay")
    file.write_text('{"rules": {"b": {".read": true}}}', "utf-8")
    assert "INFO rules.json has changed" in _line_with(process, "changed")
    statuses = [requests.get(f"{url}/{path}.json", timeout=BOUND).status_code for path in "ab"]
    assert statuses == [401, 200]


def _line_with(process: Process, word: str) -> str:
    """The next line of the log with this word."""
    assert process.stderr is not None
    return next(line for line in process.stderr if word in line)


@pytest.mark.parametrize("own", [False, True])
def test_a_database_with_rules_of_its_own_keeps_them(own: bool) -> None:
    """New rules of the emulator hold in the databases that have had the former ones, and end what they forbid."""
    with Emulator(rules={"rules": {".read": True}}) as emulator:
        if own:
            emulator.set_rules("demo", {"rules": {".read": True}})
        with socket_client(emulator, "demo") as client:
            client.listen("/a")
            emulator.replace_rules({"rules": {"b": {".read": True}}})
            assert client.pushed() == ([] if own else [{"a": "c", "b": {"p": "a"}}])
        with socket_client(emulator, "later") as client:
            assert client.ask("g", p="/a", q={})[0] == "permission_denied"
        assert emulator.namespaces() == (["demo"] if own else [])


def test_without_rules_all_is_open(start: Start) -> None:
    """Anybody may read and write as long as there are no rules."""
    url = address(start(*EMULATOR, "--port", "0"))
    assert requests.put(f"{url}/a.json", data="1", timeout=BOUND).ok
    assert requests.get(f"{url}/a.json", timeout=BOUND).json() == 1


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ('{"rules": {\n  ".read": "oops()"}}', ["rules.json", "2:", "oops"]),
        ('{"rules": ', ["rules.json"]),
        ("", ["rules.json"]),
        (b"\xff\xfe", ["rules.json"]),
    ],
    ids=["unknown name", "cut off", "empty", "not UTF-8"],
)
def test_bad_rules_are_one_line(run_here: Run, tmp_path: Path, rules: str | bytes, words: list[str]) -> None:
    """Rules that can't be used are refused at the start, with the file and the place."""
    Path(tmp_path, "rules.json").write_bytes(rules.encode() if isinstance(rules, str) else rules)
    assert_refused(run_here("--port", "0", "--rules", "rules.json"), *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rules", "missing.json"], ["rules missing.json", "No such file"]),
        (["--rules", "."], ["rules .", "Is a directory"]),
        (["--import", "missing.json"], ["import missing.json", "No such file"]),
        (["--import", "."], ["import .", "Is a directory"]),
        (["--export-on-exit", "nowhere/data.json"], ["export nowhere/data.json", "not a folder"]),
        (["--export-on-exit", "."], ["export .", "is a folder"]),
        (["--host", "256.0.0.1"], ["256.0.0.1"]),
    ],
    ids=" ".join,
)
def test_what_cannot_be_opened_is_one_line(run_here: Run, arguments: list[str], words: list[str]) -> None:
    """A file or address that isn't there is named, with the reason, before anything starts."""
    assert_refused(run_here("--port", "0", *arguments), *words)


@pytest.mark.parametrize(
    ("data", "word"),
    [
        ("not json", "couldn't parse"),
        ("", "No data"),
        ('{"bad.key": 1}', "couldn't parse"),
        ('{"a": {"b": {"c$": 1}}}', "couldn't parse"),
        ('{"a": NaN}', "couldn't parse"),
    ],
)
@pytest.mark.parametrize("name", ["data.json", "data.other.json"])
def test_a_bad_import_is_one_line(run_here: Run, tmp_path: Path, name: str, data: str, word: str) -> None:
    """An import that is no JSON, or that the database can't hold, is refused with the file's name."""
    Path(tmp_path, "data.json").write_text("{}")
    Path(tmp_path, name).write_text(data)
    assert_refused(run_here("--port", "0", "--import", "data.json"), f"import {name}", word)


def test_an_import_for_no_database_is_one_line(run_here: Run, tmp_path: Path) -> None:
    """A file beside the import that is named after what no database can be called is refused with its name."""
    for name in ("data.json", "data.a copy.json"):
        Path(tmp_path, name).write_text("{}")
    assert_refused(run_here("--port", "0", "--import", "data.json"), "import data.a copy.json", "'a copy'")


def test_a_taken_port_is_one_line(run: Run) -> None:
    """A port that somebody else has is named, with the reason."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert_refused(run(*EMULATOR, "--port", port), f"127.0.0.1:{port}", "in use")


@pytest.mark.parametrize("port", ["70000", "-1", "x", "1.5"])
def test_a_port_that_is_none_is_refused(run: Run, port: str) -> None:
    """`--port` takes 0 to 65535."""
    finished = run(*EMULATOR, f"--port={port}")
    assert finished.returncode == 2
    assert f"'{port}' is not a port" in finished.stderr.splitlines()[-1]


DATA = {
    "plain": {"n": 1.5, "text": "ü", "list": ["a", "b"], "flags": {"on": True}},
    "leaf": {".value": "v", ".priority": 3},
    "node": {"child": 1, ".priority": "first"},
}


def test_an_export_is_a_complete_import(start: Start, tmp_path: Path) -> None:
    """What one run exports, the next one imports: all databases, with priorities, in files that are plain JSON."""
    first = start(*EMULATOR, "--port", "0", "--project", "mine", "--export-on-exit", "data.json")
    url = address(first)
    put(url, "/", DATA, ns="mine")
    put(url, "/a", "odd", ns="odd_Name-1")
    put(url, "/gone", "soon", ns="empty")
    put(url, "/gone", None, ns="empty")
    code, stdout, _ = end(first)
    files = {path.name for path in tmp_path.iterdir()}
    assert (code, files) == (0, {"data.json", "data.odd_Name-1.json"})
    assert {line.removeprefix("exported ") for line in stdout.splitlines()[1:]} == files
    plain = {"n": 1.5, "text": "ü", "list": {"0": "a", "1": "b"}, "flags": {"on": True}}
    exported = json.loads(Path(tmp_path, "data.json").read_text("utf-8"))
    assert exported == {**DATA, "plain": plain}

    second = start(*EMULATOR, "--port", "0", "--project", "renamed", "--import", "data.json")
    url = address(second)
    assert get(url, "/", ns="renamed", format="export") == exported
    assert get(url, "/plain", ns="renamed") == DATA["plain"]
    assert get(url, "/", ns="odd_Name-1") == {"a": "odd"}
    assert end(second)[0] == 0


def test_an_export_keeps_a_link_and_a_pipe(start: Start, tmp_path: Path) -> None:
    """An export follows a symbolic link to its file, and is written into a pipe, instead of replacing either."""
    link, pipe = tmp_path / "link.json", tmp_path / "pipe"
    (tmp_path / "elsewhere").mkdir()
    link.symlink_to("elsewhere/data.json")
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for file in (link, pipe):
        process = start(*EMULATOR, "--port", "0", "--export-on-exit", str(file))
        put(address(process), "/a", 1)
        assert end(process)[0::2] == (0, "")
    exported = [(tmp_path / "elsewhere" / "data.json").read_text("utf-8"), os.read(reading, 1000).decode()]
    os.close(reading)
    assert [json.loads(text) for text in exported] == [{"a": 1}] * 2
    assert (link.is_symlink(), pipe.is_fifo()) == (True, True)


def test_the_project_is_the_database_of_requests_that_name_none(start: Start) -> None:
    """Without `ns` a request goes to the database that `--project` names."""
    url = address(start(*EMULATOR, "--port", "0", "--project", "mine"))
    put(url, "/a", 1)
    assert (get(url, "/a", ns="mine"), get(url, "/a", ns="other")) == (1, None)
