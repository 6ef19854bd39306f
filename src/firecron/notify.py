"""Notify: tell people when a job turns to failing, stuck, late or unattended, and when it is well again.

    from firecron.notify import notify

    notify(crons, slack=URL, page_url="https://ops.example.com/crons")  # or google_chat=, teams=, webhook=, or several

There is one message in the fleet, however many instances notify: `cron-told` says who sends it (`ops/told`, with all
that may interleave). A program that notifies speaks for all jobs of its prefix, whichever program runs them. A run that
makes its job fail, or ends that, has it told at once, by the instance that ran it. All else is told by looks, which the
first three instances by rank make every recovery interval, after two of them: up to twice that interval later. Nothing
is said of a job that is muted, paused or held, and no word of a job is told twice within an hour. If no instance that
notifies lives, nobody is told: `/health` and pings are for that.

No message delays a run. It waits in an `outbox`, whose thread claims it, sends it and notes that it was taken. Each
channel has five seconds and two tries; a channel that hangs delays no other one. If one doesn't take the message, the
event `notify.failed` says so, and the next look sends it there once more, for as long as the job stays so. One that
gave no reply may have it: it gets the message with the same `id`, and ever more seldom, up to an hour apart.

The URL of a channel is a secret: who knows it can write there. It is in no log, no error and no node.
"""

from __future__ import annotations

import hmac
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias
from urllib.parse import quote

from firecron.base.events import Event, LastValues
from firecron.base.instants import to_text
from firecron.base.texts import cut, plain
from firecron.errors import ConfigurationError, Denied, StoreError
from firecron.jobs.catalogue import read_declared
from firecron.jobs.turns import emit_recovery, emit_trouble
from firecron.lock.database import new_holder
from firecron.lock.protocol import editing
from firecron.ops.health import JobVerdict
from firecron.ops.mutes import Mute, read_mutes
from firecron.ops.status import Declared, Nodes, Status
from firecron.ops.told import CLAIM, WELL, Silence, Told, ToldWord, observe, put_off, read_told, taken, word_of
from firecron.ops.views import children
from firecron.outbox import Http, NotTaken, Outbox, check_reply, is_url, last_moments, may_speak, report_runs
from firecron.store import Snapshot

if TYPE_CHECKING:
    from firecron.app import FireCron

TIMEOUT = 5.0
SIGNATURE = "Firecron-Signature"

Kind: TypeAlias = Literal["slack", "google_chat", "teams", "webhook"]

_RULES = "The rules may be older than what people are told: deploy those that `firecron rules` prints"
_LONGEST_ERROR = 1_000
# In milliseconds: how often this instance looks at a job that goes on failing.
_FAILING_AGE = 60_000.0


def notify(
    crons: FireCron,
    *,
    slack: str | Sequence[str] = (),
    google_chat: str | Sequence[str] = (),
    teams: str | Sequence[str] = (),
    webhook: str | Sequence[str] = (),
    webhook_secret: str | None = None,
    page_url: str | None = None,
) -> Callable[[], None]:
    """Tell people from now on. Return a function that ends this, once the waiting messages have had two seconds.

    Each channel is one URL or several. Raise ConfigurationError without any, for one that nothing can be sent to, for
    a secret that is empty or has no webhook, and if these jobs' messages go to channels of another call already.

    Args:
        crons: The jobs.
        slack: The URL of an incoming webhook of Slack.
        google_chat: The URL of a webhook of a space in Google Chat.
        teams: The URL of a workflow of Microsoft Teams that posts what a webhook gets.
        webhook: A URL of your own, to which each message is posted as JSON, with a signature.
        webhook_secret: The key of the signature; without it, the webhook's own URL.
        page_url: Where the status page is mounted, so that a message leads to its job.
    """
    given: dict[Kind, str | Sequence[str]] = {
        "slack": slack, "google_chat": google_chat, "teams": teams, "webhook": webhook,
    }  # fmt: skip
    channels = [
        channel
        for kind, urls in given.items()
        for channel in _channels(kind, [urls] if isinstance(urls, str) else urls, webhook_secret)
    ]
    if not channels:
        raise ConfigurationError("notify needs at least one of slack=, google_chat=, teams= and webhook=")
    if webhook_secret is not None and not webhook:
        raise ConfigurationError("there is no webhook= for the key of its signature, webhook_secret")
    if webhook_secret == "":
        raise ConfigurationError("the key webhook_secret is empty: give one, or leave it out to sign with the URL")
    if page_url is not None and not is_url(page_url):
        raise ConfigurationError(f"page_url={page_url!r} is no URL: begin it with https:// and a host")
    looks = crons.engine.lateness.rounds
    if any(isinstance(getattr(look, "__self__", None), _Notifier) for look in looks):
        # One of two would claim each message, and the channels of the other would never get it.
        raise ConfigurationError("notify was called for these jobs already: give all channels in one call")
    notifier = _Notifier(crons, channels, page_url)
    end = report_runs(crons, notifier.hear, notifier.outbox.flush, also=("job.recovered",))
    looks.append(notifier.look)

    def stop() -> None:
        if notifier.look in looks:
            looks.remove(notifier.look)
        end()
        notifier.outbox.close()

    return stop


