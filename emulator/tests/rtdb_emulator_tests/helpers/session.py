"""How a run of pytest is set up: the hooks and fixtures that every conftest here has."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from rtdb_emulator_tests.helpers.firebase_apps import delete_firebase_apps

# A property is judged by what it says, not by how fast this machine is just now.
settings.register_profile("without-a-clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The tests of a mutant only have to fail, so Hypothesis looks for no smaller example.
settings.register_profile(
    "first-example", settings.get_profile("without-a-clock"), phases=(Phase.explicit, Phase.reuse, Phase.generate)
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "without-a-clock"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let a worker that is done take tests from the others: many tests wait, and some for long."""
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the collector of cyclic garbage away from what is collected: it stays until the end, in cycles or not."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Half characters that a test had logged are shown as a question mark: xdist can't send them."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "replace").decode()) for name, text in report.sections]
    return report


def pytest_configure() -> None:
    """Undo what children would inherit: signals that a shell, or `nohup`, ignores in a job in the background, and a ban
    on bytecode.
    """
    for number, handler in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGQUIT, signal.SIG_DFL),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    # Many images set it. Each child would compile the sources again, which is half of what a short one costs.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture(autouse=True)
def no_firebase_app_outlives_its_test() -> Iterator[None]:
    """Deletes the Firebase apps that a test has made."""
    yield
    delete_firebase_apps()


@pytest.fixture
def deep() -> Iterator[None]:
    """For a test that goes to the depth of the stack: a collection there would find no room for what it calls."""
    gc.disable()
    yield
    gc.enable()
