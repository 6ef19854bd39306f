"""The parameters of a stored job's function: what its entries may give it as arguments. Pure.

They are known from the code, and where that is not, from the catalogue. There `parameters` is one text: the names with
spaces between them, `=` after a name that may be left out, and `**` for a function that takes any name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from firecron.base.instants import number
from firecron.errors import ConfigurationError
from firecron.jobs.decorator import parameters_in, takes
from firecron.jobs.options import JobOptions, reruns, waits
from firecron.jobs.run import Run
from firecron.lock.stored import LookOptions

_ANY = "**"
_OPTIONAL = "="


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a stored job takes: the names that it needs, and those that it may get; any name, if it `takes_any`.

    Besides, what of its options decides when an entry is looked at. `keep_closed` is in milliseconds.
    """

    needed: frozenset[str]
    optional: frozenset[str]
    takes_any: bool
    waits: bool
    reruns: bool
    keep_closed: int

    def look(self, margin: int) -> LookOptions:
        """Return what decides when an entry is looked at."""
        return LookOptions(margin, self.waits, self.reruns, self.keep_closed)

    def to_text(self) -> str:
        """Return the parameters as the catalogue has them."""
        optional = [f"{name}{_OPTIONAL}" for name in sorted(self.optional)]
        return " ".join([*sorted(self.needed), *optional, *([_ANY] if self.takes_any else [])])

    def problem(self, args: Mapping[str, object]) -> str | None:
        """Return why the function can't be called with these arguments; None if it can."""
        missing = sorted(self.needed - args.keys())
        if missing:
            return f"its function needs the argument {missing[0]!r}"
        unknown = sorted(args.keys() - self.needed - self.optional)
        if unknown and not self.takes_any:
            known = ", ".join(sorted(self.needed | self.optional)) or "no arguments"
            return f"its function has no argument {unknown[0]!r}: it takes {known}"
        return None


def parameters_of(options: JobOptions, function: Callable[..., object], where: str) -> Parameters:
    """Return what a stored job's function takes besides its Run. Raise ConfigurationError for one that can't be."""
    assert options.stored is not None, "only a stored job has entries"
    needed, optional, takes_any = set[str](), set[str](), False
    run_given = False
    for name, one in parameters_in(function, where, "job").items():
        if not run_given and takes(Run, one):
            run_given = True
        elif one.kind is one.VAR_KEYWORD:
            takes_any = True
        elif one.kind is one.POSITIONAL_ONLY and one.default is inspect.Parameter.empty:
            raise ConfigurationError(f"{where} needs the argument {name!r} by its position: let it take it by name")
        elif one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            (needed if one.default is inspect.Parameter.empty else optional).add(name)
    return Parameters(
        frozenset(needed), frozenset(optional), takes_any, options.waits, options.reruns, options.stored.keep_closed
    )


def run_parameter_of(function: Callable[..., object], where: str) -> str | None:
    """Return the name of the parameter of a stored job's function that gets the Run; None if there is none."""
    return next((name for name, one in parameters_in(function, where, "job").items() if takes(Run, one)), None)


def not_stored(job: str) -> ConfigurationError:
    """Return the error for schedules that are put for a job with one of its own."""
    return ConfigurationError(f"the job {job!r} has its schedule in its code: only one of @scheduled has others")


def read_parameters(job: str, node: object) -> Parameters | None:
    """Return what the catalogue says of a stored job; None if it says nothing.

    Raise ConfigurationError for a job with a schedule of its own.
    """
    if not isinstance(node, Mapping):
        return None
    if node.get("stored") is not True:
        raise not_stored(job)
    text, overlap, keep = node.get("parameters"), node.get("overlap"), number(node.get("keepClosed"))
    names = text.split() if isinstance(text, str) else [_ANY]
    return Parameters(
        frozenset(name for name in names if not name.endswith((_OPTIONAL, _ANY))),
        frozenset(name.removesuffix(_OPTIONAL) for name in names if name.endswith(_OPTIONAL)),
        _ANY in names,
        waits(overlap) if isinstance(overlap, str) else False,
        reruns(str(node.get("onAbandoned"))),
        LookOptions(0).keep_closed if keep is None else 1000 * keep,
    )


def check_args(name: str, args: Mapping[str, object], parameters: Parameters) -> None:
    """Raise ConfigurationError if the function can't be called with the arguments of this entry."""
    problem = parameters.problem(args)
    if problem is not None:
        raise ConfigurationError(f"args={dict(args)!r:.80} of {name} can't be used: {problem}")
