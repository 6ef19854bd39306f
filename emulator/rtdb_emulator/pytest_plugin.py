"""The pytest fixture `rtdb`: an empty database for each test, on one emulator for the whole test process.

    def test_counts(rtdb):
        app = firebase_admin.initialize_app(options={"databaseURL": rtdb.url}, name=rtdb.namespace)
        db.reference("visits", app).set(1)
        assert rtdb.get("/visits") == 1

While a test uses the fixture, `FIREBASE_DATABASE_EMULATOR_HOST` names the emulator and `FIRECRON_DATABASE_URL` the
test's database. Under pytest-xdist each worker has an emulator of its own, and passes its counts of rules to the first
process.

pytest's report says why requests of a failed test were denied, and which outcomes of rules were never seen. pytest
loads this plugin in every run: the emulator is loaded for the first test that needs it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

import pytest

if TYPE_CHECKING:
    from rtdb_emulator.emulator import Emulator
    from rtdb_emulator.http.faults import Faults
    from rtdb_emulator.http.log import Criteria
    from rtdb_emulator.rules.coverage import Row


__all__ = [
    "Rtdb",
    "pytest_addoption",
    "pytest_configure",
    "pytest_runtest_makereport",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
    "pytest_testnodedown",
    "rtdb",
    "rtdb_emulator",
    "rtdb_namespace",
]


# Seconds. `ListenerRegistration.close()` of the Python SDK returns when the stream sends its next event.
KEEP_ALIVE = 0.2

_OPEN = {"rules": {".read": True, ".write": True}}

_numbers = count(1)


@dataclass(frozen=True)
class Rtdb:
    """A test's own database, made by the fixture `rtdb`.

    Args:
        emulator: The emulator of this test process.
        namespace: The database's name.
    """

    emulator: Emulator
    namespace: str

    @property
    def url(self) -> str:
        """The `databaseURL`."""
        return self.emulator.database_url(self.namespace)

    @property
    def faults(self) -> Faults:
        """The emulator's faults; they end with the test."""
        return self.emulator.faults

    def get(self, path: str = "/") -> object:
        """Return the value at a path, past all rules.

        Args:
            path: The path, such as `/visits`.
        """
        return self.emulator.get(self.namespace, path)

    def set(self, path: str, value: object) -> None:
        """Store a value at a path, past all rules.

        Args:
            path: The path, such as `/visits`.
            value: The value, as JSON's types in Python; None deletes.
        """
        self.emulator.set(self.namespace, path, value)

    def set_rules(self, rules: str | Mapping[str, object] | Path) -> None:
        """Replace the rules of this database.

        Args:
            rules: The text of a rules file, the same as a mapping, or the file's path.
        """
        self.emulator.set_rules(self.namespace, rules)

    def count(self, **criteria: Unpack[Criteria]) -> int:
        """Return how many requests to this database fit: `rtdb.count(method="PUT", path="/visits")`.

        Args:
            criteria: `method`, `path` (wildcards as in "/cron-locks/*"), `header` (name and value), `port` and `wire`;
                a request fits if it agrees with all that are given.
        """
        criteria["namespace"] = self.namespace
        return self.emulator.requests.count(**criteria)


@pytest.fixture(scope="session")
def rtdb_emulator() -> Iterator[Emulator]:
    """The emulator of this test process."""
    # Imported here, not above: pytest loads this plugin in every run, also in runs that never need it.
    from rtdb_emulator import Emulator

    with Emulator(keep_alive=KEEP_ALIVE) as emulator:
        yield emulator


@pytest.fixture
def rtdb_namespace() -> str:
    """The name of the test's database; override it for code that has a production `databaseURL` of its own."""
    return f"test-{next(_numbers)}"


