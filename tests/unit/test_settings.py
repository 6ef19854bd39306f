"""Settings: from the environment or as arguments, checked alone and against each other, described in a line each."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import Field, FrozenInstanceError, fields
from math import inf, nextafter

import pytest

from firecron import FireCron, LockService
from firecron.errors import ConfigurationError
from firecron.settings import DEFAULTS, FACTS, Settings, load, unknown_variables
from rtdb_emulator_tests.helpers.processes import Run

VALUES = {
    "database_url": ("https://x.firebaseio.com", "https://x.firebaseio.com"),
    "uid": ("firecron", "firecron"),
    "prefix": ("/ops/cron/", "ops/cron"),
    "margin": ("2.5", 2.5),
    "request_timeout": ("4", 4.0),
    "acquire_timeout": ("9", 9.0),
    "release_timeout": ("6", 6.0),
    "clock_samples": ("5", 5),
    "clock_drift": ("0.0001", 0.0001),
    "clock_interval": ("60", 60.0),
    "roles": ("mail, reports,", ("mail", "reports")),
    "history_limit": ("7", 7),
    "tracebacks": ("0", False),
    "heartbeat": ("10", 10.0),
    "recovery_interval": ("60", 60.0),
    "shutdown_grace": ("5", 5.0),
    "workers": ("4", 4),
    "max_concurrent": ("2", 2),
}


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in DEFAULTS:
        monkeypatch.delenv(f"FIRECRON_{name.upper()}", raising=False)


@pytest.mark.parametrize("name", VALUES)
def test_each_setting_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """`FIRECRON_` and the setting's name in capitals sets it; an argument wins over that."""
    text, value = VALUES[name]
    default = getattr(load(), name)
    monkeypatch.setenv(f"FIRECRON_{name.upper()}", text)
    assert getattr(load(), name) == value != default
    assert getattr(load(**{name: default}), name) == default


@pytest.mark.parametrize("setting", fields(Settings), ids=lambda setting: setting.name)
def test_each_setting_has_a_description_in_a_line(setting: Field[object]) -> None:
    """Whoever lists the settings can say of each what it does."""
    description = setting.metadata["description"]
    assert description
    assert "\n" not in description
    assert description.endswith(".")


def test_the_defaults_are_what_a_check_makes_of_them() -> None:
    """Without anything given nothing is checked, and nothing needs to be: the defaults are in their bounds and fit."""
    assert load() == load(**DEFAULTS) == Settings()
    assert {type(value) for value in vars(load()).values()} == {
        type(value) for value in vars(load(**DEFAULTS)).values()
    }
    assert load().margin == 1.0


@pytest.mark.parametrize(
    ("program", "is_loaded"),
    [
        ("from firecron import Settings; Settings()", False),
        ("from firecron import Settings; Settings(margin=0.5)", True),
        ("import os; from firecron import Settings; os.environ['firecron_margin'] = '0.5'; Settings()", True),
    ],
    ids=["defaults", "an argument", "a variable"],
)
def test_what_checks_is_loaded_for_what_is_given(run: Run, program: str, is_loaded: bool) -> None:
    """Only settings that are given load pydantic, which takes longer than all else of a start."""
    finished = run("-c", f"import sys; {program}; print('pydantic' in sys.modules)")
    assert (finished.stdout, finished.stderr) == (f"{is_loaded}\n", "")


DAY = 86_400

# Each setting's bounds, and what else must be set for the value at the bound to fit the other settings.
BOUNDS: list[tuple[str, str, float, dict[str, object]]] = [
    ("margin", "gt", 0, {"clock_interval": nextafter(0, 1)}),
    ("margin", "le", 60, {}),
    ("request_timeout", "gt", 0, {}),
    ("request_timeout", "le", 60, {"acquire_timeout": 60, "release_timeout": 60}),
    ("acquire_timeout", "gt", 0, {"request_timeout": nextafter(0, 1)}),
    ("acquire_timeout", "le", DAY, {}),
    ("release_timeout", "gt", 0, {"request_timeout": nextafter(0, 1)}),
    ("release_timeout", "le", DAY, {}),
    ("clock_samples", "ge", 1, {}),
    ("clock_samples", "le", 20, {}),
    ("clock_drift", "gt", 0, {}),
    ("clock_drift", "lt", 0.01, {"clock_interval": 1}),
    ("clock_interval", "gt", 0, {}),
    ("clock_interval", "le", DAY, {"clock_drift": 1e-6}),
    ("history_limit", "ge", 1, {}),
    ("history_limit", "le", 1_000, {}),
    ("heartbeat", "ge", 1, {}),
    ("heartbeat", "le", 3_600, {}),
    ("contenders", "ge", 0, {}),
    ("contenders", "le", 1_000, {}),
    ("recovery_interval", "ge", 1, {}),
    ("recovery_interval", "le", DAY, {}),
    ("shutdown_grace", "ge", 0, {}),
    ("shutdown_grace", "le", 3_600, {}),
    ("workers", "ge", 1, {}),
    ("workers", "le", 500, {}),
    ("max_concurrent", "ge", 1, {}),
    ("max_concurrent", "le", 100, {}),
]


