"""What takes, holds and gives back a lock, broken in turn: a list for `tests.mutations`."""

from __future__ import annotations

from tests.invariants.mutants import in_file

EXCHANGES = "tests/unit/lock/test_protocol.py tests/unit/lock/test_protocol_holding.py"
LEASE = "tests/unit/lock/test_lease.py"
I_HOLDER = "tests/invariants/test_holder.py"
I_LEASE = "tests/invariants/test_lease.py tests/invariants/test_renewal.py"
I_STORE = "tests/invariants/test_store.py"
PATIENCE = "tests/unit/lock/test_waiting.py"
PAUSED = "tests/unit/lock/test_fields_pauses.py"
TRAIL = "tests/unit/lock/test_audit_log.py"
EVENTS = "tests/unit/base/test_events.py"
BLOCKS = "tests/process/test_lock_processes.py"
ASYNC = "tests/process/test_lock_async.py"
ASYNC_WORK = "tests/process/test_lock_async.py"
SERVICE = "tests/unit/lock/test_service.py"
CONTENDS = "tests/unit/lock/test_contender.py"
GENERATED = "tests/unit/lock/test_blocks.py"
REFUSALS = "tests/unit/lock/test_refusal.py"
SILENT = "tests/unit/lock/test_refusal_instances.py tests/simulation/test_silent_holders.py"
REQUESTS = "tests/stores/test_lock_proxies.py"
DRIVER = "tests/unit/lock/test_protocol_driver.py"

PROTOCOL = in_file(
    "lock/protocol.py",
    ("(known or ABSENT, False)", "(ABSENT, False)", EXCHANGES),
    ("(isinstance(decision, Mine | Refused) or is_outdated(snapshot, request))", "False", EXCHANGES),
    (
        "(isinstance(decision, Mine | Refused) or is_outdated(snapshot, request))",
        "isinstance(decision, Mine)",
        EXCHANGES,
    ),
    (" or is_outdated(snapshot, request)", "", EXCHANGES),
    ('node.get("releasedAt") is None and node', "node", EXCHANGES),
    (' and node.get("instance") != request.instance\n', "\n", EXCHANGES),
    ("        written.setdefault(decision.trust.expires_at, decision.trust)\n", "", EXCHANGES),
    (
        "        except Unavailable as error:\n            tries += 1\n            yield BackOff(tries, error)\n"
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
        "if not request.momentary and not decision.trust.is_trusted(answer.mono, request.margin):",
        "if False:",
        EXCHANGES,
    ),
    ("    if tries > 1:\n", "    if tries > 2:\n", EXCHANGES),
    ("    if tries > 1:\n", "    if False:\n", I_STORE),
    *(
        (f"{before}        tries += 1\n        yield from overtaken(tries)\n", before, I_STORE)
        for before in (
            "            return Held(decision.record, decision.trust, Snapshot(answer.etag, node))\n"
            "        snapshot = expect(answer, Snapshot)\n",
            "            return Snapshot(answer.etag, node)\n        snapshot = expect(answer, Snapshot)\n",
        )
    ),
    ("if not held.trust.is_trusted(answer.mono, margin):", "if False:", EXCHANGES),
    (
        "if not held.trust.is_trusted(answer.mono, margin):",
        "if not decision.trust.is_trusted(answer.mono, margin):",
        EXCHANGES,
    ),
    (
        "renewed(snapshot.node, holder, ttl, now, held.trust, margin,",
        "renewed(held.record.to_json(), holder, ttl, now, held.trust, margin,",
        EXCHANGES,
    ),
    (', held.record.kept.get("kind"))', ")", "tests/unit/leaders/test_candidate.py"),
    ("        if sent and (\n", "        if (\n", EXCHANGES),
    ("        if sent and (\n", "        if False and (\n", EXCHANGES),
    (" and held.trust.is_trusted(now.mono, margin))", ")", EXCHANGES),
    ("            sent = True\n", "", EXCHANGES),
    ("    if node is None:\n        return True\n", "    if node is None:\n        return False\n", EXCHANGES),
    (' and node.get("holder") == holder', "", EXCHANGES),
    (
        "            tries += 1\n            yield BackOff(tries, error, first)\n\n\ndef overtaken",
        "            yield BackOff(tries, error, first)\n\n\ndef overtaken",
        EXCHANGES,
    ),
    ("            first = first or error\n", "            first = error\n", DRIVER),
    ("(yield from reading(first))", "(yield from reading())", DRIVER),
    ("    if not isinstance(answer, kind):", "    if False:", EXCHANGES),
    ("        if _is_cancelled(node, holder, fence, now):\n", "        if False:\n", EXCHANGES),
    ("            if snapshot == denied:\n                raise\n", "            raise\n", EXCHANGES),
    (
        "expect(answer, Snapshot), True\n        yield from overtaken(tries)\n\n\ndef to_node",
        "expect(answer, Snapshot), True\n\n\ndef to_node",
        EXCHANGES,
    ),
    ("            if snapshot == denied:\n", "            if False:\n", EXCHANGES),
    ("(record.holder, record.fence) == (holder, fence) and", "record.fence == fence and", EXCHANGES),
    ("(record.holder, record.fence) == (holder, fence) and", "record.holder == holder and", EXCHANGES),
    ("== (holder, fence) and record.is_cancelled", "== (holder, fence)", EXCHANGES),
    ("return after if isinstance(after, Lost) else after.to_json()", "return after.to_json()", EXCHANGES),
    ("return snapshot if lost is None else lost", "return snapshot", EXCHANGES),
)

