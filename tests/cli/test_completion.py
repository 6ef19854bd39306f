"""What a shell is offered for the name of a job: those of the catalogue, soon, and no word about what went wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.calls import call

from firecron.cli import names
from firecron.cli.commands import app
from rtdb_emulator.pytest_plugin import Rtdb


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folders."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "cache" / "firecron"


@pytest.fixture
def offered(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Offered:
    """A catalogue with three jobs, and a shell."""
    for name in ("digest", "digest-eu", "import"):
        rtdb.set(f"/cron-jobs/{name}", {"service": "api"})
    return Offered(monkeypatch, capsys)


class Offered:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, words: str) -> list[str]:
        """What the shell shows for these words, of which the last one is incomplete."""
        with self._monkeypatch.context() as shell:
            shell.setenv("_FIRECRON_COMPLETE", "complete_bash")
            shell.setenv("COMP_WORDS", words)
            shell.setenv("COMP_CWORD", str(words.count(" ")))
            with pytest.raises(SystemExit) as ended:
                app(prog_name="firecron")
        captured = self._capsys.readouterr()
        assert (ended.value.code, captured.err) == (0, "")
        return captured.out.split()


@pytest.mark.parametrize("command", ["status", "check", "runs", "locks", "pause", "cancel", "mute", "acts", "forget"])
def test_the_names_of_jobs_are_offered(offered: Offered, command: str) -> None:
    """Wherever a command takes one."""
    assert offered(f"firecron {command} dig") == ["digest", "digest-eu"]


def test_a_name_that_stands_there_already_is_not_offered_again(offered: Offered) -> None:
    """A command that takes several gets each once."""
    assert offered("firecron status digest ") == ["digest-eu", "import"]


def test_names_are_those_of_the_context(offered: Offered, rtdb: Rtdb) -> None:
    """The database is the one that the command line names so far; contexts are offered, too."""
    call("context", "add", "other", "--database", rtdb.emulator.database_url("other"), "--prefix", "ops")
    rtdb.emulator.set("other", "/ops/cron-jobs/report", {"service": "api"})
    assert offered("firecron pause --context other ") == ["report"]
    assert offered("firecron pause --context o") == ["other"]


def test_names_are_kept_for_a_minute(offered: Offered, rtdb: Rtdb, cache: Path) -> None:
    """Within it nothing is asked of the database; after it, it is asked again, and old names are better than none."""
    offered("firecron runs ")
    rtdb.set("/cron-jobs/new", {"service": "api"})
    rtdb.emulator.requests.clear()
    assert offered("firecron runs n") == []
    assert list(rtdb.emulator.requests) == []
    (kept,) = cache.iterdir()
    aged = json.loads(kept.read_text("utf-8"))
    kept.write_text(json.dumps({**aged, "at": aged["at"] - names.YOUNG}), "utf-8")
    assert offered("firecron runs n") == ["new"]


def test_a_database_that_is_away_is_not_mentioned(
    offered: Offered, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    """Nor is a context or an address that is none: no name is offered, and nothing is printed."""
    monkeypatch.setenv("FIRECRON_DATABASE_URL", "http://127.0.0.1:1?ns=away")
    assert offered("firecron runs ") == []
    assert offered("firecron runs --context nowhere ") == []
    monkeypatch.setenv("FIRECRON_DATABASE_URL", "nonsense")
    assert offered("firecron runs ") == []


def test_old_names_are_better_than_none(
    offered: Offered, rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    """While the database is away, for an hour."""
    offered("firecron runs ")
    (kept,) = cache.iterdir()
    aged = json.loads(kept.read_text("utf-8"))
    rtdb.set_rules({"rules": {}})
    monkeypatch.setattr(names, "PATIENCE", 0.0)
    kept.write_text(json.dumps({**aged, "at": aged["at"] - names.YOUNG}), "utf-8")
    assert offered("firecron runs im") == ["import"]
    kept.write_text(json.dumps({**aged, "at": aged["at"] - names.OLD}), "utf-8")
    assert offered("firecron runs im") == []
