"""What is around a run, and what it says of itself, broken in turn: the list for `tests.mutations`."""

from __future__ import annotations

from tests.invariants.mutants import Mutant

AROUND = "tests/unit/runs/test_body_around.py"
GIVEN = "tests/unit/jobs/test_job_around.py"
DJANGO = "tests/unit/runs/test_body_contexts.py"
NOTES = "tests/unit/jobs/test_run.py"
BEGINNING = "tests/unit/runs/test_execution_beginning.py"
SPANS = "tests/unit/test_otel_spans.py"
GRACE = "tests/unit/scheduler/test_engine_grace.py"
BODY = "tests/unit/runs/test_body.py"


def _in(file: str, *changes: tuple[str, str, str]) -> tuple[Mutant, ...]:
    return tuple(Mutant(file, *change) for change in changes)


RUN_MUTANTS = (
    *_in(
        "jobs/job.py",
        ("if not isinstance(around, Iterable):", "if False:", GIVEN),
        ("    if not callable(around):\n", "    if False:\n", GIVEN),
        ("if isinstance(around, AbstractContextManager | AbstractAsyncContextManager):", "if False:", GIVEN),
        (
            "if inspect.isgeneratorfunction(around) or inspect.isasyncgenfunction(around):",
            "if inspect.isasyncgenfunction(around):",
            GIVEN,
        ),
        (
            "if inspect.isgeneratorfunction(around) or inspect.isasyncgenfunction(around):",
            "if inspect.isgeneratorfunction(around):",
            GIVEN,
        ),
        ("if inspect.iscoroutinefunction(around):", "if False:", GIVEN),
        ("        signature.bind(None)\n", "        pass\n", GIVEN),
        ("if not is_async and _is_async(around):", "if not is_async:", GIVEN),
        ("if not is_async and _is_async(around):", "if _is_async(around):", GIVEN),
        ("if inspect.isasyncgenfunction(function):", "if False:", GIVEN),
        (
            "inspect.unwrap(around.func if isinstance(around, functools.partial) else around)",
            "inspect.unwrap(around)",
            GIVEN,
        ),
        ("    if not isinstance(around, type):\n        try:", "    if False:\n        try:", GIVEN),
        ("issubclass(kind, AbstractAsyncContextManager)", "True", GIVEN),
        ("and not issubclass(kind, AbstractContextManager)", "", GIVEN),
        ("get_origin(made) or made", "made", GIVEN),
    ),
    *_in(
        "runs/body.py",
        ("if not isinstance(made, AbstractContextManager):", "if False:", AROUND),
        ("if isinstance(made, AbstractAsyncContextManager):", "if False:", AROUND),
        (
            "not_entered(around, repr(name)) if is_async else no_context(around, made)",
            "no_context(around, made)",
            AROUND,
        ),
        ("    stack.push(leave)\n", "", AROUND),
        ("    stack.push_async_exit(leave)\n", "", AROUND),
        ("    made.__enter__()\n", "", AROUND),
        (
            "        made.__exit__(kind, error, traceback)\n",
            "        return made.__exit__(kind, error, traceback)\n",
            AROUND,
        ),
        (
            "        await made.__aexit__(kind, error, traceback)\n",
            "        return await made.__aexit__(kind, error, traceback)\n",
            AROUND,
        ),
    ),
    *_in(
        "runs/body.py",
        ("return _Connections() if has_django() else nullcontext()", "return nullcontext()", DJANGO),
        ('    if "django.db" not in sys.modules:\n', "    if False:\n", DJANGO),
        ("return bool(settings.configured)", "return True", DJANGO),
    ),
    *_in(
        "runs/body.py",
        ("(connections, *self._job.around())", "(*self._job.around(),)", DJANGO),
        ("(connections, *self._job.around())", "(connections,)", AROUND),
        ("if own is None or own is error:", "if own is None:", BODY),
        ("is_cut and subject.stopping", "is_cut", BODY),
        ("if subject.lost and (is_cut", "if (is_cut", BODY),
    ),
    *_in(
        "jobs/registry.py",
        ("check_fit(self._given, one.name, one.where, is_async=one.is_async)", "pass", GIVEN),
        ("(*self._outer, *self.contexts(), *self._given)", "(*self._outer, *self._given, *self.contexts())", AROUND),
        ("(*self._outer, *self.contexts(), *self._given)", "(*self.contexts(), *self._given)", AROUND),
        ("self._outer = (around, *self._outer)", "self._outer = (*self._outer, around)", AROUND),
        ("for other in self._outer if other is not around", "for other in self._outer", AROUND),
        ("given if given.around is not nothing else", "", AROUND),
    ),
    *_in(
        "jobs/run.py",
        ("        if not isinstance(text, str):\n", "        if False:\n", NOTES),
        ("        if self._has_ended:\n", "        if False:\n", NOTES),
        ("        self._has_ended = True\n", "        pass\n", NOTES),
        ("len(said) <= LONGEST_NOTE else", "len(said) < LONGEST_NOTE else", NOTES),
        ("said[: LONGEST_NOTE - 1]", "said[:LONGEST_NOTE]", NOTES),
        ("redacted(text[:_MOST_READ].strip())", "text[:_MOST_READ].strip()", NOTES),
        ("text[:_MOST_READ].strip()", "text[:_MOST_READ]", NOTES),
        ("storable(redacted(text[:_MOST_READ].strip()))", "redacted(text[:_MOST_READ].strip())", NOTES),
        ('[: LONGEST_NOTE - 1]}…") or None', '[: LONGEST_NOTE - 1]}…")', NOTES),
    ),
    *_in(
        "runs/runner.py",
        ("        run.end()\n", "", NOTES),
        ("            note=run.noted,\n        )\n", "        )\n", NOTES),
        ("took=took, note=run.noted", "took=took", NOTES),
    ),
    *_in(
        "runs/execution.py",
        ("to_milliseconds(slot) - 1", "to_milliseconds(slot)", BEGINNING),
        (
            "to_milliseconds(key[:_LENGTH]) if slot is None",
            "to_milliseconds(key[:_LENGTH]) - 1 if slot is None",
            BEGINNING,
        ),
        (
            "claimed.key or manual_key(claimed.held.trust.reading.server, run_id)",
            "manual_key(claimed.held.trust.reading.server, run_id)",
            BEGINNING,
        ),
        ("if bid.momentary or not bid.fenced or", "if not bid.fenced or", BEGINNING),
        ("if bid.momentary or not bid.fenced or", "if bid.momentary or", BEGINNING),
        ("newest_success < claimed.slot", "newest_success <= claimed.slot", BEGINNING),
        ("newest_success < claimed.slot", "True", BEGINNING),
        ("claimed.slot is None or newest_success", "claimed.slot is not None and newest_success", BEGINNING),
        ("attempt, key = resumed.attempt,", "attempt, key = 1,", "tests/unit/runs/test_claimer_resuming.py"),
        ("claimed.bid.fenced and fence is not None", "fence is not None", BEGINNING),
    ),
    *_in(
        "scheduler/engine.py",
        (
            "        if not self.runner.stopping:\n            self._ends = ends",
            "        if True:\n            self._ends = ends",
            GRACE,
        ),
        ("/ 1000)) if self.runner.stopping else most", "/ 1000))", GRACE),
        ("return max(0.0, min(most, (self._ends", "return max(-9.0, min(most, (self._ends", GRACE),
        ("min(most, (self._ends - self._database.timing.mono()) / 1000)", "most", GRACE),
    ),
    *_in(
        "otel.py",
        ('"lost" if run.lost else outcome_of(run, error)', "outcome_of(run, error)", SPANS),
        ('if outcome in ("failed", "lost"):', 'if outcome in ("failed",):', SPANS),
        ('if outcome in ("failed", "lost"):', 'if outcome != "succeeded":', SPANS),
        ("            unwrap()\n", "            pass\n", SPANS),
        (
            "record_exception=False, set_status_on_exception=False",
            "record_exception=True, set_status_on_exception=False",
            SPANS,
        ),
        ('redacted("".join(traceback.format_exception(error)))', '"".join(traceback.format_exception(error))', SPANS),
    ),
)
