"""Every comparison and every guard of the lock, broken in turn: the list for `tests.mutations`.

Each is one place in one file, what is put there instead, and the tests that have to notice. The old text has to be
there exactly once.
"""

from __future__ import annotations

from dataclasses import dataclass

DECIDE = "tests/unit/lock/test_record_decide.py"
PARSE = "tests/unit/lock/test_record_parse.py"
CLAIM = "tests/unit/lock/test_record_claim.py"
HOLDING = "tests/unit/lock/test_record_holding.py"
FAILED = "tests/unit/lock/test_failures.py"
RESUMED = "tests/unit/runs/test_resuming.py"
MODEL = "tests/unit/lock/test_record_model.py"
DRIVES = "tests/unit/lock/test_driver.py"
EXCHANGES = "tests/unit/lock/test_protocol.py tests/unit/lock/test_protocol_holding.py"
LEASE = "tests/unit/lock/test_lease.py tests/unit/lock/test_lease_release.py"
I_HOLDER = "tests/invariants/test_holder.py"
I_LEASE = "tests/invariants/test_lease.py tests/invariants/test_renewal.py"
I_STORE = "tests/invariants/test_store.py"
PATIENCE = "tests/unit/lock/test_waiting.py"
PAUSED = "tests/unit/lock/test_pauses.py"
TRAIL = "tests/unit/lock/test_acts.py tests/unit/lock/test_trail.py"
CANDIDATES = "tests/unit/lock/test_candidate.py"
HEARS = "tests/unit/lock/test_hearing.py"
SHARED = "tests/unit/lock/test_streams.py"
SENT = "tests/stores/test_stream.py"
EVENTS = "tests/unit/base/test_events.py"
BLOCKS = "tests/process/test_lock_blocks.py"
ASYNC = "tests/process/test_lock_async.py"
ASYNC_WORK = "tests/process/test_lock_async_work.py"
CONTENDS = "tests/unit/lock/test_contender.py"
GENERATED = "tests/unit/lock/test_blocks.py"
REFUSALS = "tests/unit/lock/test_refusal.py"
SILENT = "tests/unit/lock/test_instances.py tests/simulation/test_silent_holders.py"
PROXIES = "tests/stores/test_lock_proxies.py"
MERGES = "tests/stores/test_rtdb.py"
DOWN = "tests/stores/test_lock_down.py"
REQUESTS = "tests/stores/test_lock_requests.py"


@dataclass(frozen=True)
class Mutant:
    """`new` in place of `old` in a file of src/firecron has to fail `tests`."""

    file: str
    old: str
    new: str
    tests: str

    def __str__(self) -> str:
        return f"{self.file}: {' '.join(self.old.split())[:60]} -> {' '.join(self.new.split())[:30] or 'nothing'}"


def _in(file: str, *changes: tuple[str, str, str]) -> tuple[Mutant, ...]:
    return tuple(Mutant(file, *change) for change in changes)


