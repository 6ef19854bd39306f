"""Rules in pytest's report: why requests of a failed test were denied, and which outcomes of rules were never seen.

Part of `pytest_plugin`, which has the fixtures. Under pytest-xdist each process passes its counts to the first.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

if TYPE_CHECKING:
    from rtdb_emulator.emulator import Emulator
    from rtdb_emulator.rules.coverage import Row

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


def remember(config: pytest.Config, emulator: Emulator) -> None:
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
