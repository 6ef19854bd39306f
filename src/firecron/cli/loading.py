"""Loading the FireCron that `module:object` names.

The current folder is importable, as it is for `python -m`. Where `DJANGO_SETTINGS_MODULE` names a Django project, it is
set up first, because its jobs need its models. Standard output belongs to the command, so what the module prints during
its import goes to standard error. Nothing is started, and the database is not read.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from firecron.app import FireCron
from firecron.cli.output import Exit, Failure
from firecron.errors import ConfigurationError
from firecron.jobs.decorator import Unclaimed, unclaimed

T = TypeVar("T")

_DJANGO_SETTINGS = "DJANGO_SETTINGS_MODULE"


@dataclass(frozen=True, slots=True)
class Loaded:
    """An application, and the jobs that it declares but doesn't give to a FireCron."""

    crons: FireCron
    unclaimed: Sequence[Unclaimed] = ()


def load_crons(target: str) -> FireCron:
    """Return the FireCron that `target` names, or a new FireCron of the object that it names.

    Raises Failure if `target` can't be imported, or has no jobs.
    """
    return load(target).crons


def load(target: str) -> Loaded:
    """Return the FireCron of `load_crons`, with the unclaimed jobs.

    Unclaimed jobs are listed only if `target` is a FireCron. A program that makes no FireCron has forgotten no job.
    """
    module_name, _, path = target.partition(":")
    found: object = _import(module_name, target)
    for part in path.split(".") if path else ():
        try:
            found = getattr(found, part)
        except AttributeError:
            raise Failure(f"there is no {path!r} in {module_name}{_hint(module_name)}", Exit.USAGE) from None
    if isinstance(found, FireCron):
        return Loaded(found, unclaimed())
    crons = FireCron(found)
    if not crons.registry.jobs() and not crons.engine.leaders.all():
        raise Failure(
            f"{target} has no jobs: it is {_kind(found)}, and nothing in it is decorated with "
            f"distributed_cron or leader{_hint(module_name)}",
            Exit.USAGE,
        )
    return Loaded(crons)


def _import(name: str, target: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise Failure(f"{target!r} is not a module:object: write, for example, myservice.main:crons", Exit.USAGE)
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    settings = os.environ.get(_DJANGO_SETTINGS)
    if settings and importlib.util.find_spec("django") is not None:
        _loading(f"the Django project of {_DJANGO_SETTINGS}={settings}", _set_up_django)
    try:
        return _loading(name, lambda: importlib.import_module(name))
    except ModuleNotFoundError as error:
        # A file's name, as it is given to python itself.
        module = f": write {target.replace('.py', '', 1)}" if name.endswith(".py") else ""
        message = f"there is no module {error.name!r} in {folder} or on Python's path{module}"
        raise Failure(message, Exit.USAGE) from None


def _loading(name: str, load: Callable[[], T]) -> T:
    """Return what `load` returns. Raise Failure for what it raises, but ModuleNotFoundError for the module `name`."""
    try:
        with redirect_stdout(sys.stderr):
            return load()
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            raise
        code = Exit.USAGE if isinstance(error, ConfigurationError) else Exit.FAILED
        raise Failure(_described(name, error), code) from error


def _set_up_django() -> None:
    """Set Django up as its servers and commands do, unless one of them has."""
    import django
    from django.apps import apps

    if not apps.ready:
        django.setup()


def _described(name: str, error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{name} can't be imported: {type(error).__name__}: {error} ({last.filename}, line {last.lineno})"


def _hint(module_name: str) -> str:
    names = [name for name, value in vars(sys.modules[module_name]).items() if isinstance(value, FireCron)]
    return f"; did you mean {' or '.join(f'{module_name}:{name}' for name in names)}?" if names else ""


def _kind(found: object) -> str:
    if isinstance(found, type | ModuleType):
        return f"the {'class' if isinstance(found, type) else 'module'} {found.__name__}"
    return f"a {type(found).__name__}"
