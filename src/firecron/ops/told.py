"""What people were told of each job: the schema of `cron-told`, and what comes next. Pure.

`cron-told/<job>` belongs to a job of which somebody was told, or is about to be. Of a job that was always well there is
no node. Instants are milliseconds of RTDB's clock:

    verdict     the word that was found last: failing, stuck, late, unattended, or ok
    since       since when, as the verdict has it, else when it was found
    token       the instance that sends the message about this word; missing: nobody has begun to
    id          the token of the first claim of this message, which stays its id however often it is sent
    sentAt      when all channels of that instance had taken it, or it was found that nothing is to be sent
    againAt     from then on, without `sentAt`, the next look may claim the message
    unanswered  how often it was sent to a channel that gave no reply, and so may have it
    sentTo      the channels that have taken it, with blanks between
    last        the word of the last message that a channel has taken; missing: that is not known
    changes     how often the word has changed since that message
    failingAt, stuckAt, lateAt, unattendedAt, okAt
                when the last message with this word was taken

A message is claimed, sent and noted, and each change of the node is a compare-and-swap:

    look     the word has changed, or its message is due: `observe` says whether to claim it, and what is written then
    send     to each channel that is not in `sentTo`
    note     `taken`: what was taken, and by whom; `put_off`: a channel gave no reply

The run whose release has made a job fail, or has ended that, is believed at once. A look at all jobs is believed once a
later look finds the same: what lasts for a moment, as in a deployment, is nobody's business. So the first look writes
the word without a token, and any instance's next look claims the message. No word is told twice within an hour: a
change back to it waits in the node, and if it is gone by then, nobody hears of it but in the next message's `changes`.

What may interleave, and what becomes of it:

    two instances claim at once         one swap fails, and finds the other's token: it leaves the message to that one
    a reply to a claim is lost          the node is read: with the own token it is claimed. If it can't be read, nothing
                                        is sent, and after 60 s the next look claims it
    kill -9 before the claim            the next look finds what this one has found
    kill -9 between claim and message   nobody sends within 60 s; then the next look claims it anew
    kill -9 between message and note    the same: the message is doubled. So it is if the note can't be written
    no channel takes it                 as after a kill -9: the next look claims it, for as long as the word stays
    a channel may have it, but gave     the next claim comes after 60 s, then 120 s, doubling up to an hour, with the
      no reply, or too late             same id. Until then any other channel that lacks it waits, too
    some channels take it               `sentTo` has them, and the next claim of this word is for the others
    a sender is frozen for over 60 s    another one sends the message, and so does this one: doubled
    the word changes while the old      whether that message arrives is not known, so `last` goes, and the new word is
      one's message is under way        told in any case. The note of the old message finds another token, and adds
                                        when that word was told
    the word changes back before any    if the word is that of the last message, there is nothing to send. The change
      message was claimed               is counted
    a run's word and a look's           by their claims, as above. A look that is a moment old may find what was before
                                        the run: its word is believed only once another look finds it as well
    a look's word waits for its claim   after 60 s it is dropped, for it may not be true any more: a later look finds
                                        what is
    a mute begins                       it is read before each claim. A message that is claimed is still sent
    a pause or a hold begins            nothing is said from the next look on. A message that is claimed is still sent
    a mute, a pause or a hold ends      the next looks find the word that is true then
    the job is forgotten                its node goes with its entry. A note that comes later writes nothing
    the node is deleted in the console  nobody was told of anything: a job that is well stays unsaid, an alarm is told
                                        anew
    somebody types nonsense             a node that can't be read counts as none
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, get_args

from firecron.base.instants import number
from firecron.jobs.catalogue import CatalogueEntry
from firecron.ops.health import JobVerdict

ToldWord: TypeAlias = Literal["failing", "stuck", "late", "unattended", "ok"]
WELL: ToldWord = "ok"

# In milliseconds: no word of a job is told twice within that time, and what was claimed is sent in this one.
SELDOM = 3_600_000
CLAIM = 60_000

_WORDS: tuple[ToldWord, ...] = get_args(ToldWord)


@dataclass(frozen=True, slots=True)
class Told:
    """What a node says. `at` has when each word was told last, and the other fields are those of the node."""

    verdict: ToldWord
    since: int
    token: str | None = None
    sent_at: int | None = None
    again_at: int = 0
    sent_to: frozenset[str] = frozenset()
    id: str | None = None
    unanswered: int = 0
    last: ToldWord | None = None
    changes: int = 0
    at: Mapping[ToldWord, int] = field(default_factory=dict)

    def to_node(self) -> dict[str, object]:
        """Return this as it is stored."""
        fields = {
            "verdict": self.verdict,
            "since": self.since,
            "token": self.token,
            "id": self.id,
            "unanswered": self.unanswered or None,
            "sentAt": self.sent_at,
            "againAt": self.again_at,
            "sentTo": " ".join(sorted(self.sent_to)) or None,
            "last": self.last,
            "changes": self.changes,
            **{f"{word}At": self.at.get(word) for word in _WORDS},
        }
        return {name: value for name, value in fields.items() if value is not None}


def read_told(node: object) -> Told | None:
    """Return what a node says; None if there is none, or it can't be read."""
    if not isinstance(node, Mapping) or (verdict := _word(node.get("verdict"))) is None:
        return None
    token, sent_to, given = node.get("token"), node.get("sentTo"), node.get("id")
    told = {word: at for word in _WORDS if (at := number(node.get(f"{word}At"))) is not None}
    return Told(
        verdict,
        number(node.get("since")) or 0,
        token if isinstance(token, str) else None,
        number(node.get("sentAt")),
        number(node.get("againAt")) or 0,
        frozenset(sent_to.split()) if isinstance(sent_to, str) else frozenset(),
        given if isinstance(given, str) else None,
        max(0, number(node.get("unanswered")) or 0),
        _word(node.get("last")),
        max(0, number(node.get("changes")) or 0),
        told,
    )


