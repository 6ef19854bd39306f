"""A job: a decorated function with its options, bound so that it can be called.

A job's function is called without arguments, or with its `Run` as the keyword argument that is annotated `Run`. A
function that needs any other argument is refused. Only `Job.call` calls the function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from firecron.jobs.around import Around, nothing
from firecron.jobs.declarations import claim
from firecron.jobs.decorator import function_of
from firecron.jobs.options import JobOptions
from firecron.jobs.parameters import is_async, parameter_of
from firecron.jobs.run import Run, running


@dataclass(frozen=True, slots=True)
class Job:
    """A function to run, bound, so that it can be called without arguments, or with its Run.

    Args:
        options: The options that it was declared with.
        function: The function, bound.
        where: Where the function was found, for people: its module and name.
        is_async: Whether a call returns an awaitable.
        run_parameter: The parameter that gets the Run; None if there is none.
        around: Returns what is around each call of the function, the outermost first.
    """

    options: JobOptions
    function: Callable[..., object]
    where: str
    is_async: bool
    run_parameter: str | None
    # A FireCron's registry sets it.
    around: Callable[[], Sequence[Around]] = field(default=nothing, repr=False, compare=False)

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

    def enter(self, run: Run) -> None:
        """Make this context part of the run."""
        running.set(run)

    def turns_async(self, run: Run) -> None:
        """Take the run for one of an async job: its function has returned an awaitable."""
        run.awaits_steps()

    def leave(self, run: Run) -> None:
        """Let the run begin nothing any more: the function has ended."""
        run.close_steps()


def make_job(options: JobOptions, function: Callable[..., object], where: str) -> Job:
    """Return the job of one function. Raise ConfigurationError if the function needs more than its Run."""
    run = parameter_of(Run, "job", function, where)
    claim(function_of(function), options.name)
    return Job(options, function, where, is_async(function), run)
