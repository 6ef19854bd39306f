"""What to do: the acts that fit the state of a job or a lock, and the remedy of what needs a hand. Pure.

Each state has its acts, the primary one first (`TABLE`):

    stuck         held for longer than expected
    blocked       its lock expires later than any lease can
    running       held
    unreadable    nobody can claim its node
    paused        paused by somebody
    disabled      paused by its program
    late          free, and a tick was not claimed
    failing       free, and its last runs have failed
    unattended    nobody has it: only an instance that is started helps
    retired       taken out on purpose
    unknown       its entry in the catalogue can't be read
    ok            none of these
    lock          a lock that belongs to no job of the catalogue
    leader        a lock that belongs to a leader

What would be refused is not offered. Of a job that needs a hand somebody may be told again, or not for a while: `mute`
and `unmute`. `unlock` frees a held lock only if its holder would not hear a `cancel`: it has no fence, or does not
renew its lease, or was asked already; or no live instance has the job. Nobody can run a job that is paused, so it is
resumed first.
"""

from __future__ import annotations

from functools import partial
from typing import Literal, TypeAlias

from firecron.base.texts import plain
from firecron.cron.schedule import newest
from firecron.jobs.catalogue import CatalogueEntry
from firecron.lock.refusal import Refusal
from firecron.ops.health import JobVerdict
from firecron.ops.remedy import ActWord, Remedy, command, forgetting, freeing, mending, service_in_words
from firecron.ops.views import LockView
from firecron.runs.entry import owner_of
from firecron.store import is_name

State: TypeAlias = Literal[
    "stuck", "blocked", "running", "unreadable", "paused", "disabled", "late", "failing", "unattended", "retired",
    "unknown", "ok", "lock", "leader",
]  # fmt: skip

TABLE: dict[State, tuple[ActWord, ...]] = {
    "stuck": ("cancel", "unlock", "pause", "mute", "unmute"),
    "blocked": ("unlock", "pause", "mute", "unmute"),
    "running": ("cancel", "unlock", "pause", "unmute"),
    "unreadable": ("mend", "mute", "unmute"),
    "paused": ("resume", "cancel", "unlock", "unmute"),
    "disabled": ("cancel", "unlock", "unmute"),
    "late": ("run_missed", "run", "pause", "mute", "unmute"),
    "failing": ("run_again", "pause_until", "mute", "unmute"),
    "unattended": ("forget", "cancel", "unlock", "mute", "unmute"),
    "retired": ("forget", "cancel", "unlock", "unmute"),
    "unknown": ("forget", "cancel", "unlock"),
    "ok": ("run", "pause", "unmute"),
    "lock": ("cancel", "unlock", "resume", "pause"),
    "leader": ("depose", "unlock", "resume", "pause"),
}


# --- the acts


def acts_on(
    state: State, lock: LockView | None, *, can_run: bool = False, is_muted: bool | None = None
) -> list[ActWord]:
    """Return the acts that are offered in this state, given the lock (None without a node), in their order.

    `can_run`: whether a run can be started from where the acts are offered. `is_muted` is None of what is no job.
    """
    is_alone = state == "unattended"
    refused = partial(_is_refused, lock=lock, can_run=can_run, is_muted=is_muted, is_alone=is_alone)
    return [act for act in TABLE[state] if not refused(act)]


def state_of(verdict: JobVerdict, lock: LockView | None) -> State:
    """Return the state of a job of the catalogue."""
    word = verdict.word
    is_held = lock is not None and lock.state == "held"
    if lock is not None and lock.state == "malformed":
        return "unreadable"
    if word == "paused":
        return "paused" if lock is not None and lock.is_paused else "disabled"
    if word == "stuck":
        if lock is not None and lock.is_stuck:
            return "blocked"
        # Else the name belongs to something else, such as a leader.
        return "stuck" if is_held and lock is not None and lock.kind is None else "unreadable"
    return "unknown" if word == "undeclared" else word


def state_of_lock(lock: LockView) -> State:
    """Return the state of a lock that belongs to no job of the catalogue."""
    if lock.state == "malformed":
        return "unreadable"
    return "leader" if lock.is_leaders else "lock"


def _is_refused(
    act: ActWord, lock: LockView | None, *, can_run: bool, is_muted: bool | None, is_alone: bool = False
) -> bool:
    """Return whether an act would be refused. `is_alone`: no live instance has the job, so its holder has died."""
    is_paused = lock is not None and lock.is_paused
    match act:
        case "run" | "run_missed" | "run_again":
            return not can_run or (lock is not None and lock.is_taken)
        case "pause" | "pause_until":
            return is_paused
        case "resume":
            return not is_paused
        case "cancel" | "depose":
            return lock is None or not _would_hear(lock)
        case "unlock":
            is_deaf = lock is not None and lock.state == "held" and (is_alone or not _would_hear(lock))
            return lock is None or not (lock.is_stuck or is_deaf)
        case "mute":
            return is_muted is not False
        case "unmute":
            return not is_muted
        case "forget" | "mend":
            return False


def _would_hear(lock: LockView) -> bool:
    """Return whether a holder would end by a cancel that was not sent yet."""
    return lock.why_not_cancelled is None and not lock.is_cancelled


# --- the remedy of a verdict, and of a refusal


