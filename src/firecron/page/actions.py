"""What a POST does: run, pause, resume, unlock, cancel. Each act is recorded with its visitor.

    200   done; a run has ended, whatever its outcome
    400   the body is not valid for the act
    404   there is no such job or lock
    409   not done: this process has no code for the job, the lock refuses the run, or it has changed since it was seen
    503   the database is away, or this instance is stopping

A run goes on in this request until it has ended, so that Cloud Run's CPU stays on. It ends under its lock even if the
visitor leaves.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from firecron.base.events import Event, Events
from firecron.base.instants import to_datetime, to_text
from firecron.base.texts import described
from firecron.errors import ConfigurationError, Stopping, StoreError, UnknownJob
from firecron.jobs.registry import Result
from firecron.lock.fields import LONGEST_WHY
from firecron.ops.board import Board
from firecron.ops.operator import Operator, Seen
from firecron.page.messages import Access, Route, as_json, problem
from firecron.page.reads import Code, Details, store_problem
from firecron.web import SiteReply


class Actions:
    """Does what visitors ask for."""

    def __init__(self, operator: Operator, board: Board, details: Details, code: Code, events: Events) -> None:
        self._operator = operator
        self._events = events
        self._board = board
        self._details = details
        self._code = code

    def act(self, route: Route, body: Mapping[str, object], access: Access) -> SiteReply:
        name, who = route.name, access.who
        acts = {
            "run": self._run,
            "pause": self._pause,
            "resume": self._resume,
            "unlock": self._unlock,
            "cancel": self._cancel,
        }
        try:
            assert route.act is not None, "a POST has an act"
            return acts[route.act](name, body, who)
        except _RefusedAct as refused:
            return refused.reply
        except UnknownJob as error:
            return problem(404, "unknown_job", str(error))
        except Stopping:
            return problem(503, "stopping", "this instance is stopping and starts no more runs")
        except StoreError as error:
            return store_problem(error)
        finally:
            self._look_anew(name)

    def _look_anew(self, name: str) -> None:
        self._board.done()
        self._details.done(name)

    def _run(self, name: str, body: Mapping[str, object], who: str) -> SiteReply:
        resume, why = _text(body, "resume"), _why(body)
        tick = None if resume is None else _tick(resume)
        why_not = self._code.why_not(name)
        if why_not is not None or self._code.registry is None:
            self._seen(name)  # a name that nobody knows is a 404, as for each other act
            return problem(409, "no_code", f"{name} was not run: {why_not}")
        with self._recorded(name, why, who):
            try:
                result = self._code.registry.trigger(name, resume=tick)
            except ConfigurationError as error:
                raise _bad_body(str(error)) from None
            except KeyboardInterrupt as error:
                if threading.current_thread() is threading.main_thread():
                    raise
                # Raised by the job itself: Ctrl-C reaches the main thread only.
                result = Result(None, "failed", error=error)
        return _ran(name, result)

    @contextmanager
    def _recorded(self, name: str, why: str | None, who: str) -> Iterator[None]:
        """Record and show the run that begins in this block, if one does.

        Not at its end, because it may take hours; and beside it, because it must not wait.
        """
        here = threading.get_ident()

        def note(event: Event) -> None:
            # What begins elsewhere now is another's.
            if event.slug == "run.started" and event.name == name and threading.get_ident() == here:
                self._look_anew(name)
                recording = lambda: self._operator.record("run", name, why, by=who)  # noqa: E731
                threading.Thread(target=recording, name="firecron-act", daemon=True).start()

        forget = self._events.subscribe(note)
        try:
            yield
        finally:
            forget()

    def _pause(self, name: str, body: Mapping[str, object], who: str) -> SiteReply:
        why, until = _why(body), _instant(body, "until")
        self._seen(name)
        try:
            self._operator.pause(name, why, until, by=who)
        except ConfigurationError as error:  # it is over already
            raise _bad_body(str(error)) from None
        return _done(f"{name} is paused everywhere{'' if until is None else f' until {to_text(until)}'}")

    def _resume(self, name: str, body: Mapping[str, object], who: str) -> SiteReply:
        why = _why(body)
        seen = self._seen(name)
        if not seen.view.has_pause:
            return _done(f"{name} was not paused: nothing was changed")
        self._operator.resume(name, why, by=who)
        return _done(f"{name} is resumed")

    def _unlock(self, name: str, body: Mapping[str, object], who: str) -> SiteReply:
        why = _why(body)
        seen = self._seen(name)
        if not seen.view.is_taken:
            return _done(f"{name} is free already: nothing was changed")
        if not _is_of(seen, body.get("acquiredAt")) or not self._operator.unlock(seen, why, by=who):
            return _changed(name, "unlocked")
        return _done(f"{name} is unlocked")

    def _cancel(self, name: str, body: Mapping[str, object], who: str) -> SiteReply:
        why, fence = _why(body), body.get("fence")
        seen = self._seen(name)
        if fence is not None and fence != seen.view.fence:
            return _changed(name, "cancelled")
        if seen.view.why_not_cancelled is not None:
            return problem(409, "not_cancelled", f"{name} was not cancelled: {seen.view.why_not_cancelled}")
        if seen.view.is_cancelled:
            return _done(f"{name} is cancelled already: nothing was changed")
        if not self._operator.cancel(seen, why, by=who):
            return _changed(name, "cancelled")
        what = "the term" if seen.view.is_leaders else "the run"
        return _done(f"{name} is cancelled: {what} is asked to end at its next renewal")

    def _seen(self, name: str) -> Seen:
        """Return the lock as it is now. Refuse a name that is unknown, and a malformed node."""
        seen = self._operator.read(name)
        view = seen.view
        if view.state == "absent" and self._board.declared(name) is None:
            raise UnknownJob(f"{name} is no job: the catalogue and the locks don't have it")
        if view.state == "malformed":
            message = f"nothing was changed, because the node of {name} is malformed: {view.problem}; {view.remedy}"
            raise _RefusedAct(409, "malformed", message)
        return seen


class _RefusedAct(Exception):
    """An act that is not done, and the reply that says why."""

    def __init__(self, status: int, error: str, message: str) -> None:
        super().__init__(message)
        self.reply = problem(status, error, message)


def _bad_body(message: str) -> _RefusedAct:
    return _RefusedAct(400, "bad_request", message)


def _ran(name: str, result: Result) -> SiteReply:
    run, refusal = result.run, result.refusal
    slot = None if run is None or run.slot is None else to_text(run.slot)
    fields = {"job": name, "slot": slot, "run": None if run is None else run.idempotency_key}
    if refusal is not None:
        status = 503 if refusal.reason == "unavailable" else 409
        return as_json(
            status, {**fields, "result": refusal.reason, "error": refusal.reason, "message": refusal.message}
        )
    why = "" if result.error is None else f": {described(result.error)}"
    return as_json(200, {**fields, "result": result.outcome, "message": f'"{name}" {result.outcome}{why}'})


def _done(message: str) -> SiteReply:
    return as_json(200, {"message": message})


def _changed(name: str, what: str) -> SiteReply:
    return problem(409, "changed", f"{name} was not {what}: it has changed since it was seen")


def _is_of(seen: Seen, acquired: object) -> bool:
    """Return whether the lock is still that of the acquisition that the visitor saw, if the visitor says which."""
    since = seen.view.since
    return acquired is None or acquired == since or (since is not None and acquired == to_text(since))


def _text(body: Mapping[str, object], field: str) -> str | None:
    value = body.get(field)
    if value is not None and not isinstance(value, str):
        raise _bad_body(f"{field} is no text: {value!r:.60}")
    return value or None


def _why(body: Mapping[str, object]) -> str | None:
    why = _text(body, "why")
    if why is not None and len(why) > LONGEST_WHY:
        raise _bad_body(f"why has {len(why)} characters: give at most {LONGEST_WHY}")
    return why


def _instant(body: Mapping[str, object], field: str) -> datetime | None:
    text = _text(body, field)
    try:
        return None if text is None else to_datetime(text)
    except ValueError as error:
        raise _bad_body(f"{field}: {error}") from None


def _tick(text: str) -> datetime | str:
    """Return the tick to resume, or the key of a run by hand."""
    if "-manual-" in text:
        return text
    try:
        return to_datetime(text)
    except ValueError:
        raise _bad_body(f"resume {text!r:.60} is no tick: write it as 2026-11-18T09:00:00Z") from None
