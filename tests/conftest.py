"""Child processes for the tests that need real ones."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import pytest
from hypothesis import HealthCheck, Phase, settings
from tests.firebase_apps import delete_firebase_apps

import rtdb_emulator

# A property is judged by what it says, not by how fast this machine is just now.
settings.register_profile("without-a-clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The tests of a mutant only have to fail, so Hypothesis looks for no smaller example.
settings.register_profile(
    "first-example", settings.get_profile("without-a-clock"), phases=(Phase.explicit, Phase.reuse, Phase.generate)
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "without-a-clock"))

# Nothing here takes a tenth of it; a child that hangs is killed then, so that the test fails and not the whole run.
BOUND = 40.0

HERE = Path(__file__).parent
PLUGIN = "rtdb_emulator.pytest_plugin"
INSTALLED = any(entry.value == PLUGIN for entry in entry_points(group="pytest11"))

Process: TypeAlias = "subprocess.Popen[str]"
Finished: TypeAlias = "subprocess.CompletedProcess[str]"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let a worker that is done take tests from the others: many tests wait, and some for long."""
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


# Each worker begins with one of these parts, and goes on with a share of the short tests. The first part waits most of
# its time and the others compute: a processor has work while a worker waits. The short tests are left for the end, so
# that no worker is alone with a long one then.
HEADS = (("process",), ("simulation",), ("interleaving",), ("mutation", "invariants"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers > 1:
        items[:] = spread(items, workers)


def spread(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """The tests in the order in which each worker is handed, at first, as many as the others: its head and the next of
    those that are in no head.
    """
    heads: list[list[pytest.Item]] = [[] for _ in range(workers)]
    rest: list[pytest.Item] = []
    part_of = {folder: number % workers for number, folders in enumerate(HEADS) for folder in folders}
    for item in items:
        part = part_of.get(item.path.relative_to(HERE).parts[0])
        (rest if part is None else heads[part]).append(item)
    ordered: list[pytest.Item] = []
    for number, head in enumerate(heads, 1):
        added = max(0, len(items) * number // workers - len(ordered) - len(head))
        ordered += head + rest[:added]
        rest = rest[added:]
    return ordered + rest


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


class Run(Protocol):
    def __call__(self, *command: str) -> Finished: ...


class RunPytest(Protocol):
    def __call__(self, text: str, *arguments: str) -> Finished: ...


class Start(Protocol):
    def __call__(self, *command: str) -> Process: ...


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


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts this interpreter with these arguments, in a directory of the test; none outlives the test."""
    # So that a child finds the package where this process has it, also if it isn't installed.
    package = str(Path(rtdb_emulator.__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")])))
    # What the run around the tests says about itself is no business of a child's.
    for name in [name for name in os.environ if name.startswith(("PYTEST_", "COV_"))]:
        monkeypatch.delenv(name)
    with ExitStack() as cleanup:

        def begin(*command: str) -> Process:
            process = subprocess.Popen(
                [sys.executable, *command],
                cwd=tmp_path,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            cleanup.enter_context(process)
            cleanup.callback(process.kill)
            watchdog = threading.Timer(BOUND, process.kill)
            cleanup.callback(watchdog.cancel)
            watchdog.start()
            return process

        yield begin


@pytest.fixture
def run(start: Start) -> Run:
    """Runs this interpreter with these arguments until it ends."""

    def complete(*command: str) -> Finished:
        process = start(*command)
        stdout, stderr = process.communicate()
        return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)

    return complete


@pytest.fixture
def run_pytest(run: Run, tmp_path: Path) -> RunPytest:
    """Runs pytest, with the plugin, on a file with this text."""

    def complete(text: str, *arguments: str) -> Finished:
        Path(tmp_path, "test_it.py").write_text(text, "utf-8")
        plugin = [] if INSTALLED else ["-p", PLUGIN]
        # These take as long to import as pytest.
        unused = [f"-pno:{name}" for name in ("cacheprovider", "hypothesispytest", "anyio", "timeout")]
        return run("-m", "pytest", "-q", *unused, "-W", "error", *plugin, *arguments)

    return complete


@pytest.fixture(params=("asgi", "flask", "django"))
def shell(request: pytest.FixtureRequest) -> Any:
    """Each framework that the page and the triggers are served by: they must not differ."""
    return request.param