def rehearse(crons: FireCron, tell: Callable[[dict[str, object]], object]) -> Callable[[], None]:
    """Have `tell` called with each message that `notify` would send, in a webhook's form. Return a look at all jobs.

    For a test: it is called on the thread of the run or of the look, in any process, and one look is enough.
    """
    notifier = _Notifier(crons, [_Listener(tell)], None)
    notifier.outbox.close()
    notifier.patience = 0

    def send(notice: _Notice) -> None:
        try:
            notifier.send(notice)
        except NotTaken as error:
            notifier.lost(notice, str(error))

    notifier.add = send
    crons.events.subscribe(notifier.hear)
    return notifier.look_at_all


# --- a message, and the forms that channels have for it

_TITLES: Mapping[ToldWord, str] = {
    "failing": '"{}" is failing',
    "stuck": '"{}" is stuck',
    "late": '"{}" is late',
    "unattended": '"{}" is unattended: nobody runs it',
    "ok": '"{}" is well again',
}


@dataclass(frozen=True, slots=True)
class Message:
    """What people are told of a job. `id` stays if it is sent again, `was` is the word of the message before."""

    id: str
    word: ToldWord
    was: ToldWord | None
    since: int
    at: int
    changes: int
    verdict: JobVerdict
    error: str | None = None
    link: str | None = None

    @property
    def title(self) -> str:
        """The message in one line."""
        return _TITLES[self.word].format(self.verdict.job)

    def lines(self) -> list[tuple[str, str]]:
        """Return what follows the title, as labels and texts. A label may be empty."""
        verdict, about = self.verdict, self.verdict.about
        often = f"It has changed {self.changes} times since the last message." if self.changes > 1 else None
        remedy = None if self.word == WELL else verdict.remedy
        found = [
            ("", about.description),
            ("Why", verdict.why),
            ("Error", self.error),
            ("Since", to_text(self.since)),
            ("", often),
            ("To do", remedy and remedy.words),
            ("Command", remedy and remedy.command),
            ("Owner", about.owner),
            ("Runbook", about.runbook),
            ("Page", self.link),
        ]
        return [(label, text) for label, text in found if text]

    def to_json(self) -> dict[str, object]:
        """Return the message for programs: it always has every field, and instants are texts."""
        verdict, is_well = self.verdict, self.word == WELL
        return {
            "version": 1,
            "id": self.id,
            "event": "job.recovered" if is_well else f"job.{self.word}",
            "job": verdict.job,
            "verdict": self.word,
            "was": self.was,
            "since": to_text(self.since),
            "due": None if verdict.due is None else to_text(verdict.due),
            "at": to_text(self.at),
            "why": verdict.why,
            "error": self.error,
            "failures": verdict.failures,
            "changes": self.changes,
            **verdict.about.fields(),
            "remedy": None if is_well or verdict.remedy is None else verdict.remedy.to_json(),
            "link": self.link,
        }


_LEFT, _RIGHT = "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}", "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"


def _marked(message: Message) -> list[str]:
    """Return the lines of a message for chats, where asterisks make a text bold."""
    lines = (f"*{label}:* {text}" if label else text for label, text in message.lines())
    return [f"*{message.title}*", *lines]