LEASES = in_file(
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
    ('            self._lost.set()\n            self._state = "r', '            self._state = "r', LEASE),
    (
        '            self._lost.set()\n            self._state = "releasing"',
        '            self._state = "releasing"\n            self._lost.set()',
        LEASE,
    ),
    (
        "            self._lost.set()  # before the loss is reported: listeners and log handlers may be slow\n",
        '            self._state = "lost"\n            self._lost.set()\n',
        LEASE,
    ),
    ("            self._was_lost = was_lost or isinstance(left, Lost)\n", "", LEASE),
    ("            if not was_lost:\n", "            if True:\n", LEASE),
    ("            self._was_lost = True\n", "", LEASE),
    (
        "        if self.lost:\n            return False\n        database = self.database\n",
        "        if not self.is_held():\n            return False\n        database = self.database\n",
        LEASE,
    ),
    (
        "            if not self.is_held():\n                return False\n            exchange",
        "            exchange",
        LEASE,
    ),
    (
        "database.deadline(min(seconds, (self.ends - database.timing.mono()) / 1000))",
        "database.deadline(seconds)",
        I_LEASE,
    ),
    ("self._path, deadline, self.ends)", "self._path, deadline)", I_LEASE),
    ("                self._held = answer\n", "                pass\n", LEASE),
    ("            self.lose(answer.why)\n", "", I_STORE),
    ('            if self._state != "held":\n', "            if False:\n", LEASE),
    (
        "        self._report_lost(why)\n        self.database.ended(self, None)\n",
        "        self._report_lost(why)\n",
        LEASE,
    ),
    ("            if not self._was_lost:\n", "            if True:\n", LEASE),
    ('        self._state = "released"\n        # A new flag', "        # A new flag", LEASE),
    ("        lost = Flag()\n        lost.set()\n", "        lost = Flag()\n", LEASE),
    (
        "            return\n        self._state_lock = ",
        "            return\n        self._process = self.database.process\n        self._state_lock = ",
        LEASE,
    ),
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
        "database.deadline(database.settings.release_timeout)",
        "database.deadline(self.ends / 1000 - database.timing.mono() / 1000)",
        I_HOLDER,
    ),
)

DATABASE = in_file(
    "lock/database.py",
    ("check_name(name) if look is None else", "None if look is None else", CONTENDS),
    (
        "            self.settings.check_ttl(for_ms)  # it knows the rule, and the words\n",
        "            pass\n",
        I_LEASE,
    ),
    ("        if at_least > for_ms:\n", "        if False:\n", I_LEASE),
    ("        if at_least > for_ms:\n", "        if at_least >= for_ms:\n", I_LEASE),
    ("            holder=new_holder(),\n", '            holder="me",\n', I_HOLDER),
    ("self.settings.acquire_timeout, bid.ttl / 3000", "self.settings.acquire_timeout", I_LEASE),
    ("self.settings.acquire_timeout, bid.ttl / 3000", "bid.ttl / 3000", I_STORE),
    (
        '            return not_known(bid.name, "unavailable", error)\n        except',
        "            raise\n        except",
        I_HOLDER,
    ),
    ('            return not_known(bid.name, "denied", error)', "            raise", I_STORE),
    (
        "            return refusal_of(bid.name, answer, bid, self.signs_of_life)\n",
        "            pass\n",
        PATIENCE,
    ),
    ("                self.known.put(bid.name, answer.seen)\n", "                pass\n", CONTENDS),
    ("if answer.seen is not None and bid.look is None and is_kept:", "if answer.seen is not None:", CONTENDS),
    ("acquiring(bid, known,", "acquiring(bid, None,", REQUESTS),
    ("            self.known.put(lease.name, left)", "            pass", REQUESTS),
    ("        self.keeper.forget(lease)\n", "", LEASE),
    ("if higher == level or key in self._told:", "if False:", EVENTS),
    ("if higher == level or key in self._told:", "if True:", EVENTS),
    ("logging.WARNING if refusal.is_strange else", "", REFUSALS),
    ("            self.known.forget(lease.name)", "            self.known.put(lease.name, left)", CONTENDS),
)

