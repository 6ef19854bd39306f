"""A job: a decorated function with its options, bound so that it can be called.

A job's function is called without arguments, or with its `Run` as the keyword argument that is annotated `Run`. A
function that needs any other argument is refused. Only `Job.call` calls the function.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import UnionType
from typing import Annotated, Union, get_args, get_origin

from firecron.errors import ConfigurationError
from firecron.jobs.declarations import claim
from firecron.jobs.decorator import function_of
from firecron.jobs.options import JobOptions
from firecron.jobs.run import Run


@dataclass(frozen=True, slots=True)
class Job:
    """A function to run, bound, so that it can be called without arguments, or with its Run.

    Args:
        options: The options that it was declared with.
        function: The function, bound.
        where: Where the function was found, for people: its module and name.
        is_async: Whether a call returns an awaitable.
        run_parameter: The parameter that gets the Run; None if there is none.
        around: The context in which the function is called, such as that of a Flask application.
    """

    options: JobOptions
    function: Callable[..., object]
    where: str
    is_async: bool
    run_parameter: str | None
    # The context in which the function is called (see `surroundings`). A FireCron's registry sets it.
    around: Callable[[], AbstractContextManager[object]] = field(default=nullcontext, repr=False, compare=False)

    @property
    def name(self) -> str:
        """Its name, and its node in the database."""
        return self.options.name

    def call(self, run: Run) -> object:
        """Call the function. An async function returns an awaitable.

        Args:
            run: The value of its `run_parameter`.
        """
        return self.function() if self.run_parameter is None else self.function(**{self.run_parameter: run})


def make_job(options: JobOptions, function: Callable[..., object], where: str) -> Job:
    """Return the job of one function. Raise ConfigurationError if the function needs more than its Run."""
    parameters = _parameters(function, where)
    run = next((name for name, parameter in parameters.items() if _takes_run(parameter)), None)
    for name, needed in parameters.items():
        is_optional = needed.default is not needed.empty or needed.kind in (needed.VAR_POSITIONAL, needed.VAR_KEYWORD)
        if name != run and not is_optional:
            if name == "run" and needed.annotation is needed.empty:
                raise ConfigurationError(
                    f"{where} needs the argument 'run': annotate it, `run: Run`, to get the job's Run"
                )
            raise ConfigurationError(
                f"{where} needs the argument {name!r}, but a job gets no arguments except its Run, "
                "as the keyword argument that is annotated `Run`"
            )
    claim(function_of(function), options.name)
    return Job(options, function, where, _is_async(function), run)


def _is_async(function: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _parameters(function: Callable[..., object], where: str) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function, eval_str=True).parameters
    except Exception:
        # An annotation can't be evaluated, such as a name that is imported for type checking only. It is read as text.
        try:
            return inspect.signature(function).parameters
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"{where} can't be a job, {error}: decorate a function that calls it") from None


def _takes_run(parameter: inspect.Parameter) -> bool:
    """Return whether the parameter is annotated Run (or Run | None), and can be given by name."""
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        return False
    annotation = parameter.annotation
    if isinstance(annotation, str):
        words = {name.rpartition(".")[2] for name in re.findall(r"[\w.]+", annotation)}
        return words - {"None", "Optional", "Union"} == {"Run"}
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):
        return Run in get_args(annotation)
    return annotation is Run