def _slack(message: Message) -> dict[str, object]:
    # Slack reads these three as markup, and `<!channel>` would call everybody.
    text = "\n".join(_marked(message)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    section = {"type": "section", "text": {"type": "mrkdwn", "text": cut(text, 3_000)}}
    return {"text": message.title, "blocks": [section]}


def _google_chat(message: Message) -> dict[str, object]:
    # `<users/all>` would call everybody, and nothing escapes it.
    text = "\n".join(_marked(message)).replace("<", _LEFT).replace(">", _RIGHT)
    return {"text": cut(text, 4_000)}


def _teams(message: Message) -> dict[str, object]:
    # A TextRun is no Markdown, so that no text of a job becomes a link.
    colour = "good" if message.word == WELL else "attention"
    title = {"type": "TextRun", "text": message.title, "weight": "bolder", "size": "medium", "color": colour}
    blocks = [[title]]
    for label, text in message.lines():
        run: dict[str, str] = {"type": "TextRun", "text": cut(text, 2_000)}
        blocks.append([{"type": "TextRun", "text": f"{label}: ", "weight": "bolder"}, run] if label else [run])
    links = [("Open the page", message.link), ("Open the runbook", message.verdict.about.runbook)]
    card = {
        "type": "AdaptiveCard",
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "version": "1.4",
        "body": [{"type": "RichTextBlock", "inlines": inlines} for inlines in blocks],
        "actions": [{"type": "Action.OpenUrl", "title": name, "url": url} for name, url in links if url],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


_FORMS: Mapping[Kind, Callable[[Message], dict[str, object]]] = {
    "slack": _slack,
    "google_chat": _google_chat,
    "teams": _teams,
    "webhook": Message.to_json,
}


class _Taker(Protocol):
    """Takes messages. Channels of one name in several programs are one."""

    @property
    def name(self) -> str: ...

    def send(self, http: Http, message: Message) -> None:
        """Send the message once. Raise NotTaken if the service doesn't take it."""


class _Listener:
    """Takes messages for a test."""

    name = "test"

    def __init__(self, tell: Callable[[dict[str, object]], object]) -> None:
        self._tell = tell

    def send(self, http: Http, message: Message) -> None:
        self._tell(message.to_json())


@dataclass(frozen=True, slots=True)
class _Channel:
    """Where messages go. `key` is that of the signature, if there is one."""

    name: str
    kind: Kind
    url: str = field(repr=False)
    key: bytes | None = field(default=None, repr=False)

    def send(self, http: Http, message: Message) -> None:
        """Send the message once. Raise NotTaken if the service doesn't take it."""
        body = json.dumps(_FORMS[self.kind](message), ensure_ascii=False).encode("utf-8", "replace")
        headers = {"Content-Type": "application/json; charset=utf-8"}
        if self.key is not None:
            headers[SIGNATURE] = _signature(self.key, int(time.time()), body)
        check_reply(http.send(self.url, headers, body, TIMEOUT))


def _signature(key: bytes, at: int, body: bytes) -> str:
    """Return the header of a body: the time in seconds, and the HMAC-SHA256 of the time, a dot and the body."""
    return f"t={at},v1={hmac.new(key, f'{at}.'.encode() + body, sha256).hexdigest()}"


def _channels(kind: Kind, urls: Sequence[str], secret: str | None) -> list[_Channel]:
    """Return the channels for these URLs. Raise ConfigurationError, without the URL, for one that is none."""
    found = []
    for place, url in enumerate(urls, 1):
        if not is_url(url) or not url.isascii() or not url.isprintable() or " " in url:
            raise ConfigurationError(f"{kind}= is no URL: begin it with https:// and a host")
        if "#" in url:
            raise ConfigurationError(f"{kind}= has a #: what follows it is a fragment, which is never sent")
        key = None if kind != "webhook" else (url if secret is None else secret).encode()
        found.append(_Channel(kind if place == 1 else f"{kind}-{place}", kind, url, key))
    return found


# --- who finds what, and what becomes of it


@dataclass(slots=True)
class _Notice:
    """That a job may have turned. `verdict` is what a look has found `at` that instant, on the server's clock; None:
    the job is looked at when this is sent.

    What was claimed is the `message`, and `known` is the job's node after that. The channels in `sent` have taken it,
    and those in `refused` never will. If `may_be_there`, one has given no reply.
    """

    job: str
    verdict: JobVerdict | None = None
    word: ToldWord | None = None
    at: int = 0
    error: str | None = None
    token: str = field(default_factory=new_holder)
    message: Message | None = None
    known: Snapshot | None = None
    sent: set[str] = field(default_factory=set)
    refused: dict[str, NotTaken] = field(default_factory=dict)
    may_be_there: bool = False


class _Notifier:
    """Hears of runs, looks at all jobs, and sends what is to be told: the courier of its outbox."""

    def __init__(self, crons: FireCron, channels: Sequence[_Taker], page_url: str | None) -> None:
        self._crons = crons
        self._database = crons.database
        self._status = Status(crons.database)
        self._channels = channels
        self._page_url = page_url
        self._http = Http()
        # When this instance has last found that a job fails, on the monotonic clock.
        self._failing: LastValues[str, float] = LastValues()
        self.outbox: Outbox[_Notice] = Outbox("notices", self, lambda: last_moments(crons))
        self.add: Callable[[_Notice], object] = self.outbox.add
        # After how many milliseconds another look counts: less than lies between the looks of two intervals.
        self.patience = int(crons.settings.recovery_interval * 500)

    def hear(self, event: Event) -> None:
        """Have a job looked at whose run has failed, or has ended its failing."""
        mono = self._database.timing.mono()
        if event.slug == "job.recovered" and event.fields.get("was") == "failing":
            self._failing.forget(event.name)
            self.add(_Notice(event.name))
        elif event.slug in ("run.failed", "run.lost"):
            before = self._failing.get(event.name)
            if before is None or mono - before >= _FAILING_AGE:
                self._failing.put(event.name, mono)
                error = cut(event.message.partition("\n")[0], _LONGEST_ERROR)
                self.add(_Notice(event.name, error=error))

    def look(self) -> None:
        """Look at all jobs, and have those told that have turned, if this process may speak."""
        if may_speak(self._crons):
            self.look_at_all()

    def look_at_all(self) -> None:
        """Look at all jobs, and have those told that have turned."""
        board = self._crons.board
        report = board.report()
        if report.problem is not None:
            return  # the board has said so
        try:
            told = children(self._database.node(self._database.paths.told), self._database.paths.told)
            for verdict in report.verdicts:
                declared = board.declared(verdict.job)
                word = None if declared is None else word_of(verdict, declared, board.node(verdict.job))
                if word is not None and (word != WELL or verdict.job in told):
                    found = observe(told.get(verdict.job), word, verdict.since, report.now, "", self.patience)
                    if not isinstance(found, Silence):
                        self.add(_Notice(verdict.job, verdict, word, report.now))
        except StoreError as error:
            self._emit_failure("firecron", "all", _why(error))

    # --- the courier

    def send(self, notice: _Notice) -> None:
        """Claim the message of a notice, if there is one to claim, and send it to the channels that lack it."""
        try:
            if notice.message is None and not self._claims(notice):
                return
        except StoreError as error:
            raise NotTaken(_why(error), is_final=isinstance(error, Denied)) from error
        message = notice.message
        assert message is not None, "a message was claimed"
        wanted = [one for one in self._channels if one.name not in notice.sent and one.name not in notice.refused]
        failed = self._send_to(wanted, message)
        notice.may_be_there |= any(error.may_have_it for error in failed.values())
        notice.refused |= {name: error for name, error in failed.items() if error.is_final}
        took = {channel.name for channel in wanted} - failed.keys()
        notice.sent |= took
        left = {**notice.refused, **failed}
        if took:
            self._note(notice, message, by_all=not left)
        if left:
            pauses = [error.pause for error in failed.values() if error.pause is not None]
            why = "; ".join(f"{name}: {error}" for name, error in sorted(left.items()))
            raise NotTaken(why, is_final=failed.keys() <= notice.refused.keys(), pause=max(pauses, default=None))

    def lost(self, notice: _Notice, why: str) -> None:
        """Say that a message was not taken: a later look sends it once more."""
        names = [one.name for one in self._channels if one.name not in notice.sent]
        if notice.may_be_there:
            try:
                self._edit(notice, lambda node, now: _written(put_off(node, now, notice.token)))
            except StoreError as error:
                why = f"{why}; that it may be there can't be noted, so it may be sent again soon: {_why(error)}"
        self._emit_failure(notice.job, " ".join(names), why)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _claims(self, notice: _Notice) -> bool:
        """Claim the message of this notice. Return False if there is none, or somebody else sends it."""
        patience, found = self.patience, (notice.verdict, notice.word)
        if notice.verdict is None:
            patience, found = 0, self._find(notice.job)
        elif not self._is_current(notice):
            return False
        verdict, word = found
        if verdict is None or word is None:
            return False
        was: ToldWord | None = None
        is_new = False

        def decide(node: object, now: int) -> Mapping[str, object] | Silence:
            nonlocal was, is_new
            before = read_told(node)
            was = WELL if before is None else before.last
            is_new = before is None or before.verdict != word or before.token is None
            return _written(observe(node, word, verdict.since, now, notice.token, patience))

        told = self._edit(notice, decide)
        if told is None or told.token != notice.token or told.sent_at is not None:
            return False
        notice.sent |= told.sent_to
        at = told.again_at - CLAIM
        notice.message = Message(
            told.id or notice.token,
            word,
            was,
            told.since,
            at,
            told.changes,
            verdict,
            notice.error,
            self._link(notice.job),
        )
        if patience and is_new:
            self._emit_turn(notice.message)
        return True

    def _is_current(self, notice: _Notice) -> bool:
        """Return whether a look's notice may still be true. One that waited long is dropped: the next look comes."""
        now = self._now()
        mute = self._mutes(notice.job).get(notice.job)  # that of the look may be five minutes old
        return now - notice.at <= CLAIM and (mute is None or mute.until <= now)

    def _mutes(self, name: str) -> dict[str, Mute]:
        try:
            return read_mutes({name: self._database.node(self._database.paths.mute(name))})
        except Denied:
            return {}  # the rules are older than mutes

    def _now(self) -> int:
        return self._database.clock.now(self._database.deadline()).server

    def _find(self, name: str) -> tuple[JobVerdict | None, ToldWord | None]:
        """Look at one job, whose run has just ended: it is failing, or well, or nothing is said."""
        database, paths = self._database, self._database.paths
        declared = read_declared(name, database.node(paths.job(name)))
        if declared is None:
            return None, None
        lock = database.node(paths.lock(name))
        nodes = Nodes(Declared({name: declared}, {}, self._mutes(name)), {name: lock}, None, self._now())
        (verdict,) = self._status.verdicts(nodes)
        word = word_of(verdict, declared, lock)
        if word != "failing":
            self._failing.forget(name)
        return verdict, word if word in ("failing", WELL) else None

    def _send_to(self, channels: Sequence[_Taker], message: Message) -> dict[str, NotTaken]:
        """Send the message to these channels, all at once. Return those that have not taken it, and why.

        Where no thread can be started, for want of memory or because the program ends, one comes after the other.
        """
        failed: dict[str, NotTaken] = {}

        def send(channel: _Taker) -> None:
            try:
                channel.send(self._http, message)
            except NotTaken as error:
                failed[channel.name] = error
            except Exception as error:
                # Nothing of the URL is in the name of a class.
                failed[channel.name] = NotTaken(type(error).__name__, is_final=True)

        threads, own = [], list(channels[:1])
        for channel in channels[1:]:
            thread = threading.Thread(target=partial(send, channel), name="firecron-notify", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                own.append(channel)
            else:
                threads.append(thread)
        for channel in own:
            send(channel)
        for thread in threads:
            thread.join()
        return failed

    def _note(self, notice: _Notice, message: Message, *, by_all: bool) -> None:
        """Note that these channels have taken the message. If that fails, it may be told twice."""

        def decide(node: object, now: int) -> Mapping[str, object] | Silence:
            return _written(taken(node, message.word, now, notice.token, notice.sent, by_all=by_all))

        try:
            self._edit(notice, decide)
        except StoreError as error:
            why = f"it was sent, but that can't be noted, so it may be sent again: {_why(error)}"
            self._emit_failure(notice.job, " ".join(sorted(notice.sent)), why)

    def _edit(self, notice: _Notice, decide: Callable[[object, int], Mapping[str, object] | Silence]) -> Told | None:
        """Change the node of a job by compare-and-swap. Return what it says after that, and None if it stays."""
        database = self._database
        path, deadline = database.paths.told_of(notice.job), database.deadline(database.settings.acquire_timeout)
        notice.known, silence = database.run(editing(decide, notice.known), path, deadline)
        return read_told(notice.known.node) if silence is None else None

    def _link(self, name: str) -> str | None:
        return None if self._page_url is None else f"{self._page_url.rstrip('/')}/#job/{quote(name, safe='')}"

    # --- events

    def _emit_turn(self, message: Message) -> None:
        """Emit what a look has found, and neither a run nor a look of the job's own program could emit."""
        events, verdict = self._database.events, message.verdict
        match message.word:
            case "failing":
                emit_trouble(events, "failing", verdict.job, verdict.why, verdict.about, failures=verdict.failures)
            case "unattended":
                emit_trouble(events, "unattended", verdict.job, verdict.why, verdict.about)
            # The looks for late and stuck jobs say so themselves.
            case "ok" if message.was in ("failing", "unattended"):
                emit_recovery(events, message.was, verdict.job, verdict.why, verdict.about)

    def _emit_failure(self, name: str, channels: str, why: str) -> None:
        message = f'A message about "{name}" was not taken ({channels}): {why}'
        self._database.events.emit("notify.failed", name, logging.WARNING, message, channels=channels, why=why)


def _written(result: Told | Silence) -> Mapping[str, object] | Silence:
    return result.to_node() if isinstance(result, Told) else result


def _why(error: StoreError) -> str:
    return f"{plain(str(error))} {_RULES}" if isinstance(error, Denied) else plain(str(error))
