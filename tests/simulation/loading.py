"""The engine, imported afresh with the stand-ins: the sources as they are, or with a deliberate break in them.

    engine = Engine()                # or Engine([Break(...)])
    with engine.at_work() as world:
        world.play(...)

The modules of `fleets` use the engine, so they are imported with it. While an engine is at work, `sys.modules` has its
modules under firecron's names: the engine imports some of them only inside its functions. What was imported before is
there again afterwards, and knows nothing of all this.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import CodeType, ModuleType

from tests.simulation.stand_ins import MODULES, NO_SIGNALS

import firecron

ROOT = Path(__file__).parents[2]

_FLEETS = "tests.simulation.fleets"
_AFRESH = ("firecron", _FLEETS)
# Rooms that no instance of the fleet uses: doors for people, for the web and for metrics.
_LEFT_OUT = (
    "cli",
    "demo",
    "triggers",
    "otel",
    "logging",
    "cloud_logging",
    "outbox",
    "sentry",
    "pings",
    "page",
    "__main__",
)


@dataclass(frozen=True, slots=True)
class Patch:
    """A text in the source of a module, and what stands there instead. It has to be there exactly once."""

    module: str
    old: str
    new: str


class Engine:
    """One fresh import of firecron and of the simulated world."""

    def __init__(self, patches: Sequence[Patch] = ()) -> None:
        for name in _names():
            importlib.import_module(name)  # all that firecron needs of others is imported for real
        before = _taken_out()
        finder = _Patching(patches)
        sys.meta_path.insert(0, finder)
        try:
            with _replaced(MODULES):
                for name in _names():
                    importlib.import_module(name)
                self._world = importlib.import_module(f"{_FLEETS}.play")
        finally:
            sys.meta_path.remove(finder)
            self._modules = _taken_out()
            sys.modules.update(before)
        assert not finder.left, f"there is no module for {finder.left}"

    @contextmanager
    def at_work(self) -> Iterator[ModuleType]:
        """Have this engine's modules in `sys.modules`. Yields the module `fleets.play`."""
        before = _taken_out()
        sys.modules.update(self._modules)
        # Nobody presses Ctrl-C on a machine, and it leaves this process's handlers alone. Imported inside a function.
        signals = sys.modules["signal"]
        sys.modules["signal"] = NO_SIGNALS
        # Another test of this process may have configured Django, whose connections know nothing of greenlets.
        django = sys.modules.pop("django.db", None)
        try:
            yield self._world
        finally:
            _taken_out()
            sys.modules.update(before)
            sys.modules["signal"] = signals
            if django is not None:
                sys.modules["django.db"] = django


class _Patching(MetaPathFinder):
    """Finds the patched modules; the others are found as always."""

    def __init__(self, patches: Iterable[Patch]) -> None:
        self.left: dict[str, list[Patch]] = {}
        for patch in patches:
            self.left.setdefault(patch.module, []).append(patch)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        patches = self.left.pop(name, None)
        if patches is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _Patched(name, spec.origin, patches)
        return spec


class _Patched(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, patches: list[Patch]) -> None:
        super().__init__(name, path)
        self._patches = patches

    def get_code(self, fullname: str) -> CodeType:
        text = self.get_data(self.path).decode()
        for patch in self._patches:
            assert text.count(patch.old) == 1, f"{patch.old!r} is {text.count(patch.old)} times in {patch.module}"
            text = text.replace(patch.old, patch.new)
        return compile(text, self.path, "exec", dont_inherit=True)


def _names() -> list[str]:
    found = pkgutil.walk_packages(firecron.__path__, "firecron.")
    return [one.name for one in found if one.name.split(".")[1] not in _LEFT_OUT]


def _taken_out() -> dict[str, ModuleType]:
    """Take the modules that are imported afresh out of `sys.modules`, and return them."""
    names = [name for name in sys.modules if name in _AFRESH or name.startswith(tuple(f"{one}." for one in _AFRESH))]
    return {name: sys.modules.pop(name) for name in names}


@contextmanager
def _replaced(modules: Mapping[str, ModuleType]) -> Iterator[None]:
    before = {name: sys.modules[name] for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        sys.modules.update(before)