RECORD = _in(
    "lock/record.py",
    # What a node says.
    ("if not isinstance(node, dict):", "if False:", PARSE),
    ("if not LOCK_FIELDS & node.keys():", "if False:", PARSE),
    ("strict=True, frozen=True", "strict=False, frozen=True", PARSE),
    ('extra="allow"', 'extra="ignore"', CLAIM),
    (' - {"cancel", "cancelWhy", "failures"}', "", PARSE),
    ('- {"cancel", "cancelWhy", "failures"}', '- {"cancelWhy", "failures"}', PARSE),
    (', "failures"}', "}", PARSE),
    ("> now + DAY:", ">= now + DAY:", PARSE),
    ("> now + DAY:", "> now + 2 * DAY:", DECIDE),
    ("now < self.expiresAt + (", "now <= self.expiresAt + (", DECIDE),
    ("self.expiresAt > now + _FURTHEST", "self.expiresAt >= now + _FURTHEST", PARSE),
    ("self.expiresAt > now + _FURTHEST", "self.expiresAt > now + DAY", PARSE),
    ("example = 1 if name ==", "example = 2 if name !=", PARSE),
    ("(margin if self.releasedAt is None else 0)", "0", DECIDE),
    ("(margin if self.releasedAt is None else 0)", "margin", DECIDE),
    # Mine.
    ("record.holder == request.holder and (", "(", DECIDE),
    ("(record.releasedAt is None or request.momentary)", "True", DECIDE),
    ("written.get(record.expiresAt)", "next(iter(written.values()), None)", DECIDE),
    ("if term is not None and (request.momentary or term.is_trusted(now.mono, request.margin)):", "if term:", DECIDE),
    ("return Mine(record, term)", "return Mine(record, LeaseTerm(term.expires_at, now))", DECIDE),
    # Paused.
    ("if is_paused(current.kept, now.server):", "if False:", DECIDE),
    ("if is_paused(current.kept, now.server):", "if is_paused(current.kept, 0):", PAUSED),
    # The tick.
    ("request.slot <= record.slot:", "request.slot < record.slot:", DECIDE),
    ("request.slot <= record.slot:", "request.slot == record.slot:", DECIDE),
    ("rerun = request.rerun and ", "rerun = ", DECIDE),
    ("request.slot == record.open_slot and not live", "not live", DECIDE),
    ("record.open_slot and not live", "record.open_slot", DECIDE),
    ("if not rerun:", "if False:", DECIDE),
    ("    if live:\n", "    if False:\n", DECIDE),
    ("> now.server + request.margin:", ">= now.server + request.margin:", DECIDE),
    ("> now.server + request.margin:", "> now.server:", DECIDE),
    ("> now.server + request.margin:", "> now.server + 10**12:", DECIDE),
    # The claim.
    ("        **current.kept,\n", "", CLAIM),
    ("        **_claim(record, request),\n", "", CLAIM),
    ("if request.fenced:", "if True:", CLAIM),
    ("int(record.fence or 0) + 1 if", "int(record.fence or 0) if", CLAIM),
    ("else 0, now.server)", "else 0, 0)", CLAIM),
    (
        'fields["fence"] = max(int(record.fence or 0) + 1 if record else 0, now.server)',
        'fields["fence"] = now.server',
        CLAIM,
    ),
    ('fields["fence"] = record.fence', "pass", CLAIM),
    ("if record is None or request.slot != record.open_slot:", "if True:", CLAIM),
    ('"unfinished": request.slot, **(request', "**(request", CLAIM),
    ('{**claim, "slot": max(record.slot or "", request.slot), "attempt"', '{**claim, "attempt"', CLAIM),
    ("**(request.missed or NONE_MISSED).to_json()}", "}", CLAIM),
    (", *NONE_MISSED.to_json())", ")", CLAIM),
    ("**(request.missed.to_json() if request.missed else {})", "", CLAIM),
    ("if request.missed else {})", "if False else {})", CLAIM),
    # What is cancelled, and what that ends.
    ("type(self.cancel) in (int, float) and ", "", HOLDING),
    ("and self.cancel == self.fence", "", HOLDING),
    ("and self.cancel == self.fence", "and self.cancel <= self.fence", HOLDING),
    ("and self.cancel == self.fence", "and self.cancel >= self.fence", HOLDING),
    ("return None if self.is_cancelled else self.unfinished", "return self.unfinished", DECIDE),
    ("request.slot == record.open_slot and not live", "request.slot == record.unfinished and not live", DECIDE),
    ('        "cancel": None,  # it was meant for the acquisition before\n', "", CLAIM),
    ('        "cancelWhy": None,\n', "", CLAIM),
    ('"renews": False if request.fenced and not request.renews else None', '"renews": None', CLAIM),
    ("request.fenced and not request.renews", "not request.renews", CLAIM),
    ("request.fenced and not request.renews", "request.fenced", CLAIM),
    ('"unfinished": record.open_slot', '"unfinished": record.unfinished', CLAIM),
    (
        "if record is None or request.slot != record.open_slot:",
        "if record is None or request.slot != record.unfinished:",
        CLAIM,
    ),
    ("    if record.fence != fence:\n", "    if False:\n", HOLDING),
    ('{"cancel": None, "cancelWhy": None} if is_anothers else {}', "{}", HOLDING),
    ('{"cancel": None, "cancelWhy": None} if is_anothers else {}', '{"cancel": None}', HOLDING),
    ("is_anothers = unfinished is not None and unfinished != tick", "is_anothers = tick is None", RESUMED),
    ("unfinished is not None and unfinished != tick", "unfinished is not None", f"{RESUMED} {HOLDING}"),
    ("unfinished is not None and unfinished != tick", "unfinished != tick", f"{RESUMED} {HOLDING}"),
    (
        '        if request.slot is not None:\n            fields["unfinished"] = None',
        '        if True:\n            fields["unfinished"] = None',
        CLAIM,
    ),
    (
        '        if request.slot is not None:\n            fields["unfinished"] = None',
        "        if False:\n            pass",
        CLAIM,
    ),
    ("now.server if request.momentary else now.server + request.ttl", "now.server + request.ttl", CLAIM),
    ('        fields |= {"releasedAt": now.server}\n', "", CLAIM),
    ("(record.releasedAt is None or request.momentary)", "record.releasedAt is None", DECIDE),
    (
        "if term is not None and (request.momentary or term.is_trusted(now.mono, request.margin)):",
        "if term is not None and term.is_trusted(now.mono, request.margin):",
        DECIDE,
    ),
    ("int(record.attempt or 1) + 1", "int(record.attempt or 1)", CLAIM),
    # The holder.
    ("if record.holder != holder:", "if False:", HOLDING),
    ('return Lost("it was released")', "pass", HOLDING),
    ("if not now.server < record.expiresAt - margin:", "if False:", HOLDING),
    ("now.server < record.expiresAt - margin:", "now.server < record.expiresAt:", HOLDING),
    ("now.server < record.expiresAt - margin:", "now.server <= record.expiresAt - margin:", HOLDING),
    ("if not term.is_trusted(now.mono, margin):", "if False:", HOLDING),
    ("later = LeaseTerm(now.server + ttl, now)", "later = LeaseTerm(now.server + ttl, term.reading)", HOLDING),
    ("max(now, int(record.acquiredAt or 0) + hold_at_least)", "now", HOLDING),
    ("max(now, int(record.acquiredAt or 0) + hold_at_least)", "int(record.acquiredAt or 0) + hold_at_least", HOLDING),
    ("finished is not None and record.unfinished == finished", "finished is not None", HOLDING),
    ("(record.slot, record.fence, unfinished)", "(record.fence, unfinished)", HOLDING),
    ("(record.slot, record.fence, unfinished)", "(record.slot, unfinished)", HOLDING),
    ("(record.slot, record.fence, unfinished)", "(record.slot, record.fence)", HOLDING),
    (" and not record.model_extra", "", HOLDING),
    (" and expires_at == now:", ":", HOLDING),
    ('            "outcome": outcome,\n', "", HOLDING),
    # The newest tick that succeeded.
    ('        "succeededSlot": record.succeededSlot if record else None,\n', "", CLAIM),
    ("(self.succeededSlot, also) if slot", "(also,) if slot", HOLDING),
    ("(self.succeededSlot, also) if slot", "(also or self.succeededSlot,) if slot", HOLDING),
    ('slot <= (self.slot or "")', 'slot < (self.slot or "")', HOLDING),
    ('if slot and slot <= (self.slot or "")', "if slot", HOLDING),
    ("return max((slot for slot in (self", "return min((slot for slot in (self", HOLDING),
    ("if finished and outcome", "if outcome", HOLDING),
    ('if finished and outcome == "succeeded"', "if finished", HOLDING),
    # The runs that failed.
    ("after_claim(record.failures, record.open_slot, record.releasedAt) if record else None", "None", FAILED),
    ("record.failures, record.open_slot, record", "record.failures, record.unfinished, record", FAILED),
    ("record.open_slot, record.releasedAt)", "record.open_slot, None)", FAILED),
    ("is_tick=record.slot is not None and tick is not None", "is_tick=True", FAILED),
    ("is_tick=record.slot is not None and tick is not None", "is_tick=record.slot is not None", FAILED),
    ("is_tick=record.slot is not None and tick is not None", "is_tick=tick is not None", FAILED),
)