UNDER_LOCK = in_file(
    "lock/blocks.py",
    (
        "database.keeper.keep(lease, renews=bid.renews, limit=limit)",
        "database.keeper.keep(lease, renews=True, limit=limit)",
        SERVICE,
    ),
    (
        "database.keeper.keep(lease, renews=bid.renews, limit=limit)",
        "database.keeper.keep(lease, renews=False, limit=limit)",
        I_LEASE,
    ),
    (
        'await asyncio.shield(database.off_loop("release", lease.release))',
        'await database.off_loop("release", lease.release)',
        CONTENDS,
    ),
    (", unwanted=lambda answer: give_back(database, answer))", ")", ASYNC),
    ("    if isinstance(answer, Lease):\n        try:\n", "    if False:\n        try:\n", ASYNC),
    (
        "        if isinstance(lease, Refusal):\n            return lease\n        result = fn()\n",
        "        result = fn()\n",
        I_HOLDER,
    ),
    ("        give_back(database, lease)\n", "        pass\n", I_HOLDER),
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

RECENT = in_file(
    "base/events.py",
    ("        if len(self._values) > self.most:\n", "        if False:\n", CONTENDS),
    ("        self._values.pop(key, None)\n        self._values[key]", "        self._values[key]", CONTENDS),
)

REFUSAL = in_file(
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
    in_file(
        "lock/refusal.py",
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
    + in_file(
        "lock/refusal.py", ('    if refused.reason != "held" or record is None:\n', "    if record is None:\n", SILENT)
    )
    + in_file(
        "runs/policy.py", ("unclaimed = free(record, end, silent_since)", "unclaimed = free(record, end)", SILENT)
    )
    + in_file("runs/policy.py", ("min(freed_at(record), silent_since)", "silent_since", SILENT))
    + in_file("runs/policy.py", ("past_pauses(fields, end)", "()", "tests/invariants/test_missed.py"))
    + in_file("scheduler/heartbeat.py", ("        self._database.signs_of_life.observe(", "        _ = (", SILENT))
)

PAUSES = in_file("base/texts.py", ("whole[: 2 * longest]", "whole", TRAIL)) + in_file(
    "lock/fields.py",
    ("cut(redacted(why), LONGEST_WHY)", "cut(why, LONGEST_WHY)", TRAIL),
    ("if value is None or value is False:", "if value is None:", PAUSED),
    ("if value is None or value is False:", "if value is not True:", PAUSED),
    ("self.until is None or now < self.until", "self.until is None or now <= self.until", PAUSED),
    ("self.until is None or now < self.until", "self.until is not None and now < self.until", PAUSED),
    ("return max((instant", "return min((instant", PAUSED),
    ("if instant is not None and instant <= now", "if instant is not None", PAUSED),
    ("if instant is not None and instant <= now", "if instant is not None and instant < now", PAUSED),
)

ACTS = in_file(
    "lock/audit_log.py",
    ("sorted(keys)[: -(KEPT - 1)]", "sorted(keys)[:-KEPT]", TRAIL),
    ("sorted(keys)[: -(KEPT - 1)]", "sorted(keys)[: -(KEPT - 2)]", TRAIL),
    ("sorted(keys)[: -(KEPT - 1)]", "sorted(keys)[KEPT - 1 :]", TRAIL),
    ("sorted(keys)", "list(keys)", TRAIL),
    ("{at % 1000:03d}", "{at % 1000}", TRAIL),
)

TRAILING = in_file(
    "lock/audit_log.py",
    ("until is not None and until <= now:", "until is not None and until < now:", TRAIL),
    ('**dict.fromkeys(PAUSE_FIELDS), "resumedAt": act.at}', "**dict.fromkeys(PAUSE_FIELDS)}", TRAIL),
    (
        "            self._database.store.merge(prefix, dict(changes), self._database.deadline())\n",
        "            pass\n",
        TRAIL,
    ),
    ('{**{f"{acts}/{key}": None for key in old}, f"{acts}/{act.key}"', '{f"{acts}/{act.key}"', TRAIL),
    ("            self._warn(act.act, act.name, act.who, error)\n", "            pass\n", TRAIL),
)

HOLDING_MUTANTS = PROTOCOL + LEASES + DATABASE + UNDER_LOCK + RECENT + REFUSAL + ROSTER + PAUSES + ACTS + TRAILING
