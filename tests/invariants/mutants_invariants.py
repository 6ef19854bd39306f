"""One mutant or more for each named invariant: with what it guards broken, the tests of just that name fail."""

from __future__ import annotations

from tests.invariants.mutants import Mutant

HOLDER = "tests/invariants/test_holder.py"
LEASE = "tests/invariants/test_lease.py"
RENEWAL = "tests/invariants/test_renewal.py"
STORE = "tests/invariants/test_store.py"
WATCH = "tests/invariants/test_watch.py"
CATCHING = "tests/invariants/test_catching_up.py"
CANCEL = "tests/invariants/test_cancel.py"
EVERY = "tests/invariants/test_every.py"
LEADER = "tests/invariants/test_leader.py"
FLEET = "tests/invariants/test_leader_fleet.py"


def _of(number: int, tests: str, *changes: tuple[str, str, str]) -> tuple[Mutant, ...]:
    return tuple(Mutant(*change, f"{tests} -k test_i{number:02}_") for change in changes)


INVARIANTS = (
    *_of(1, HOLDER, ("testing/memory.py", "if current.etag != etag:", "if False:")),
    *_of(
        2,
        HOLDER,
        ("lock/record.py", "if record.holder != holder:", "if record.instanceId is None:"),
        ("lock/database.py", "return secrets.token_urlsafe(12)", 'return "me"'),
    ),
    *_of(
        3,
        HOLDER,
        ("lock/record.py", "return Mine(record, trust)", "return Mine(record, Trust(now.server + request.ttl, now))"),
        (
            "lock/record.py",
            "            return Mine(record, trust)",
            "            return _taken(current, request, now)",
        ),
        ("lock/record.py", "trust.is_trusted(now.mono, request.margin)):", "True):"),
    ),
    *_of(
        4,
        HOLDER,
        ("lock/record.py", "record.holder == request.holder and (", "("),
        ("lock/protocol.py", "        written.setdefault(decision.trust.expires_at, decision.trust)\n", ""),
        (
            "lock/database.py",
            'not_known(bid.name, "unavailable", error)\n        except',
            'not_known(bid.name, "denied", error)\n        except',
        ),
        ("lock/blocks.py", "            raise NotAcquired(answer) from answer.error", "            pass"),
    ),
    *_of(
        5,
        HOLDER,
        ("testing/memory.py", "if current.etag != etag:", "if False:"),
        ("lock/record.py", "if record.holder != holder:", "if False:"),
    ),
    *_of(
        6,
        HOLDER,
        (
            "lock/lease.py",
            "deadline = database.deadline(database.settings.release_timeout)",
            "deadline = database.deadline((self.ends - database.timing.mono()) / 1000)",
        ),
        ("lock/blocks.py", "        await release_async(database, lease)", "        pass"),
        ("lock/blocks.py", "await release_async(self._database, self._leave())", "self._leave()"),
        ("lock/blocks.py", "        self._leave().release()\n", "        self._leave()\n"),
    ),
    *_of(
        7,
        HOLDER,
        ("lock/blocks.py", "        result = fn()\n", "        lease.release()\n        result = fn()\n"),
        ("lock/blocks.py", "return await work\n", "return await asyncio.wait_for(work, 0)\n"),
        ("lock/blocks.py", "return await work\n", "return await asyncio.shield(work)\n"),
    ),
    *_of(
        8,
        LEASE,
        (
            "settings.py",
            '(("acquire_timeout", settings.acquire_timeout), (',
            '(("release_timeout", settings.release_timeout), (',
        ),
        ("settings.py", ', ("release_timeout", settings.release_timeout)):', ",):"),
        ("settings.py", "if settings.clock_interval * settings.clock_drift > settings.margin / 2:", "if False:"),
        ("settings.py", "if ttl < round(self.least_ttl * 1000):", "if False:"),
        ("settings.py", "if ttl < round(self.least_ttl * 1000):", "if ttl <= round(self.least_ttl * 1000):"),
        ("lock/database.py", "        if at_least > for_ms:\n", "        if False:\n"),
        (
            "base/clocks.py",
            "self._uncertainty(estimate, mono) > self._margin:\n            found",
            "False:\n            found",
        ),
    ),
    *_of(
        9,
        LEASE,
        ("lock/record.py", "now < self.free_at(", "now <= self.free_at("),
        ("lock/record.py", "(margin if self.releasedAt is None else 0)", "0"),
        ("lock/record.py", "(margin if self.releasedAt is None else 0)", "margin"),
        ("lock/record.py", "span - max(margin, wrong)", "span"),
        ("lock/lease.py", "timing.mono() >= self.ends:", "timing.mono() > self.ends:"),
        ("lock/record.py", "now.server < record.expiresAt - margin:", "now.server < record.expiresAt + margin:"),
    ),
    *_of(
        10,
        LEASE,
        (
            "lock/protocol.py",
            "if not request.momentary and not decision.trust.is_trusted(answer.mono, request.margin):",
            "if False:",
        ),
        ("lock/protocol.py", "if not held.trust.is_trusted(answer.mono, margin):", "if False:"),
        (
            "lock/protocol.py",
            "return Held(decision.record, decision.trust, Snapshot(answer.etag, node), decision.before)",
            "later = Moment(now.server, answer.mono)\n"
            "            trust = Trust(decision.trust.expires_at, later)\n"
            "            return Held(decision.record, trust, Snapshot(answer.etag, node))",
        ),
        (
            "lock/record.py",
            "return Mine(record, trust)",
            "return Mine(record, Trust(trust.expires_at, Moment(trust.reading.server, now.mono)))",
        ),
        ("lock/lease.py", "timing.mono() >= self.ends:", "timing.mono() < 0:"),
    ),
    *_of(
        11,
        LEASE,
        ("base/clocks.py", "server = int(mono + estimate.offset)", "server = int(self._timing.wall())"),
        (
            "base/clocks.py",
            "cls(timing.mono, timing.mono() + seconds * 1000)",
            "cls(timing.mono, timing.wall() - 1794992400000 + seconds * 1000)",
        ),
    ),
    *_of(
        12,
        f"{LEASE} {RENEWAL}",
        (
            "lock/record.py",
            "record.is_live(now.server, request.margin)",
            "now.server < int(record.acquiredAt or 0) + request.ttl + request.margin",
        ),
        ("lock/record.py", "if not now.server < record.expiresAt - margin:", "if False:"),
    ),
    *_of(
        13,
        RENEWAL,
        (
            "lock/lease.py",
            "            self._lost.set()  # before the loss is reported",
            "            # before the loss is reported",
        ),
        (
            "lock/lease.py",
            "            callbacks, self._on_lost = self._on_lost, []\n",
            "            callbacks: list[Callable[[], object]] = []\n",
        ),
        (
            "lock/lease.py",
            "        if self.lost:\n            raise LeaseLost",
            "        if False:\n            raise LeaseLost",
        ),
        ("lock/lease.py", '"lock.lost", logging.ERROR', '"lock.lost", logging.DEBUG'),
        ("lock/blocks.py", "    lease.when_lost(lambda: loop.call_soon_threadsafe(work.cancel))\n", ""),
    ),
    *_of(
        14,
        RENEWAL,
        (
            "lock/blocks.py",
            "database.keeper.keep(lease, renews=bid.renews, limit=limit)",
            "database.keeper.keep(lease, renews=False, limit=limit)",
        ),
        ("lock/record.py", "if record.releasedAt is not None:\n        return Lost", "if False:\n        return Lost"),
        ("lock/record.py", "if not now.server < record.expiresAt - margin:", "if False:"),
    ),
    *_of(
        15,
        RENEWAL,
        ("lock/database.py", "seconds = min(seconds, (lease_ends - self.timing.mono()) / 3000)", "pass"),
        ("lock/lease.py", "self._path, deadline, self.ends)", "self._path, deadline)"),
        ("lock/database.py", "self.settings.acquire_timeout, bid.ttl / 3000", "self.settings.acquire_timeout"),
    ),
    *_of(
        24,
        CATCHING,
        ("runs/runner.py", "holds = self._hold_left(attempt) > 0", "holds = False"),
        ("runs/runner.py", "if (left := self._hold_left(attempt)) > 0:", "if False:"),
        ("runs/runner.py", "return (hold - held) / 1000", "return (hold + held) / 1000"),
    ),
    *_of(
        29,
        STORE,
        ("lock/record.py", "int(record.fence or 0) + 1 if", "int(record.fence or 0) if"),
        ("lock/record.py", "else 0, now.server)", "else 0, 0)"),
        ("lock/record.py", 'fields["fence"] = record.fence', "pass"),
        ("lock/record.py", "(record.slot, record.fence, unfinished)", "(record.slot, unfinished)"),
    ),
    *_of(
        31,
        STORE,
        ("rtdb/store.py", "not 400 <= status < 500:", "status >= 400:"),
        ("lock/database.py", 'not_known(bid.name, "denied", error)', 'not_known(bid.name, "unavailable", error)'),
        ("lock/refusal.py", '    "denied": logging.ERROR,', '    "denied": logging.INFO,'),
        ("lock/record.py", 'return Refused("malformed", detail=str(error))', "current = IDLE"),
    ),
    *_of(
        32,
        STORE,
        ("base/clocks.py", "if delay >= deadline.remaining():", "if False:"),
        ("lock/protocol.py", "    if tries > 1:\n", "    if False:\n"),
        ("base/clocks.py", "(0.5 + 0.5 * chance)", "0.5"),
        ("base/clocks.py", "2.0 ** min(tries - 1, 16)", "1"),
        ("base/clocks.py", "heeding(backoff(tries, chance), error, inf)", "backoff(tries, chance)"),
    ),
    *_of(
        33,
        STORE,
        ("base/events.py", "            except BaseException as raised:\n", "            except KeyError as raised:\n"),
        ("base/events.py", "    except Exception:\n        # A handler", "    except KeyError:\n        # A handler"),
        (
            "lock/lease.py",
            "        except Exception as error:\n            # This may run",
            "        except KeyError as error:\n            # This may run",
        ),
    ),
    *_of(
        37,
        STORE,
        (
            "lock/record.py",
            "    if isinstance(record, Idle):\n        return Lost",
            "    if isinstance(record, Idle):\n        record = LockRecord(holder=holder, expiresAt=now + 60_000)\n"
            "    if False:\n        return Lost",
        ),
        ("testing/memory.py", "if current.etag != etag:", "if False:"),
    ),
    *_of(
        43,
        WATCH,
        ("lock/waiting.py", "_LEAST_OFTEN = 30_000.0", "_LEAST_OFTEN = 90_000.0"),
        ("lock/waiting.py", "            return self._polls_at\n", "            return float('inf')\n"),
    ),
    *_of(
        45,
        WATCH,
        ("lock/waiting.py", "self._crowd = min(2 * self._crowd, most)", "pass"),
        (
            "lock/waiting.py",
            "most = _LONGEST_AFTER_LIES / _SHORTEST_PAUSE if self._was_misled else _LARGEST_CROWD",
            "most = 16.0",
        ),
        ("lock/waiting.py", "in_line, self._latest)", "in_line, float('inf'))"),
    ),
    *_of(
        50,
        CANCEL,
        # Who is cancelled.
        ("lock/record.py", "and self.cancel == self.fence", "and self.cancel != self.fence"),
        ("lock/record.py", "return None if self.is_cancelled else self.unfinished", "return self.unfinished"),
        ("lock/record.py", "record.open_slot and not live", "record.unfinished and not live"),
        ("lock/record.py", '"unfinished": record.open_slot', '"unfinished": record.unfinished'),
        ("lock/record.py", "cancel=None if is_anothers else record.cancel", "cancel=record.cancel"),
        (
            "lock/protocol.py",
            "return snapshot if lost is None else lost",
            "return snapshot",
        ),
        ("lock/lease.py", "        self._look_for_cancel()\n        if", "        if"),
        # What a run makes of it.
        ("runs/execution.py", "        lease.when_cancelled(self.on_cancelled)\n", ""),
        ("runs/execution.py", "options.retries or self.run.cancelled:", "options.retries:"),
        ("runs/execution.py", "run.lost or run.cancelled or run.stopping", "run.lost or run.stopping"),
        (
            "runs/execution.py",
            "        if self.run.cancelled:\n            return",
            "        if False:\n            return",
        ),
        ("runs/runner.py", '("succeeded", "failed", "cancelled")', '("succeeded", "failed")'),
        ("lock/record.py", "unfinished is not None and unfinished != tick", "unfinished is not None"),
        ("lock/record.py", "unfinished is not None and unfinished != tick", "False"),
        ("runs/body.py", "isinstance(error, Cancelled)", "False"),
        ("jobs/run.py", "        if self.cancelled:\n            raise Cancelled\n", ""),
        # What the next claim makes of it.
        ("runs/policy.py", "is_abandoned = record.open_slot is", "is_abandoned = record.unfinished is"),
        ("runs/policy.py", '"cancelled" if record.is_cancelled else "abandoned"', '"abandoned"'),
        ("runs/policy.py", "record.unfinished is None or not record.is_cancelled:", "record.unfinished is None:"),
        ("runs/runner.py", "            self._history.record_passed_over(job, claimed.held, None)\n", ""),
        # A tick that cancels the run before it.
        ("runs/claimer.py", "or refusal.unfinished is None:", "or False:"),
        (
            "runs/claimer.py",
            "cancels_previous or due is None or not pending.attempt.is_patient:",
            "cancels_previous or due is None:",
        ),
        ("runs/claimer.py", "                lease.cancel(_why(due))\n", "                pass\n"),
        ("runs/claimer.py", "            if pause is None:\n", "            if True:\n"),
        ("runs/claimer.py", "return max(again, default=None)", "return None"),
        ("runs/runner.py", "run.slot is not None and run.slot < due", "run.slot is not None"),
        ("runs/runner.py", "if earlier else _LOOK_AGAIN", "if earlier else None"),
        ("jobs/options.py", 'overlap in ("queue", "cancel_previous")', 'overlap == "queue"'),
    ),
    *_of(
        52,
        EVERY,
        (
            "cron/schedule.py",
            "return first + ((instant - first) // distance + 1) * distance",
            "return instant + distance",
        ),
        ("cron/schedule.py", "            start = self.starting - _SECOND\n", "            pass\n"),
        (
            "cron/schedule.py",
            "EPOCH if starting is None else",
            "datetime.now(UTC).replace(microsecond=0) if starting is None else",
        ),
        ("cron/schedule.py", "return value.astimezone(UTC)", "return value.replace(tzinfo=UTC)"),
    ),
    *_of(
        38,
        LEADER,
        ("lock/record.py", "now < self.free_at(margin)", "now < self.expiresAt - 3_000"),
        ("leaders/candidate.py", " and self._database.timing.mono() < active.lease.ends", ""),
        ("lock/record.py", "- max(margin, wrong)", "+ 3_000"),
    ),
    *_of(
        39,
        LEADER,
        ("lock/record.py", "int(record.fence or 0) + 1 if", "int(record.fence or 0) if"),
        ("lock/record.py", "max(int(record.fence or 0) + 1 if record else 0, now.server)", "now.server"),
    ),
    *_of(40, LEADER, ("leaders/leaders.py", "            if self._thread is None:\n", "            if True:\n")),
    *_of(
        41,
        LEADER,
        ("leaders/candidate.py", "        lease.release(outcome=outcome)\n", ""),
        ("leaders/candidate.py", "_FIRST_PAUSE * 2.0 ** min(failures - 1, 10)", "_FIRST_PAUSE"),
        ("leaders/candidate.py", "        self.stay_away(pause)\n", ""),
        ("leaders/candidate.py", "        if ended.took >= GOOD_TERM:\n", "        if True:\n"),
        ("leaders/candidate.py", "            self._returns += 1\n", ""),
    ),
    *_of(
        42,
        LEADER,
        ("leaders/following.py", "LONGEST, SHORTEST, FAR = 5.0,", "LONGEST, SHORTEST, FAR = 50.0,"),
        (
            "leaders/following.py",
            "return min(patience, max(free + SHORTEST * (1 + self._luck), SHORTEST))",
            "return patience",
        ),
        ("leaders/candidate.py", "        streams.add(self._followed)\n", ""),
        ("leaders/candidate.py", "        lease.release(outcome=outcome)\n", ""),
    ),
    *_of(
        42,
        FLEET,
        ("leaders/following.py", "            self._deaths += 1\n", "            pass\n"),
        ("leaders/following.py", 'self._wave("released", at)', "0.0"),
        ("leaders/following.py", "int(server // self._period)", "0"),
        ("leaders/following.py", "return max(due, self._seen[1]) + wave", "return due + wave"),
        ("leaders/following.py", "_HANDICAP if self._turnout.is_next() else inf", "inf"),
    ),
    *_of(43, FLEET, ("lock/waiting.py", "self.update if self._silence() < SILENT else None", "self.update")),
    *_of(
        43,
        LEADER,
        ("leaders/following.py", "LONGEST, SHORTEST, FAR = 5.0,", "LONGEST, SHORTEST, FAR = 500.0,"),
        ("leaders/following.py", 'if update is None or refusal.reason not in ("held", "paused"):', "if False:"),
    ),
    *_of(44, LEADER, ("leaders/candidate.py", "active.lease.is_held() and ", "")),
)