FIELDS = _in(
    "lock/fields.py",
    ("_TOO_HIGH = 2**53 - 1", "_TOO_HIGH = 2**53", PARSE),
    (
        "Annotated[int, Field(gt=-_TOO_HIGH, lt=_TOO_HIGH)] | Annotated[float, Field(gt=-_TOO_HIGH, lt=_TOO_HIGH)]",
        "int | float",
        PARSE,
    ),
    ("Count: TypeAlias = Annotated[int, Field(ge=0,", "Count: TypeAlias = Annotated[int, Field(ge=-5,", PARSE),
)

COUNTS = _in(
    "lock/failures.py",
    ("open_slot is not None and released_at is None", "released_at is None", FAILED),
    ("open_slot is not None and released_at is None", "open_slot is not None", FAILED),
    ('if outcome == "succeeded":', 'if outcome == "succeeded" and is_tick:', FAILED),
    ('if outcome == "succeeded":', "if False:", FAILED),
    ('if is_tick and outcome in ("failed", "lost")', 'if outcome in ("failed", "lost")', FAILED),
    ('is_tick and outcome in ("failed", "lost")', "is_tick", FAILED),
    ('in ("failed", "lost")', 'in ("failed",)', FAILED),
    ('in ("failed", "lost")', 'in ("lost",)', FAILED),
    ("isinstance(failures, bool) or ", "", FAILED),
    (" or failures < 0", "", FAILED),
    ("return failures + 1", "return 1", FAILED),
)

