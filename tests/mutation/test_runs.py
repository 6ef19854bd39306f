"""How mutants are tried: which tests are asked, in which order, and what is known already."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.mutation.generate import Mutant, generate
from tests.mutation.idle import Killers, idle, report
from tests.mutation.ledger import Ledger
from tests.mutation.overlay import ROOT
from tests.mutation.reach import Reach, collect
from tests.mutation.source import without_words
from tests.mutation.trial import Failure, Judged, Trials, Verdict, first_killer, in_order

LANES = Path("firecron/runs/lanes.py")
(MUTANT, *_) = generate("firecron/module.py", b"def work():\n    return 1\n")


def reach(**tests: tuple[float, list[int]]) -> Reach:
    """Tests by name, each with its seconds and the lines of a module that it reaches."""
    found = Reach()
    found.add(
        {
            "seconds": {name: seconds for name, (seconds, _) in tests.items()},
            "lines": {
                "firecron/base/flag.py": {
                    str(line): [number for number, (_, lines) in enumerate(tests.values()) if line in lines]
                    for line in range(20)
                }
            },
            "others": [],
        }
    )
    return found


def test_the_tests_that_reach_a_line_are_asked_cheapest_first() -> None:
    """Tests that reach none of a mutant's lines are not asked, and slow ones are asked last."""
    found = reach(slow=(2.0, [3]), quick=(0.1, [3, 4]), other=(0.1, [5]))
    assert found.tests("firecron/base/flag.py", [3, 4]) == ["quick", "slow"]
    assert found.tests("firecron/none.py", [3]) == []


def test_a_few_cheap_tests_are_asked_before_all_others() -> None:
    """The first tests come from few files and take seconds; then come the rest, but not what takes minutes."""
    seconds = {f"file{number % 10}::{number}": 0.07 for number in range(20)} | {"file0::slow": 15, "file1::slower": 20}
    tests = sorted(seconds, key=lambda test: seconds[test])
    first, rest = in_order(tests, seconds, LANES)
    assert {test.partition("::")[0] for test in first} == {f"file{number}" for number in range(6)}
    assert rest[-1] == "file0::slow"
    assert "file1::slower" not in first + rest
    assert sorted(first + rest) == sorted(set(seconds) - {"file1::slower"})
    assert [test.partition("::")[0] for test in first] == [f"file{number}" for number in range(6) for _ in range(2)]
    assert in_order([], {}, LANES) == ([], [])


def test_a_modules_own_tests_are_asked_before_the_rest() -> None:
    """A file of tests that has the module's name knows it best: all of its tests are asked, however long they take, the
    quick ones before any other. Then come those of its room.
    """
    others, alone, own = (f"tests/test_{file}.py::test" for file in ("bus_lanes", "lanes_alone", "lanes"))
    quick, room, cheap = "tests/test_lanes.py::quick", "tests/runs/test_turn.py::test", "tests/test_a.py::cheap"
    near = "tests/runs/test_turn.py::near"
    too_many = "tests/test_b.py::slow"
    seconds = {cheap: 0.1, quick: 0.2, near: 3, others: 9, room: 10, too_many: 19, alone: 20, own: 20}
    assert in_order(seconds, seconds, LANES) == ([quick, near, cheap, own, alone], [room, others])


@pytest.mark.parametrize(
    ("verdict", "source", "tests", "expected"),
    [
        ("killed", "source", "tests", "killed"),
        ("killed", "source", "others", "killed"),
        ("killed", "other", "tests", None),
        ("survived", "source", "tests", "survived"),
        ("survived", "source", "others", None),
        ("unreached", "source", "others", None),
        ("doubtful", "source", "tests", "doubtful"),
        ("doubtful", "source", "others", None),
    ],
)
def test_what_is_known_is_not_tried_again(
    tmp_path: Path, verdict: Verdict, source: str, tests: str, expected: Verdict | None
) -> None:
    """A run that was broken off goes on with what is left. A mutant of a source that has changed is another one, and a
    survivor is tried again with other tests.
    """
    file = tmp_path / "state" / "verdicts"
    first = Ledger(file, lambda _: "source", lambda _: "tests")
    assert first.verdict(MUTANT) is None
    first.note(Judged(MUTANT, verdict, "killer"))
    assert first.killers() == ({"killer"} if verdict == "killed" else set())
    assert first.verdict(MUTANT) == verdict
    assert Ledger(file, lambda _: source, lambda _: tests).verdict(MUTANT) == expected


def test_a_test_that_comes_first_for_no_mutant_is_idle(tmp_path: Path) -> None:
    """One that has killed a mutant first, or reaches a line alone, guards something; so may one of the commands."""
    found = reach(kills=(0.1, [3]), alone=(0.1, [3, 4]), idles=(0.1, [3]), commands=(0.1, [3]))
    found.lines["firecron/cli/commands/__init__.py"] = {1: {"commands", "idles_elsewhere"}}
    file = "firecron/base/flag.py"
    assert idle(found, {"kills"}, {file}, {"cli"}) == ["idles"]
    assert idle(found, {"kills", "idles"}, {file}, {"cli"}) == []
    assert idle(found, set(), set(), {"cli"}) == []
    *_, total, untried = report(["idles"], found, 2)
    assert total.startswith("1 of 4 tests")
    assert untried.startswith("2 mutants were not tried")
    killers = Killers(tmp_path / "state" / "listed")
    assert killers.known() == {}
    for by in ("first", "second"):
        killers.note("mutant", by)
    assert killers.known() == {"mutant": "second"}