def _word(value: object) -> ToldWord | None:
    return next((word for word in _WORDS if word == value), None)


def word_of(verdict: JobVerdict, declared: CatalogueEntry, lock: object) -> ToldWord | None:
    """Return what people are to be told of a job with this verdict, given its lock's node; None if that is nothing.

    A job that runs is as its last runs have ended: whether this one does well is not known yet. Nothing is said of a
    job that is muted, paused or held, was taken out, or can't be judged.
    """
    if verdict.mute is not None:
        return None
    if verdict.word == "running":
        failures = number(lock.get("failures")) if isinstance(lock, Mapping) and declared.once_per_tick else None
        return "failing" if (failures or 0) >= declared.alert_after else WELL
    return _word(verdict.word)


@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing is to be said, and nothing to be written."""


SILENCE = Silence()


def observe(node: object, word: ToldWord, since: int | None, now: int, token: str, patience: int) -> Told | Silence:
    """Return what is to be written once a job was found with this word, and nothing if that is known.

    What is written has the `token` if the message is to be sent by whoever writes it. A word that is new is told after
    `patience` milliseconds, once somebody finds it again; 0: at once.
    """
    # Of a job that has no node nobody was told anything: it was well.
    told = read_told(node) or Told(WELL, now, sent_at=now, last=WELL)
    if word != told.verdict:
        # A message that somebody has claimed may have been sent, and may not.
        is_sure = told.token is None or told.sent_at is not None
        last = told.last if is_sure else None
        told = Told(word, since or now, last=last, changes=told.changes + 1, at=told.at)
        if word == last:
            return replace(told, sent_at=now)
        told = replace(told, again_at=max(now + patience, _earliest(told)))
        return _claimed(told, now, token) if told.again_at <= now else told
    if told.token == token or told.sent_at is not None:
        return told if told.token == token and told.sent_at is None else SILENCE
    is_due = told.again_at <= now or (patience == 0 and told.token is None)
    return _claimed(told, now, token) if is_due and _earliest(told) <= now else SILENCE


def _earliest(told: Told) -> int:
    """Return when this word may be told again. Channels that have not heard of it needn't wait."""
    return 0 if told.sent_to else told.at.get(told.verdict, -SELDOM) + SELDOM


def _claimed(told: Told, now: int, token: str) -> Told:
    return replace(told, token=token, id=told.id or token, again_at=now + CLAIM)


def taken(
    node: object, word: ToldWord, now: int, token: str, channels: Collection[str], *, by_all: bool
) -> Told | Silence:
    """Return what is to be written once these channels have taken the message that was claimed with this token."""
    told = read_told(node)
    if told is None:
        return SILENCE  # the job was forgotten
    told = replace(told, at={**told.at, word: max(now, told.at.get(word, now))})
    if told.token != token:
        return replace(told, last=word) if told.token is None and told.sent_at is None else told
    return replace(told, sent_at=now if by_all else None, sent_to=told.sent_to | set(channels), last=word, changes=0)


def put_off(node: object, now: int, token: str) -> Told | Silence:
    """Return what is to be written once a channel gave no reply to the message that was claimed with this token."""
    told = read_told(node)
    if told is None or told.token != token or told.sent_at is not None:
        return SILENCE
    pause = min(CLAIM * 2 ** min(told.unanswered, 10), SELDOM)
    return replace(told, unanswered=told.unanswered + 1, again_at=now + pause)