TERM = _in(
    "lock/lease_term.py",
    ("span - max(margin, wrong)", "span", DECIDE),
    ("span - max(margin, wrong)", "span - wrong", DECIDE),
    ("span - max(margin, wrong)", "span - margin", CLAIM),
    ("self.reading.uncertainty + self.reading.drift * span", "self.reading.uncertainty", CLAIM),
    ("self.reading.uncertainty + self.reading.drift * span", "self.reading.drift * span", CLAIM),
    ("return mono < self.ends(margin)", "return mono <= self.ends(margin)", DECIDE),
)

INSTANTS = _in(
    "base/instants.py",
    ("    to_milliseconds(text)\n", "", PARSE),
)

PROTOCOL = _in(
    "lock/protocol.py",
    ("snapshot = known or ABSENT", "snapshot = ABSENT", EXCHANGES),
    ("if isinstance(decision, Mine | Refused) and not is_fresh:", "if False:", EXCHANGES),
    ("if choose is not None and not isinstance(decision, Mine):", "if choose is not None:", EXCHANGES),
    ("        written.setdefault(decision.term.expires_at, decision.term)\n", "", EXCHANGES),
    (
        "        except Unavailable as error:\n            tries += 1\n            yield Pause(tries, error)\n"
        "            try:\n                snapshot, is_fresh",
        "        except Unavailable as error:\n            try:\n                snapshot, is_fresh",
        EXCHANGES,
    ),
    ("snapshot if was_denied else None", "snapshot", EXCHANGES),
    ("snapshot if was_denied else None", "None", EXCHANGES),
    ("            if refused == ABSENT:\n", "            if False:\n", EXCHANGES),
    ("            if refused is not None:\n", "            if refused == ABSENT:\n", EXCHANGES),
    ("if snapshot != ABSENT and snapshot == refused:", "if snapshot == refused:", EXCHANGES),
    ("if snapshot != ABSENT and snapshot == refused:", "if False:", EXCHANGES),
    ("            if isinstance(error, Unavailable):\n", "            if True:\n", EXCHANGES),
    (
        "if not request.momentary and not decision.term.is_trusted(answer.mono, request.margin):",
        "if False:",
        EXCHANGES,
    ),
    ("    if tries > 1:\n", "    if tries > 2:\n", EXCHANGES),
    ("    if tries > 1:\n", "    if False:\n", I_STORE),
    *(
        (f"{before}        tries += 1\n        yield from overtaken(tries)\n", before, I_STORE)
        for before in (
            "            return Held(decision.record, decision.term, Snapshot(answer.etag, node))\n"
            "        snapshot = expect(answer, Snapshot)\n",
            "            return Snapshot(answer.etag, node)\n        snapshot = expect(answer, Snapshot)\n",
        )
    ),
    ("if not held.term.is_trusted(answer.mono, margin):", "if False:", EXCHANGES),
    (
        "if not held.term.is_trusted(answer.mono, margin):",
        "if not decision.term.is_trusted(answer.mono, margin):",
        EXCHANGES,
    ),
    (
        "renewed(snapshot.node, holder, ttl, now, held.term, margin)",
        "renewed(held.record.to_json(), holder, ttl, now, held.term, margin)",
        EXCHANGES,
    ),
    ("        if sent and (\n", "        if (\n", EXCHANGES),
    ("        if sent and (\n", "        if False and (\n", EXCHANGES),
    (" and held.term.is_trusted(now.mono, margin))", ")", EXCHANGES),
    ("            sent = True\n", "", EXCHANGES),
    ("    if node is None:\n        return True\n", "    if node is None:\n        return False\n", EXCHANGES),
    (' and node.get("holder") == holder', "", EXCHANGES),
    (
        "            tries += 1\n            yield Pause(tries, error)\n\n\ndef overtaken",
        "            yield Pause(tries, error)\n\n\ndef overtaken",
        EXCHANGES,
    ),
    ("    if not isinstance(answer, kind):", "    if False:", EXCHANGES),
    ("        if _is_cancelled(snapshot.node, holder, fence, now.server):\n", "        if False:\n", EXCHANGES),
    ("            if snapshot == denied:\n                raise\n", "            raise\n", EXCHANGES),
    ("expect(answer, Snapshot)\n        yield from overtaken(tries)\n", "_expect(answer, Snapshot)\n", EXCHANGES),
    ("            if snapshot == denied:\n", "            if False:\n", EXCHANGES),
    ("(record.holder, record.fence) == (holder, fence) and", "record.fence == fence and", EXCHANGES),
    ("(record.holder, record.fence) == (holder, fence) and", "record.holder == holder and", EXCHANGES),
    ("== (holder, fence) and record.is_cancelled", "== (holder, fence)", EXCHANGES),
    (
        "        if isinstance(after, Lost):\n            return after\n        node = after.to_json()",
        "        node = after.to_json()",
        EXCHANGES,
    ),
)