def remedy_of(verdict: JobVerdict, declared: CatalogueEntry, lock: LockView | None, now: int) -> Remedy | None:
    """Return what to do about a job at the time `now` of RTDB's clock; None if there is nothing to do."""
    name = verdict.job
    match state_of(verdict, lock):
        case "blocked":
            return freeing(name)
        case "unreadable":
            return mending(name, "" if lock is None else lock.path)
        case "stuck" if lock is not None:
            run = _run_of(lock)
            if not lock.hears_cancel:
                words = f"nobody can stop {run} from here: end that instance, then unlock it"
                return Remedy(words, "unlock", command("unlock", name))
            if lock.is_cancelled:
                return Remedy(f"make sure that {run} has ended, then unlock it", "unlock", command("unlock", name))
            return Remedy(f"stop {run}; it keeps its lock until it has ended", "cancel", command("cancel", name))
        # A hold is meant, and ends by itself.
        case "paused" if verdict.hold is None:
            return Remedy("resume it", "resume", command("resume", name))
        case "late" if (slot := _missed(declared, verdict.due, now)) is not None:
            look = f"see whether its {'instances are' if declared.ticks else 'trigger is'} alive"
            logs = f"what {service_in_words(declared.service)} logs"
            words = f"{look}, and {logs}; {_where(declared)}run the missed tick of {slot}"
            return Remedy(words, "run_missed", _running(declared, "--slot", slot), slot)
        case "failing" if lock is not None and (slot := lock.unfinished or lock.slot) is not None:
            words = f"see in its history why it fails; {_where(declared)}run the tick of {slot} again"
            return Remedy(words, "run_again", _running(declared, "--resume", slot), slot)
        case "unattended" if lock is not None and lock.state == "held":
            words = f"{_start(declared)}; make sure that {_run_of(lock)} has ended, then unlock it"
            return Remedy(words, "unlock", command("unlock", name))
        case "unattended":
            return forgetting(name, _start(declared))
        case "retired":
            return Remedy("forget it, unless it comes back", "forget", command("forget", name))
        case _ if verdict.is_warning:
            return Remedy("wait until the other instances have ended, or end them")
    return None


def _missed(declared: CatalogueEntry, due: int | None, now: int) -> str | None:
    """Return the newest tick from the one that is late on that nobody tries for any more.

    With it, a job that catches up runs those before it first, and any other job is late no more.
    """
    ticks = [] if due is None else newest(declared.schedule, due - 1, now - declared.grace, 1)
    return ticks[0] if ticks else None


def _running(declared: CatalogueEntry, option: str, tick: str) -> str:
    """Return the command that runs a tick: on an instance that has the job, or here, with the program."""
    name = plain(declared.name)
    return command("ask", name, option, tick) if _is_askable(declared) else command("run", "APP", name, option, tick)


def _where(declared: CatalogueEntry) -> str:
    """Return where a tick has to be run, if not anywhere: a page without the job's code has no button for it."""
    return "" if _is_askable(declared) else "where its code is, "


def _is_askable(declared: CatalogueEntry) -> bool:
    """Return whether an instance can be asked for a run.

    Only a trigger runs some jobs. Of a stored schedule the verdict has the name of the entry: nobody is asked for that.
    """
    return declared.ticks and declared.stored is None and is_name(declared.name)


def _start(declared: CatalogueEntry) -> str:
    if not declared.service and declared.role is not None:
        return f"give an instance its role {plain(declared.role)!r} (FIRECRON_ROLES)"
    revision = f", whose revision {plain(declared.revision)} had it" if declared.revision else ""
    # Whoever finds it running has looked for it in another place than it has.
    return f"start {service_in_words(declared.service)}{revision}; if it runs, it has another database or prefix"


def _run_of(lock: LockView) -> str:
    tick = "" if lock.unfinished is None else f" of {lock.unfinished}"
    return f"the run{tick} on {lock.owner}"


def why_refused(refusal: Refusal) -> str:
    """Return why a run was refused, in the words of a page: those of the refusal are the log's."""
    owner = plain(owner_of(refusal.instance_id, refusal.instance))
    match refusal.reason:
        case "held" if refusal.unfinished is not None:
            return f"the run of {refusal.unfinished} on {owner} has not ended"
        case "held":
            return f"{owner} holds its lock" if owner else "a run of it on this instance has not ended"
        case "slot_done":
            return "somebody was faster: that tick, or a later one, is claimed already"
        case "slot_early":
            return "that tick is still to come"
        case "paused":
            return "it is paused"
        case "removed":
            return "there is no such schedule any more"
        case "malformed":
            return "nobody can claim its node"
        case "unavailable" | "denied":
            return str(refusal.error or "the database did not answer")


def of_refusal(refusal: Refusal) -> Remedy | None:
    """Return what to do about a run that was refused."""
    name = refusal.name
    match refusal.reason:
        case "held" if refusal.problem is not None:
            return freeing(name)
        case "held":
            return Remedy("wait until its run has ended, or stop it", "cancel", command("cancel", name))
        case "paused":
            return Remedy("resume it", "resume", command("resume", name))
        case "malformed":
            return mending(name, f"of {name}")
        case "slot_done":
            return Remedy("see how its runs have ended", None, command("runs", name))
        case "removed":
            return Remedy("see which schedules there are, or put it again")
        case "slot_early":
            return Remedy("wait for the tick")
        case "unavailable" | "denied":
            return Remedy("see whether the database is there, and lets this user write", command="firecron doctor")