def test_words_change_nothing_that_is_known() -> None:
    """Comments and docstrings change no verdict, so what is known stays known; a default changes what is done."""
    text = 'def wait(seconds=1):\n    """Wait."""\n    return seconds\n'
    known = without_words(text.encode())
    assert without_words(text.replace("Wait.", "Pause.").replace("return", "# back\n    return").encode()) == known
    assert without_words(text.replace("1", "2").encode()) != known


STORE = "firecron/store.py"
NAMES = ROOT / "tests" / "unit" / "test_store_names.py"
REFUSES = "tests/unit/test_store_names.py::test_what_can_be_no_name_is_refused[None]"
ACCEPTS = "tests/unit/test_store_names.py::test_a_good_name_is_itself[a]"


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Reach:
    """What the tests of the names of locks reach."""
    return collect([NAMES], tmp_path_factory.mktemp("reach") / "state", 1)


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trials]:
    """Trials with these tests."""
    trials = Trials(tmp_path_factory.mktemp("trial") / "copy", [str(NAMES.relative_to(ROOT))])
    yield trials
    trials.kill()


def mutants(file: str) -> list[Mutant]:
    """The mutants of a module."""
    return generate(f"firecron/{file}", (ROOT / "src/firecron" / file).read_bytes())


def mutant(new: str) -> Mutant:
    """The mutant of the names of locks that makes this."""
    found = [one for one in mutants("store.py") if one.place == "store.check_name" or one.old.startswith("_NAME =")]
    (mutant,) = [one for one in found if one.new == new]
    return mutant


def test_tests_tell_which_lines_they_reach(names: Reach, tmp_path: Path) -> None:
    """A test is asked about the lines that it reaches itself, and not about those of the import."""
    assert ACCEPTS in names.tests(STORE, mutant("return None").lines)
    assert REFUSES not in names.tests(STORE, mutant("return None").lines)
    assert REFUSES in names.tests(STORE, mutant("nothing").lines)
    assert names.others == []
    assert all(seconds > 0 for seconds in names.seconds.values())


def test_a_mutant_is_killed_by_a_test_that_reaches_it(
    names: Reach, trials: Trials, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mutant that a test notices is killed, one that none notices survives, and one that none reaches is named so;
    for a function's mutant no process imports the tests anew.
    """
    monkeypatch.setattr(trials.overlay, "run", lambda *_: pytest.fail("a new process"))
    seeing = replace(names, lines={STORE: {line: {ACCEPTS, REFUSES} for line in mutant("return None").lines}})
    assert trials.judge(mutant("return None"), seeing) == Judged(mutant("return None"), "killed", ACCEPTS)
    blind = replace(names, lines={STORE: {line: {REFUSES} for line in mutant("return None").lines}})
    assert trials.judge(mutant("return None"), blind).verdict == "survived"
    assert trials.judge(mutant("return None"), replace(names, lines={})).verdict == "unreached"
    assert (trials.overlay.source / STORE).read_bytes() == (ROOT / "src" / STORE).read_bytes()


def test_what_passes_the_first_tests_is_doubtful_until_the_others_pass(names: Reach, trials: Trials) -> None:
    """The tests that take longer are asked when all mutants had their first ones, and only about what is left."""
    (broken,) = (one for one in mutants("errors.py") if one.new.startswith('super().__init__(" ".join'))
    slow = replace(names, seconds=dict.fromkeys(names.seconds, 4.0))
    assert trials.judge(broken, slow) == Judged(broken, "doubtful")
    assert trials.judge(broken, slow, is_doubtful=True).verdict == "killed"


def test_a_test_whose_time_was_over_is_asked_again_and_has_more_of_it() -> None:
    """A test may take long because the machine is busy; what fails by itself in virtual time is believed at once."""
    asked: list[tuple[list[str], int]] = []

    def hangs_once(tests: list[str], patience: int) -> Failure:
        asked.append((tests, patience))
        return Failure(tests[0] if len(asked) == 1 else "", hung=len(asked) == 1)

    tests = ["tests/unit/test_a.py::test", "tests/unit/test_b.py::test"]
    assert first_killer(tests, hangs_once) == ""
    assert asked == [(tests, 1), (tests[:1], 2), (tests[1:], 1)]
    assert first_killer(tests, lambda tests, _: Failure(tests[0], hung=True)) == tests[0]
    assert first_killer(tests, lambda tests, _: Failure(tests[1] if len(tests) == 2 else "")) == tests[1]


def test_a_mutant_that_breaks_the_import_blinds_no_later_trial(names: Reach, tmp_path: Path) -> None:
    """The tests are collected without any mutant: one that can't be imported takes no test from the next."""
    trials = Trials(tmp_path / "copy", [str(NAMES.relative_to(ROOT))])
    try:
        broken = mutant('_NAME = re.compile(re.ASCII, r"[A-Za-z][A-Za-z0-9_-]{0,99}")')
        at_import = replace(names, lines={STORE: {line: {ACCEPTS} for line in range(26, 45)}})
        assert trials.judge(broken, at_import).verdict == "killed"
        assert trials.judge(mutant("return None"), at_import) == Judged(mutant("return None"), "killed", ACCEPTS)
    finally:
        trials.kill()