LEASES = _in(
    "lock/lease.py",
    ("timing.mono() >= self.ends:", "timing.mono() > self.ends:", I_LEASE),
    ("timing.mono() >= self.ends:", "timing.mono() < 0:", LEASE),
    ("        if self.lost:\n            raise LeaseLost", "        if False:\n            raise LeaseLost", LEASE),
    (
        "        if self.cancelled:\n            raise Cancelled",
        "        if False:\n            raise Cancelled",
        LEASE,
    ),
    ("        self._look_for_cancel()\n        if", "        if", LEASE),
    ("self.cancel(why if isinstance(why, str) else None)", "self.cancel()", LEASE),
    ("self.cancel(why if isinstance(why, str) else None)", "self.cancel(why)", LEASE),
    ("if self._fence is not None and self._held.record.is_cancelled:", "if self._held.record.is_cancelled:", LEASE),
    ("if self._fence is not None and self._held.record.is_cancelled:", "if self._fence is not None:", LEASE),
    ('if self._state != "held" or self._cancelled:', "if self._cancelled:", LEASE),
    ('if self._state != "held" or self._cancelled:', 'if self._state != "held":', LEASE),
    ("            if not self._cancelled:\n", "            if True:\n", LEASE),
    ("            if not self._cancelled:\n", "            if False:\n", LEASE),
    ('if self._state in ("releasing", "released"):', 'if self._state == "released":', LEASE),
    ('if self._state in ("releasing", "released"):', 'if self._state == "releasing":', LEASE),
    ('            self._state = "releasing"  # from here on', "            pass  # from here on", LEASE),
    ("isinstance(left, Lost) and not was_lost:", "isinstance(left, Lost):", LEASE),
    ("isinstance(left, Lost) and not was_lost:", "False:", LEASE),
    ("            self._lost.set()\n        self._on_end", "        self._on_end", LEASE),
    ("            self._was_lost = was_lost or isinstance(left, Lost)\n", "", LEASE),
    ("            if not was_lost:\n", "            if True:\n", LEASE),
    ("            self._was_lost = True\n", "", LEASE),
    ("if not self.is_held() or self.lost:", "if not self.is_held():", LEASE),
    (
        "            if not self.is_held():\n                return False\n            exchange",
        "            exchange",
        LEASE,
    ),
    (
        "self.driver.deadline(min(seconds, (self.ends - self.driver.timing.mono()) / 1000))",
        "self.driver.deadline(seconds)",
        I_LEASE,
    ),
    ("self._path, deadline, self.ends)", "self._path, deadline)", I_LEASE),
    ("                self._held = answer\n", "                pass\n", LEASE),
    ("            self.lose(answer.why)\n", "", I_STORE),
    ('            if self._state != "held":\n', "            if False:\n", LEASE),
    ("        self._report_lost(why)\n        self._on_end(self, None)\n", "        self._report_lost(why)\n", LEASE),
    ("            if not self._was_lost:\n", "            if True:\n", LEASE),
    ('        self._state = "released"\n        # A new flag', "        # A new flag", LEASE),
    ("        self._lost = Flag()\n        self._lost.set()\n", "        self._lost = Flag()\n", LEASE),
    ("            self._lost.set()  # before the loss is reported", "            # before the loss is reported", LEASE),
    (
        "        except Exception as error:\n            # This may run",
        "        except KeyError as error:\n            # This may run",
        LEASE,
    ),
    (
        "release_timeout)\n        if not self._request_lock.acquire(timeout=deadline.remaining()):",
        "release_timeout)\n        if not self._request_lock.acquire():",
        LEASE,
    ),
    (
        "        except Exception as error:\n            # Every exception counts",
        "        except StoreError as error:\n            # Every exception counts",
        LEASE,
    ),
    (
        "self.driver.deadline(self.driver.settings.release_timeout)",
        "self.driver.deadline(self.ends / 1000 - self.driver.timing.mono() / 1000)",
        I_HOLDER,
    ),
)