def at_bound(name: str, kind: str, bound: float) -> tuple[float, float]:
    """The last value that is in range, and the next one, which isn't."""
    outwards = -inf if kind in ("ge", "gt") else inf
    if kind in ("gt", "lt"):
        return nextafter(bound, -outwards), bound
    if isinstance(DEFAULTS[name], int):
        return bound, bound + (1 if outwards > 0 else -1)
    return bound, nextafter(bound, outwards)


@pytest.mark.parametrize(("name", "kind", "bound", "others"), BOUNDS)
def test_a_value_at_its_bound_is_accepted(name: str, kind: str, bound: float, others: dict[str, object]) -> None:
    """The last value of a setting's range can be set."""
    value, _ = at_bound(name, kind, bound)
    assert getattr(load(**{**others, name: value}), name) == value


def test_every_bound_is_looked_at() -> None:
    """Each bound that a setting has is in the table, and no other."""
    found = [
        (setting.name, kind, bound)
        for setting in fields(Settings)
        for kind, bound in setting.metadata.items()
        if kind in ("gt", "ge", "lt", "le")
    ]
    assert sorted(found) == sorted(row[:3] for row in BOUNDS)


ALONE = [
    *[(name, at_bound(name, kind, bound)[1]) for name, kind, bound, _ in BOUNDS],
    ("margin", float("nan")),
    ("margin", "a second"),
    ("clock_samples", 1.5),
    ("uid", ""),
    ("runtime_variable", ""),
    ("prefix", "a.b"),
    ("prefix", "a//b"),
    ("prefix", "a/$b"),
    ("prefix", "a#"),
    ("prefix", "a[0]"),
    ("prefix", "a\x00"),
    ("prefix", "a\ud800"),
    ("prefix", "\udfff/b"),
]


@pytest.mark.parametrize(("name", "value"), ALONE, ids=lambda value: repr(value)[:20])
def test_a_value_that_can_not_be_is_refused(name: str, value: object) -> None:
    """A setting out of its range is refused in one line that names it and the value."""
    with pytest.raises(ConfigurationError) as raised:
        load(**{name: value})
    text = str(raised.value)
    assert text.startswith(f"{name}={value!r}: ")
    assert "\n" not in text


def test_a_name_may_be_a_letter() -> None:
    """What names a user or a variable must not be empty, and may be as short as that."""
    assert (load(uid="u").uid, load(runtime_variable="R").runtime_variable) == ("u", "R")


def test_all_that_is_wrong_is_said_at_once() -> None:
    """Several wrong settings are named together."""
    with pytest.raises(ConfigurationError, match=r"margin=0: .*; clock_samples=0: "):
        load(margin=0, clock_samples=0)


def test_arguments_are_refused_as_variables_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that can't be is the library's error from `Settings(…)` as from the environment, where it names the
    variable.
    """
    with pytest.raises(ConfigurationError) as given:
        Settings(margin=-1)
    monkeypatch.setenv("FIRECRON_MARGIN", "-1")
    with pytest.raises(ConfigurationError) as set_by_variable:
        Settings()
    assert str(given.value) == "margin=-1: Input should be greater than 0"
    assert str(set_by_variable.value) == "FIRECRON_MARGIN='-1': Input should be greater than 0"


@pytest.mark.parametrize("settings", [{}, {"margin": 0.5}, "margin"])
@pytest.mark.parametrize("make", [FireCron, LockService])
def test_settings_that_are_none_are_refused(make: Callable[..., object], settings: object) -> None:
    """What isn't a Settings is refused with the value, and with what to write instead."""
    with pytest.raises(
        ConfigurationError, match=r"settings=.* is not a Settings: write settings=Settings\("
    ) as refused:
        make(settings=settings)
    assert repr(settings) in str(refused.value)