@pytest.fixture
def rtdb(
    rtdb_emulator: Emulator, rtdb_namespace: str, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> Iterator[Rtdb]:
    """An empty Realtime Database; `FIREBASE_DATABASE_EMULATOR_HOST` and `FIRECRON_DATABASE_URL` lead to it."""
    database = Rtdb(rtdb_emulator, rtdb_namespace)
    # Before the test too: a request that a fault of the last test had delayed may have arrived since.
    _reset(database)
    monkeypatch.setenv("FIREBASE_DATABASE_EMULATOR_HOST", rtdb_emulator.host)
    monkeypatch.setenv("FIRECRON_DATABASE_URL", database.url)
    rtdb_emulator.requests.clear()
    rtdb_emulator.refusals.clear()
    yield database
    rtdb_emulator.faults.clear()
    rtdb_emulator.drop(rtdb_namespace)
    _remember(pytestconfig, rtdb_emulator)


def _reset(database: Rtdb) -> None:
    database.set("/", None)
    database.set_rules(_OPEN)


# --- rules in the report

# Counts of rules by their text.
Seen: TypeAlias = dict[str, list[list[int]]]

_OPTION = "--rtdb-coverage-fail-under"
_DENIED = "denied by rules of the database"
_PERCENT = pytest.StashKey[float | None]()
# By the emulator that has counted: its counts only grow, so the last ones are complete.
_SEEN = pytest.StashKey[dict["Emulator", Seen]]()
_WORKERS = pytest.StashKey[list[Seen]]()
_VERDICT = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("rtdb_emulator", "Realtime Database emulator")
    group.addoption(
        _OPTION,
        type=_percent,
        metavar="PERCENT",
        help="fail if tests with the fixture rtdb have seen less than PERCENT of the outcomes of their rules",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_PERCENT] = config.getoption(_OPTION)
    config.stash[_SEEN] = {}
    config.stash[_WORKERS] = []


def _remember(config: pytest.Config, emulator: Emulator) -> None:
    """Keep the coverage of an emulator's rules so far. The fixture calls it at the end of a test."""
    if config.stash[_PERCENT] is not None:
        config.stash[_SEEN][emulator] = {
            rules.source: coverage.counts for rules, coverage in emulator.coverage() if not rules.are_open
        }


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the operations that rules have denied to the report of a failed test."""
    report = yield
    rtdb = getattr(item, "funcargs", {}).get("rtdb")
    if report.failed and report.when == "call" and rtdb is not None:
        refusals = rtdb.emulator.refusals.of(rtdb.namespace)
        if refusals:
            report.sections.append((_DENIED, "\n".join(map(str, refusals))))
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A process of pytest-xdist has ended."""
    node.config.stash[_WORKERS].append(getattr(node, "workeroutput", {}).get("rtdb_rules", {}))


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    seen = list(config.stash[_SEEN].values())
    wanted = config.stash[_PERCENT]
    if hasattr(config, "workeroutput"):
        config.workeroutput["rtdb_rules"] = _sum(seen)
    elif wanted is not None:
        lines, share = _judge(_sum([*seen, *config.stash[_WORKERS]]))
        if share < wanted:
            lines.append(f"The rules' coverage is {share:.1f} %, and {wanted:g} % are wanted.")
            if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
        config.stash[_VERDICT] = lines


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if _VERDICT in config.stash:
        terminalreporter.section("coverage of security rules")
        for line in config.stash[_VERDICT]:
            terminalreporter.line(line)


def _judge(seen: Mapping[str, list[list[int]]]) -> tuple[list[str], float]:
    """Return the lines for all rules, and the percentage of their outcomes that were seen."""
    if not seen:
        return ["No test with the fixture rtdb has set any rules."], 0.0
    # Imported here, not above: pytest loads this plugin in every run, also in runs that never need it.
    from rtdb_emulator.rules import Rules
    from rtdb_emulator.rules.coverage import Coverage, percent

    lines, rows = [], []
    for number, (source, counts) in enumerate(sorted(seen.items()), 1):
        rules = Rules.parse(source)
        coverage = Coverage(rules.all)
        coverage.add(counts)
        rows += coverage.rows
        title = f"rules {number}: " if len(seen) > 1 else ""
        number_of = "1 rule" if len(rules.all) == 1 else f"{len(rules.all)} rules"
        lines.append(f"{title}{percent(coverage.rows):.1f} % of the outcomes of {number_of}")
        lines += [f"  {_missed(row)}" for row in coverage.rows if row.seen < row.possible]
    return lines, percent(rows)


def _missed(row: Row) -> str:
    line, column = row.rule.place
    missing = "false" if row.counts[0] else "true"
    never = missing if any(row.counts) else "evaluated"
    return f"/{'/'.join(row.rule.path)} {row.rule.kind} ({line}:{column}) was never {never}"


def _sum(parts: list[Seen]) -> Seen:
    total: Seen = {}
    for part in parts:
        for source, counts in part.items():
            before = total.get(source, [[0, 0, 0] for _ in counts])
            total[source] = [
                [ours + others for ours, others in zip(mine, theirs, strict=True)]
                for mine, theirs in zip(before, counts, strict=True)
            ]
    return total


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise ValueError(f"{text!r} is not a percentage from 0 to 100")
    return value