CONTENDER = _in(
    "lock/contender.py",
    ("        check_name(name)\n        for_ms", "        for_ms", CONTENDS),
    ("        self._settings.check_ttl(for_ms)\n", "", I_LEASE),
    ("        if at_least > for_ms:\n", "        if False:\n", I_LEASE),
    ("        if at_least > for_ms:\n", "        if at_least >= for_ms:\n", I_LEASE),
    ("            holder=new_holder(),\n", '            holder="me",\n', I_HOLDER),
    ("self._settings.acquire_timeout, bid.request.ttl / 3000", "self._settings.acquire_timeout", I_LEASE),
    ("self._settings.acquire_timeout, bid.request.ttl / 3000", "bid.request.ttl / 3000", I_STORE),
    (
        '            return not_known(bid.name, "unavailable", error)\n        except',
        "            raise\n        except",
        I_HOLDER,
    ),
    ('            return not_known(bid.name, "denied", error)', "            raise", I_STORE),
    (
        "        if isinstance(answer, Refused):\n"
        "            return refusal_of(bid.name, answer, bid.request, self.roster)\n",
        "",
        PATIENCE,
    ),
    ("acquiring(bid.request, self.known.get(bid.name),", "acquiring(bid.request, None,", REQUESTS),
    ("            self.known.put(lease.name, left)", "            pass", REQUESTS),
    ("        self.keeper.forget(lease)\n", "", LEASE),
    (
        "self.keeper.keep(lease, renews=bid.request.renews, limit=limit)",
        "self.keeper.keep(lease, renews=True, limit=limit)",
        ASYNC_WORK,
    ),
    (
        "self.keeper.keep(lease, renews=bid.request.renews, limit=limit)",
        "self.keeper.keep(lease, renews=False, limit=limit)",
        I_LEASE,
    ),
    (
        'await asyncio.shield(off_loop(lease.release, self._pool("release").submit))',
        'await off_loop(lease.release, self._pool("release").submit)',
        CONTENDS,
    ),
    (", unwanted=self.give_back)", ")", ASYNC),
    ("        if isinstance(answer, Lease):\n            try:\n", "        if False:\n            try:\n", ASYNC),
    ("if higher == level or key in self._told:", "if False:", EVENTS),
    ("if higher == level or key in self._told:", "if True:", EVENTS),
    ("logging.WARNING if refusal.is_strange else", "", REFUSALS),
    ("            self.known.forget(lease.name)", "            self.known.put(lease.name, left)", CONTENDS),
)

UNDER_LOCK = _in(
    "lock/blocks.py",
    (
        "        if isinstance(lease, Refusal):\n            return lease\n        result = fn()\n",
        "        result = fn()\n",
        I_HOLDER,
    ),
    ("        contender.give_back(lease)\n", "        pass\n", I_HOLDER),
    ("    if isawaitable(result):\n", "    if False:\n", BLOCKS),
    ("        if lease.lost and work.cancelled() and", "        if False and", I_LEASE),
    ("    lease.when_lost(lambda: loop.call_soon_threadsafe(work.cancel))\n", "", ASYNC_WORK),
    ("            raise NotAcquired(answer) from answer.error", "            pass", I_HOLDER),
    ("        self._leave().release()\n", "        self._leave()\n", I_HOLDER),
    ("if isgeneratorfunction(fn) or isasyncgenfunction(fn):", "if isgeneratorfunction(fn):", GENERATED),
    ("if isgeneratorfunction(fn) or isasyncgenfunction(fn):", "if isasyncgenfunction(fn):", GENERATED),
    ("    if isgenerator(result) or isasyncgen(result):\n", "    if isgenerator(result):\n", GENERATED),
    ("    return _done(fn, result)\n", "    return result\n", GENERATED),
    ("return _done(fn, await while_held(lease, fn))", "return await while_held(lease, fn)", GENERATED),
)

RECENT = _in(
    "base/recent.py",
    ("        if len(self._values) > self.most:\n", "        if False:\n", CONTENDS),
    ("        self._values.pop(key, None)\n        self._values[key]", "        self._values[key]", CONTENDS),
)

REFUSAL = _in(
    "lock/refusal.py",
    ("    if refused.is_stuck:\n", "    if False:\n", REFUSALS),
    ("            if not refused.is_stuck:\n", "            if True:\n", REFUSALS),
    ('who = "this instance" if is_own else', "who =", REFUSALS),
    (
        "    def __bool__(self) -> Literal[False]:\n        return False",
        "    def __bool__(self) -> bool:\n        return True",
        I_LEASE,
    ),
)