@pytest.mark.parametrize("url", ["https://ops:hunter2@x.firebaseio.com", "https://x.firebaseio.com?auth=hunter2"])
def test_settings_that_are_none_are_quoted_without_secrets(url: str) -> None:
    """A dictionary in place of a Settings is quoted, but not the password in its database's URL."""
    with pytest.raises(ConfigurationError, match="is not a Settings") as refused:
        FireCron(settings={"database_url": url})  # type: ignore[arg-type]  # that is what is refused
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("margn", "did you mean margin?"), ("role", "did you mean roles?"), ("xyz", "the settings are database")],
)
def test_an_argument_that_is_no_setting_is_refused(name: str, remedy: str) -> None:
    """A setting that isn't there is an error with the close name, or with all names where none is close."""
    with pytest.raises(ConfigurationError, match=f"^{name} is not a setting: {re.escape(remedy)}"):
        load(**{name: 5})


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("FIRECRON_ROLE", "did you mean FIRECRON_ROLES?"),
        ("firecron_margn", "did you mean FIRECRON_MARGIN?"),
        ("FIRECRON_XYZ", "the settings are FIRECRON_DATABASE_URL, FIRECRON_UID, "),
    ],
)
def test_a_variable_that_is_no_setting_is_listed(monkeypatch: pytest.MonkeyPatch, name: str, remedy: str) -> None:
    """A FIRECRON_… variable without effect keeps nothing from working, and is listed with the close name."""
    monkeypatch.setenv(name, "5")
    assert load() == load()
    ((problem, said),) = unknown_variables()
    assert problem == f"{name} is not a setting, and has no effect"
    assert said.startswith(remedy)


def test_variables_that_mean_something_are_not_listed() -> None:
    """Settings in capitals or small letters, what `firecron exec` tells its command, and others' variables are fine."""
    settings = [f"FIRECRON_{name.upper()}" for name in DEFAULTS]
    names = [*settings, *FACTS, "firecron_roles", "FIRECRON", "RUNTIME_INSTANCE", "FIREBASE_CONFIG"]
    assert unknown_variables(dict.fromkeys(names, "x")) == []


RELATIONS: list[tuple[dict[str, object], dict[str, object], tuple[str, ...]]] = [
    (
        {"request_timeout": 8.0, "release_timeout": 8},
        {"request_timeout": 8.1, "release_timeout": 9},
        ("request_timeout", "acquire_timeout"),
    ),
    ({"request_timeout": 5.0}, {"request_timeout": 5.1}, ("request_timeout", "release_timeout")),
    ({"acquire_timeout": 3.0}, {"acquire_timeout": 2.9}, ("request_timeout (3 s)", "acquire_timeout (2.9 s)")),
    ({"clock_interval": 2500}, {"clock_interval": 2501}, ("clock_interval (2501 s)", "margin (1 s)", "2500 s at most")),
    ({"margin": 0.121}, {"margin": 0.119}, ("clock_interval", "margin (0.119 s)")),
    ({"clock_drift": 0.0016}, {"clock_drift": 0.0017}, ("clock_interval", "drift", "margin")),
]


@pytest.mark.parametrize(("fits", "does_not", "named"), RELATIONS)
def test_settings_that_do_not_fit_together_are_refused(
    fits: dict[str, object], does_not: dict[str, object], named: tuple[str, ...]
) -> None:
    """A relation holds up to its bound; past it the refusal names both fields."""
    load(**fits)
    with pytest.raises(ConfigurationError) as raised:
        load(**does_not)
    for part in named:
        assert part in str(raised.value)


@pytest.mark.parametrize(("margin", "ttl"), [(1.0, 6_000), (0.5, 3_000), (10.0, 60_000)])
def test_a_ttl_is_six_margins_at_least(margin: float, ttl: int) -> None:
    """The margin may be a sixth of a ttl, and no more; the refusal names both and the remedy."""
    settings = load(margin=margin)
    settings.check_ttl(ttl)
    with pytest.raises(ConfigurationError, match=rf"lock_ttl \(.*\) is too short: .*the margin of {margin:g} s\)"):
        settings.check_ttl(ttl - 1, "lock_ttl")


def test_settings_can_not_be_changed() -> None:
    """What was checked stays as it was checked."""
    with pytest.raises(FrozenInstanceError):
        load().margin = 0  # type: ignore[misc]  # that is what is refused


def test_a_configuration_error_is_a_value_error() -> None:
    """Who catches ValueError catches a setting that can't be used, and its docstring is what it says by itself."""
    assert issubclass(ConfigurationError, ValueError)
    assert str(ConfigurationError()).startswith("A setting can't be used")
