"""The production guard: where jobs may tick."""

from __future__ import annotations

import pytest

from firecron.scheduler.startup import Verdict, evaluate_guard
from firecron.settings import load

NOT_SET = "RUNTIME_INSTANCE is not set, and jobs tick only where it is 'production'"
STAGING = "RUNTIME_INSTANCE is 'staging', and jobs tick only where it is 'production'"
CLOUD_RUN = "; this looks like production, because K_SERVICE is 'api'"
WORKER_POOL = "; this looks like production, because CLOUD_RUN_WORKER_POOL is 'ticks'"


@pytest.mark.parametrize(
    ("environment", "verdict"),
    [
        ({"RUNTIME_INSTANCE": "production"}, Verdict(True, "RUNTIME_INSTANCE is 'production'")),
        ({"RUNTIME_INSTANCE": "production", "K_SERVICE": "api"}, Verdict(True, "RUNTIME_INSTANCE is 'production'")),
        ({}, Verdict(False, NOT_SET)),
        ({"K_SERVICE": ""}, Verdict(False, NOT_SET)),
        ({"RUNTIME_INSTANCE": "staging"}, Verdict(False, STAGING, is_suspicious=True)),
        ({"K_SERVICE": "api"}, Verdict(False, NOT_SET + CLOUD_RUN, is_suspicious=True)),
        ({"CLOUD_RUN_WORKER_POOL": "ticks"}, Verdict(False, NOT_SET + WORKER_POOL, is_suspicious=True)),
        ({"CLOUD_RUN_JOB": "import"}, Verdict(False, NOT_SET)),
        ({"RUNTIME_INSTANCE": "staging", "K_SERVICE": "api"}, Verdict(False, STAGING + CLOUD_RUN, is_suspicious=True)),
    ],
)
def test_jobs_tick_in_production_only(environment: dict[str, str], verdict: Verdict) -> None:
    """The variable decides; what it is, is said. It is suspicious if it has another value, and in a service or worker
    pool of Cloud Run if it isn't production.
    """
    assert evaluate_guard(None, load(), environment) == verdict


@pytest.mark.parametrize("value", ["", "Production", "production ", "prod", "true"])
def test_only_the_very_word_will_do(value: str) -> None:
    """Anything near the word is not it, is shown as it is, and is suspicious, unless it is empty."""
    verdict = evaluate_guard(None, load(), {"RUNTIME_INSTANCE": value})
    assert not verdict.may_tick
    assert f"RUNTIME_INSTANCE is {value!r}" in verdict.why
    assert verdict.is_suspicious is bool(value)


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("environment", [{}, {"RUNTIME_INSTANCE": "production"}, {"K_SERVICE": "api"}])
def test_the_program_has_the_last_word(enabled: bool, environment: dict[str, str]) -> None:
    """`enabled` overrides the variable both ways, is forced, and isn't suspicious."""
    said = f"FireCron was created with enabled={enabled}"
    assert evaluate_guard(enabled, load(), environment) == Verdict(enabled, said, is_forced=True)


def test_the_variable_and_its_value_can_be_others() -> None:
    """Another variable and another value can be asked for."""
    stage = load(runtime_variable="STAGE", runtime_value="live")
    assert evaluate_guard(None, stage, {"STAGE": "live"}).may_tick
    verdict = evaluate_guard(None, stage, {"RUNTIME_INSTANCE": "production"})
    assert verdict == Verdict(False, "STAGE is not set, and jobs tick only where it is 'live'")


def test_the_process_is_asked_if_nothing_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an argument, the environment of the process counts as it is at that time."""
    monkeypatch.setenv("RUNTIME_INSTANCE", "production")
    assert evaluate_guard(None, load()).may_tick
    monkeypatch.delenv("RUNTIME_INSTANCE")
    assert not evaluate_guard(None, load()).may_tick