ROSTER = (
    _in(
        "lock/instances.py",
        (" and at > now - DAY}", "}", SILENT),
        ("if instance not in last_seen and", "if", SILENT),
        ("max(at, found.get(instance, at))", "at", SILENT),
        (" or record.releasedAt is not None:", ":", SILENT),
        (", whole(record.acquiredAt or 0)", "", SILENT),
        (", whole(record.expiresAt) - ttl)", ")", SILENT),
        ("return last if last < limit else None", "return last", SILENT),
        ("if instance in left or at >= old_limit}", "if at >= old_limit}", SILENT),
        ("if instance in left or at >= old_limit}", "if instance in left}", SILENT),
        ("if instance in left or at >= old_limit}", "}", SILENT),
        ("if record.instance in left and not _is_scheduled_run(record):", "if record.instance in left:", SILENT),
        ("if record.instance in left and not _is_scheduled_run(record):", "if False:", SILENT),
    )
    + _in(
        "lock/refusal.py", ('    if refused.reason != "held" or record is None:\n', "    if record is None:\n", SILENT)
    )
    + _in("runs/policy.py", ("free(record, end, silent_since)", "free(record, end)", SILENT))
    + _in("runs/missing.py", ("min(freed_at(record), silent_since)", "silent_since", SILENT))
    + _in("scheduler/heartbeat.py", ("        self._roster.note(", "        _ = (", SILENT))
)

WAITING = _in(
    "lock/waiting.py",
    ('answer.reason in ("held", "unavailable")', 'answer.reason in ("held",)', PATIENCE),
    ('answer.reason in ("held", "unavailable")', "True", PATIENCE),
    ("or self._deadline.remaining() <= 0:", "or self._deadline.remaining() < 0:", PATIENCE),
    ("return min(due, self._deadline.remaining())", "return due", PATIENCE),
    ('        if answer.reason == "held":\n            self._streams.add(self._follow)\n', "", PATIENCE),
    ("        self._streams.discard(self._follow)\n", "        pass\n", PATIENCE),
)

PAUSES = _in(
    "lock/pauses.py",
    ("if value is None or value is False:", "if value is None:", PAUSED),
    ("if value is None or value is False:", "if value is not True:", PAUSED),
    ("self.until is None or now < self.until", "self.until is None or now <= self.until", PAUSED),
    ("self.until is None or now < self.until", "self.until is not None and now < self.until", PAUSED),
    ("return max((instant", "return min((instant", PAUSED),
    ("if pause is None or pause.holds(now) else", "if pause is None else", PAUSED),
)

ACTS = _in(
    "lock/acts.py",
    ("sorted(keys)[: -(KEPT - 1)]", "sorted(keys)[:-KEPT]", TRAIL),
    ("sorted(keys)[: -(KEPT - 1)]", "sorted(keys)[: -(KEPT - 2)]", TRAIL),
    ("sorted(keys)[: -(KEPT - 1)]", "sorted(keys)[KEPT - 1 :]", TRAIL),
    ("sorted(keys)", "list(keys)", TRAIL),
    ("_cut(redacted(why), LONGEST_WHY)", "_cut(why, LONGEST_WHY)", TRAIL),
    ("{at % 1000:03d}", "{at % 1000}", TRAIL),
    ("whole[: 2 * longest]", "whole", TRAIL),
)

TRAILING = _in(
    "lock/trail.py",
    ("until <= act.at:", "until < act.at:", TRAIL),
    ('{**dict.fromkeys(PAUSE_FIELDS), "resumedAt": act.at}', "dict.fromkeys(PAUSE_FIELDS)", TRAIL),
    ("            self._store.merge(self._paths.prefix, changes, self._deadline())\n", "            pass\n", TRAIL),
    ('{**{f"{acts}/{key}": None for key in old}, f"{acts}/{act.key}"', '{f"{acts}/{act.key}"', TRAIL),
    ("            self._tell(act.act, act.name, act.who, error)\n", "            pass\n", TRAIL),
)

FOLLOWS = _in(
    "lock/candidate.py",
    ("pause is not None and (now is None or pause.holds(now.server))", "pause is not None", CANDIDATES),
    ("pause is not None and (now is None or pause.holds(now.server))", "False", CANDIDATES),
)

HEARING = _in(
    "lock/hearing.py",
    ("return 0\n    if not isinstance", "return inf\n    if not isinstance", HEARS),
    ("or is_paused(current.kept, now)", "or False", HEARS),
    ("or is_paused(current.kept, now)", "or is_paused(current.kept, 0)", HEARS),
    ("(margin if current.releasedAt is None else 0)", "margin", HEARS),
    ("self._number = 0 if heard is None else heard.number", "self._number = 0", HEARS),
    ("is_news = heard.number > self._number", "is_news = True", HEARS),
    ("max(due, self._seen_at)", "mono", HEARS),
    ("self._pause = self._longest * self._chance()\n        self._free_since", "self._free_since", HEARS),
    ("max(_FIRST_PAUSE, _LESS * self._longest)", "_LESS * self._longest", HEARS),
    ("refusal.holder == before.holder", "False", HEARS),
    ('before is not None and refusal.reason == "held"', "before is not None", HEARS),
    ("if self._polls_at is None:", "if True:", HEARS),
    (' or refusal.reason != "held":', ":", HEARS),
    ("        elif self._free_since is None:\n", "        else:\n", HEARS),
)

