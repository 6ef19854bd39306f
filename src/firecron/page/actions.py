"""What a POST does: run, pause, resume, unlock, cancel, mute, unmute, forget; hold and unhold.

Each act is recorded with its visitor.

    200   done; a run has ended, whatever its outcome
    202   this process has no code for the job, so an instance that has it is asked for the run (`lock/asks`)
    400   the body is not valid for the act
    404   there is no such job or lock
    409   not done: the lock refuses the run, no instance may be asked for it or one is asked already, it has changed
          since it was seen, or a live instance has the job that is to be forgotten
    503   the database is away, or this instance is stopping

What is not done says why in the page's words, and what to do (`ops/remedies`): the words of a refusal are the log's.

A run claims no tick; with `slot` it is that of a tick that was missed, and with `resume` the next attempt at one that
has not succeeded.

A run goes on in this request until it has ended, so that Cloud Run's CPU stays on. It ends under its lock even if the
visitor leaves.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from firecron.base.events import Event
from firecron.base.instants import to_datetime, to_text
from firecron.base.texts import described, redacted
from firecron.cron.schedule import is_tick
from firecron.errors import ConfigurationError, Stopping, StoreError, UnknownJob
from firecron.jobs.registry import Result
from firecron.lock.fields import LONGEST_WHY
from firecron.lock.refusal import Refusal
from firecron.ops.asks import NotAsked, RunAsks
from firecron.ops.holds import Holds
from firecron.ops.mutes import Mutes
from firecron.ops.operator import Seen
from firecron.ops.remedies import of_refusal, why_refused
from firecron.ops.remedy import Remedy, freeing, service_in_words
from firecron.page.messages import Access, Route, as_json, problem
from firecron.page.reads import Reads, store_problem
from firecron.runs.entry import is_manual
from firecron.store import is_entry_name
from firecron.web import SiteReply

_NAMED = 10
_ELSEWHERE = Remedy("run it where its code is: on the page of its own service, or at a terminal")


class Actions:
    """Does what visitors ask for."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._operator = reads.operator
        self._holds = Holds(reads.board.database)

    def act(self, route: Route, body: Mapping[str, object], access: Access) -> SiteReply:
        name, who = route.name, access.who
        acts = {
            "run": self._run,
            "pause": self._pause,
            "resume": self._resume,
            "unlock": self._unlock,
            "cancel": self._cancel,
            "mute": self._mute,
            "unmute": self._unmute,
            "forget": self._forget,
            "hold": self._hold,
            "unhold": self._unhold,
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
            self._reads.done(name)

    def _run(self, name: str, body: Mapping[str, object], who: str) -> SiteReply:
        resume, slot, why = _text(body, "resume"), _instant(body, "slot"), _why(body)
        tick = None if resume is None else _tick(resume)
        code = self._reads.code
        why_not, registry = code.why_not_runnable(name), code.registry
        if why_not is not None or registry is None or is_entry_name(name):
            self._seen(name)  # a name that nobody knows is a 404, as for each other act
        if why_not is not None or registry is None:
            if is_entry_name(name):  # nobody is asked for a run of one
                return problem(409, "no_code", f"{name} was not run: {why_not}", remedy=_ELSEWHERE)
            return self._ask(name, slot, resume, why, who)
        job = registry.find(name)
        if slot is not None and not isinstance(job, Refusal) and not is_tick(job.options.schedule, to_text(slot)):
            raise _bad_body(f"slot {to_text(slot)} is no tick of {name}")
        with self._recorded(name, why, who):
            try:
                result = registry.trigger(name, slot=slot, resume=tick)
            except ConfigurationError as error:
                raise _bad_body(str(error)) from None
            except KeyboardInterrupt as error:
                if threading.current_thread() is threading.main_thread():
                    raise
                # Raised by the job itself: Ctrl-C reaches the main thread only.
                result = Result(None, "failed", error=error)
        return _ran(name, result, is_resumed=tick is not None)

    def _ask(self, name: str, slot: datetime | None, resume: str | None, why: str | None, who: str) -> SiteReply:
        """Ask the instances that have the code for the run."""
        try:
            found = RunAsks(self._reads.board.database).ask(name, slot=slot, resume=resume, why=why, by=who)
        except ConfigurationError as error:
            raise _bad_body(str(error)) from None
        self._reads.board.asked()
        if isinstance(found, NotAsked):
            if found.word == "no_tick":
                raise _bad_body(f"slot: {found.why}")
            remedy = found.remedy or (_ELSEWHERE if found.word in ("no_ticks", "disabled") else None)
            return problem(409, found.word, f"{name} was not run: {found.why}", remedy=remedy)
        nobody = "; but no live instance has it now" if found.is_attended is False else ""
        said = f"{found.ask.what} of {name} is asked for{nobody}"
        return as_json(202, {"job": name, "ask": found.ask.to_json(), "message": said})

    @contextmanager
    def _recorded(self, name: str, why: str | None, who: str) -> Iterator[None]:
        """Record and show the run that begins in this block, if one does.

        Not at its end, because it may take hours; and beside it, because it must not wait.
        """
        here = threading.get_ident()

        def note(event: Event) -> None:
            # What begins elsewhere now is another's.
            if event.slug == "run.started" and event.name == name and threading.get_ident() == here:
                self._reads.done(name)
                recording = lambda: self._operator.record("run", name, why, by=who)  # noqa: E731
                threading.Thread(target=recording, name="firecron-act", daemon=True).start()

        forget = self._reads.board.database.events.subscribe(note)
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
            remedy = freeing(name) if seen.view.state == "held" else None
            why_not = f"{name} was not cancelled: {seen.view.why_not_cancelled}"
            return problem(409, "not_cancelled", why_not, remedy=remedy)
        if seen.view.is_cancelled:
            return _done(f"{name} is cancelled already: nothing was changed")
        if not self._operator.cancel(seen, why, by=who):
            return _changed(name, "cancelled")
        what = "the term" if seen.view.is_leaders else "the run"
        return _done(f"{name} is cancelled: {what} is asked to end at its next renewal")

    def _mute(self, name: str, body: Mapping[str, object], who: str) -> SiteReply:
        why, until = _why(body), _instant(body, "until")
        if until is None:
            raise _bad_body("until is missing: a mute always ends")
        self._declared(name)
        try:
            Mutes(self._reads.board.database).mute(name, until, why or "", by=who)
        except ConfigurationError as error:
            raise _bad_body(str(error)) from None
        self._reads.board.done(of_many=True)
        return _done(f"{name} is muted until {to_text(until)}: until then nobody is told of it")

    def _unmute(self, name: str, body: Mapping[str, object], who: str) -> SiteReply:
        why = _why(body)
        self._declared(name)
        changed = Mutes(self._reads.board.database).unmute(name, why, by=who)
        self._reads.board.done(of_many=True)
        return _done(f"{name} is not muted any more" if changed else f"{name} was not muted: nothing was changed")

    def _declared(self, name: str) -> None:
        if self._reads.board.declared(name) is None:
            raise UnknownJob(f"{name} is no job of the catalogue, so nobody is told of it")

    def _forget(self, name: str, body: Mapping[str, object], who: str) -> SiteReply:
        why = _why(body)
        [seen] = self._operator.entries([name])
        if seen.snapshot.node is None:
            raise UnknownJob(f"{name} is not in the catalogue")
        if seen.live:
            where = " and ".join(sorted({service_in_words(group.service) for group in seen.live}))
            message = f"{name} was not forgotten: live instances of {where} have it, and would declare it again"
            return problem(409, "live", message, remedy=Remedy("take it out of the program first"))
        if not self._operator.forget(seen):
            return _changed(name, "forgotten")
        self._operator.record("forget", name, why, by=who)
        self._reads.board.done(of_many=True)
        return _done(f"{name} is forgotten; its lock and its history stay")

    def _hold(self, _: str, body: Mapping[str, object], who: str) -> SiteReply:
        why, until = _why(body), _instant(body, "until")
        if until is None:
            raise _bad_body("until is missing: a hold always ends")
        try:
            made = self._holds.hold(
                until, why or "", service=_text(body, "service"), match=_text(body, "match"), by=who
            )
        except ConfigurationError as error:
            raise _bad_body(str(error)) from None
        self._reads.board.done(of_many=True)
        said = f"{_counted(len(made.held))} held until {to_text(until)}"
        if made.is_taken_back:
            said = "nothing is held: somebody has taken the hold back meanwhile"
        left = ""
        if made.left:
            some = "1 stays as it is" if len(made.left) == 1 else f"{len(made.left):,} stay as they are"
            left = f"; {some}, because of a longer pause"
        unknown = "" if made.is_recorded else "; the security rules don't know holds, so jobs that come are not held"
        return as_json(200, {**made.to_json(), "message": f"{said}{left}{_failures(made.failed)}{unknown}"})

    def _unhold(self, _: str, body: Mapping[str, object], who: str) -> SiteReply:
        why, name = _why(body), _text(body, "hold")
        if name is None or name not in {view.hold.name for view in self._holds.seen()}:
            return problem(404, "unknown_hold", "there is no such hold any more: nothing was changed")
        done = self._holds.unhold(name, why, by=who)
        self._reads.board.done(of_many=True)
        still = f"; {len(done.paused)} stay paused otherwise" if done.paused else ""
        said = f"{_counted(len(done.resumed))} resumed"
        return as_json(200, {**done.to_json(), "message": f"{said}{still}{_failures(done.failed)}"})

    def _seen(self, name: str) -> Seen:
        """Return the lock as it is now. Refuse a name that is unknown, and a malformed node."""
        seen = self._operator.read(name)
        view = seen.view
        if view.state == "absent" and self._reads.board.declared(name) is None:
            raise UnknownJob(f"{name} is no job: the catalogue and the locks don't have it")
        if view.state == "malformed":
            message = f"nothing was changed, because the node of {name} is malformed: {view.problem}"
            raise _RefusedAct(409, "malformed", message, view.remedy)
        return seen


class _RefusedAct(Exception):
    """An act that is not done, and the reply that says why."""

    def __init__(self, status: int, error: str, message: str, remedy: Remedy | None = None) -> None:
        super().__init__(message)
        self.reply = problem(status, error, message, remedy=remedy)


def _bad_body(message: str) -> _RefusedAct:
    return _RefusedAct(400, "bad_request", message)


def _ran(name: str, result: Result, *, is_resumed: bool) -> SiteReply:
    run, refusal = result.run, result.refusal
    slot = None if run is None or run.slot is None else to_text(run.slot)
    fields = {"job": name, "slot": slot, "run": None if run is None else run.idempotency_key}
    if refusal is not None:
        # Of a tick that can't be resumed, only the refusal knows why: it is no lock that refuses it.
        is_of_tick = is_resumed and refusal.reason == "slot_done"
        why = refusal.message if is_of_tick else f"{name} was not run: {why_refused(refusal)}"
        remedy = of_refusal(refusal)
        said = {"result": refusal.reason, "error": refusal.reason, "message": redacted(why)}
        status = 503 if refusal.reason == "unavailable" else 409
        return as_json(status, {**fields, **said, "remedy": remedy and remedy.to_json()})
    why = "" if result.error is None else f": {described(result.error)}"
    return as_json(200, {**fields, "result": result.outcome, "message": f'"{name}" {result.outcome}{why}'})


def _counted(number: int) -> str:
    return "1 lock is" if number == 1 else f"{number:,} locks are"


def _failures(failed: Mapping[str, str]) -> str:
    """Return what could not be written, by name, and why the first was not."""
    if not failed:
        return ""
    names = sorted(failed)
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"; could not be written: {', '.join(names[:_NAMED])}{more} ({failed[names[0]]})"


def _done(message: str) -> SiteReply:
    return as_json(200, {"message": message})


def _changed(name: str, what: str) -> SiteReply:
    message = f"{name} was not {what}: it has changed since it was seen"
    return problem(409, "changed", message, remedy=Remedy("look at it again"))


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
    if is_manual(text):
        return text
    try:
        return to_datetime(text)
    except ValueError:
        raise _bad_body(f"resume {text!r:.60} is no tick: write it as 2026-11-18T09:00:00Z") from None
