"""What `--help` and `doctor` look like at 80 columns, and where there is no terminal."""

from __future__ import annotations

import pytest
from tests.cli.calls import call

import firecron
from firecron import cli
from firecron.cli.commands import COMMANDS, EXAMPLES, app, load
from rtdb_emulator.pytest_plugin import Rtdb


@pytest.mark.parametrize(
    "command", [[], *([name] for name in COMMANDS)], ids=lambda command: "".join(command) or "root"
)
def test_help_fits_into_80_columns(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """At 80 columns no line of a command's help is longer, and no sentence is cut."""
    monkeypatch.setenv("COLUMNS", "80")
    usage, *lines = call(*command, "--help").stdout.splitlines()
    assert usage.startswith("Usage: ")
    assert [line for line in (usage, *lines) if len(line) > 80] == []
    assert [line for line in lines if line.endswith("...")] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_the_list_of_commands_has_the_first_line_of_each(command: str) -> None:
    """What the list says of a command is the first line of its own help, as its docstring has it."""
    _, summary = COMMANDS[command]
    assert (load(command).help or "").splitlines()[0] == summary
    assert list(COMMANDS) == list(EXAMPLES)


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_a_missing_extra_is_named(
    package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the packages of the extra even `--help` says what to install, and ends with code 2."""
    monkeypatch.setattr(cli, "find_spec", lambda name: None if name == package else object())
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"firecron: {package} is not installed: pip install 'firecron[cli]'\n"


def test_doctor_keeps_a_line_a_line(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where standard output is no terminal `doctor` prints each finding in one line, however long, without padding."""
    monkeypatch.setenv("COLUMNS", "80")
    rtdb.set("/cron-locks/some-job", "text")
    *lines, total = call("doctor").stdout.splitlines()
    assert total.endswith("1 problem")
    assert {line.split()[0] for line in lines} <= {"ok", "warning", "problem"}
    assert [line for line in lines if line != line.rstrip()] == []
    [found] = [line for line in lines if line.startswith("problem")]
    assert "some-job" in found
    assert "→" in found
    assert len(found) > 80


def test_the_version_is_told() -> None:
    """`--version` is one line with firecron's version."""
    result = call("--version")
    assert (result.exit_code, result.stdout) == (0, f"firecron {firecron.__version__}\n")


def test_a_shell_completes_commands_and_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the installed completion asks for is answered with the commands, and the options of one."""
    monkeypatch.setenv("_FIRECRON_COMPLETE", "complete_bash")
    for words, found in (("firecron unl", "unlock"), ("firecron unlock --y", "--yes")):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
        with pytest.raises(SystemExit) as ended:
            app(prog_name="firecron")
        assert ended.value.code == 0
        assert capsys.readouterr().out.split() == [found]