STREAMS = _in(
    "lock/streams.py",
    ("(has_room := self._free > 0)", "(has_room := True)", SHARED),
    ("            if not stream.follows:\n", "            if False:\n", SHARED),
    ("self._timing.mono() - opened >= _LASTING", "False", SHARED),
    ("_LONGEST_PAUSE if isinstance(error, Denied) else ", "", SHARED),
    ("            self.places.leave()\n        self._serve()", "            self.places.leave()", SHARED),
    ("        if watch is not None:\n            watch.close()", "        pass", SHARED),
    (
        "            except Exception as error:\n                # One",
        "            except KeyError as error:\n                # One",
        SHARED,
    ),
)

STREAM = _in(
    "rtdb/stream.py",
    ("        self._reply.shut()\n", "", SENT),
    ("            self._reply.limit.at = self._timing.mono() + _SILENCE", "            pass", SENT),
    ("        if self._has_begun:\n            self._reply", "        if True:\n            self._reply", SENT),
    ('(self._has_begun or (frame.name, path) == ("put", "/"))', "True", SENT),
    ("                self._revoked()\n", "", SENT),
    ("found.scheme != own.scheme or ", "", SENT),
    ("name.endswith(FIREBASES) and ", "", SENT),
    (' or "@" in found.netloc', "", SENT),
)

STORE = _in(
    "rtdb/store.py",
    ('if (written and not written.startswith("W/")) or body == node:', "if True:", PROXIES),
    ('(written and not written.startswith("W/")) or', "written or", PROXIES),
    (" or body == node:", ":", PROXIES),
    ("        if not _is_time(now):\n", "        if not isinstance(now, int):\n", PROXIES),
    ("if not isinstance(body, dict) or not all(", "if not all(", MERGES),
    (" and _EARLIEST <= value <= _LATEST", "", PROXIES),
    ("answered == sent\n", "True\n", PROXIES),
    ("(ValueError, RecursionError):\n        raise", "ValueError:\n        raise", PROXIES),
    ("(ValueError, RecursionError):\n        body", "ValueError:\n        body", PROXIES),
    ("min(float(text), _LONGEST_REST)", "float(text)", DOWN),
    ("min(max(0.0, (until - at).total_seconds()), _LONGEST_REST)", "max(0.0, (until - at).total_seconds())", DOWN),
    ("(ValueError, TypeError, OverflowError)", "(ValueError, TypeError)", DOWN),
    (
        "    except ValueError as error:\n            raise Config",
        "    except KeyError as error:\n            raise Config",
        PROXIES,
    ),
)

DRIVER = _in(
    "lock/driver.py",
    (
        "                except StoreError as error:\n                    action = exchange.throw(error)",
        "                except KeyError as error:\n                    action = exchange.throw(error)",
        DRIVES,
    ),
    ("Swapped(found, self.timing.mono())", "Swapped(found, deadline.at)", DRIVES),
    ("            seconds = min(seconds, (", "            seconds = max(seconds, (", DRIVES),
    ("if request.remaining() <= 0:", "if False:", DRIVES),
)

_BOTH_NEED_NEW = "            needs.new_for_read = needs.new_for_write = True\n"
TRANSPORT = _in(
    "rtdb/transport.py",
    (_BOTH_NEED_NEW, "", PROXIES),
    (_BOTH_NEED_NEW, "            needs.new_for_read = True\n", PROXIES),
    (_BOTH_NEED_NEW, "            needs.new_for_write = True\n", "tests/stores/test_transport.py"),
    ("            needs.new_for_read = False\n", "            pass\n", PROXIES),
    ("            needs.new_for_write = False\n", "            pass\n", PROXIES),
    ("        if is_read:\n", "        if True:\n", PROXIES),
    ("            if on_new:\n", "            if False:\n", PROXIES),
)

LOCK_MUTANTS = (
    STORE
    + DRIVER
    + TRANSPORT
    + INSTANTS
    + RECORD
    + TERM
    + PROTOCOL
    + LEASES
    + CONTENDER
    + UNDER_LOCK
    + FIELDS
    + COUNTS
    + RECENT
    + FIELDS
    + REFUSAL
    + ROSTER
    + WAITING
    + PAUSES
    + ACTS
    + TRAILING
    + FOLLOWS
    + HEARING
    + STREAMS
    + STREAM
)
