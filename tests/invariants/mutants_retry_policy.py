"""Waiting and hearing of a lock, and the way to the database, broken in turn: a list for `tests.mutations`."""

from __future__ import annotations

from tests.invariants.mutants import in_file

DRIVES = "tests/unit/lock/test_protocol_driver.py"
PATIENCE = "tests/unit/lock/test_waiting.py"
CANDIDATES = "tests/unit/leaders/test_candidate.py"
HEARS = "tests/unit/lock/test_waiting_retry_policy.py"
SHARED = "tests/unit/lock/test_waiting_streams.py"
SENT = "tests/stores/test_stream.py"
PROXIES = "tests/stores/test_lock_proxies.py"
MERGES = "tests/stores/test_rtdb.py"
_BOTH_NEED_NEW = "            needs.new_for_read = needs.new_for_write = True\n"

WAITING = in_file(
    "lock/blocks.py",
    ('answer.reason in ("held", "unavailable")', 'answer.reason in ("held",)', PATIENCE),
    ('answer.reason in ("held", "unavailable")', "True", PATIENCE),
    ("or self._deadline.remaining() <= 0:", "or self._deadline.remaining() < 0:", PATIENCE),
    ("return min(due, self._deadline.remaining())", "return due", PATIENCE),
    ('        if answer.reason == "held":\n            self._database.streams.add(self._follow)\n', "", PATIENCE),
    ("        self._database.streams.discard(self._follow)\n", "        pass\n", PATIENCE),
    ("            self._wakes_at = None\n", "", PATIENCE),
    ("        self._policy.joined(self._database.timing.mono())\n", "", PATIENCE),
)

FOLLOWS = in_file(
    "leaders/candidate.py",
    ("pause is not None and (now is None or pause.holds(now.server))", "pause is not None", CANDIDATES),
    ("pause is not None and (now is None or pause.holds(now.server))", "False", CANDIDATES),
    ("min(seconds, left)", "seconds", CANDIDATES),
)

HEARING = in_file(
    "lock/waiting.py",
    ("return 0  # the answer to the ask says so", "return inf", HEARS),
    ("or is_paused(current.kept, now)", "or False", HEARS),
    ("or is_paused(current.kept, now)", "or is_paused(current.kept, 0)", HEARS),
    ("return current.free_at(margin)", "return current.expiresAt + margin", HEARS),
    ("to_milliseconds(refusal.free_at)", "to_milliseconds(refusal.free_at) + 1_000", HEARS),
    ("self._number = 0 if update is None else update.number", "self._number = 0", HEARS),
    ("is_news = update.number > self._number", "is_news = True", HEARS),
    ("and not self._was_misled:", ":", HEARS),
    ("max(due, self._seen_at)", "mono", HEARS),
    ("self._delay = self._pause()\n        self._free_since", "self._free_since", HEARS),
    ("max(1.0, _LESS * self._crowd)", "_LESS * self._crowd", HEARS),
    ("0.5 if drawn < 3 < self._crowd else 1.0", "1.0", HEARS),
    ("min(ahead * _A_PLACE_IN_LINE, _LONGEST_IN_LINE)", "0.0", HEARS),
    ("self._latest = mono + _FIRST_ASK", "self._latest = mono + _LEAST_OFTEN", HEARS),
    ("refusal.holder == before.holder", "False", HEARS),
    ('before is not None and refusal.reason == "held"', "before is not None", HEARS),
    ("if self._polls_at is None:", "if True:", HEARS),
    (' or (refusal is not None and refusal.reason != "held"):', ":", HEARS),
    ("        elif self._free_since is None:\n", "        else:\n", HEARS),
)

STREAMS = in_file(
    "lock/waiting.py",
    ("(has_room := self._free > 0)", "(has_room := True)", SHARED),
    ("            if not stream.follows:\n", "            if False:\n", SHARED),
    ("            if follow.fresh() is None:\n", "            if False:\n", SHARED),
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

STREAM = in_file(
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

STORE = in_file(
    "rtdb/store.py",
    ('== node or (written and not written.startswith("W/")):', "!= self:", PROXIES),
    ('(written and not written.startswith("W/")):', "written:", PROXIES),
    ("if reply.content == sent or (body := _body(reply)) == node or", "body = _body(reply)\n        if", PROXIES),
    ("        if not _is_time(now):\n", "        if not isinstance(now, int):\n", PROXIES),
    ("if not isinstance(body, dict) or not all(", "if not all(", MERGES),
    (" and _EARLIEST <= value <= _LATEST", "", PROXIES),
    ("answered == sent\n", "True\n", PROXIES),
    ("(ValueError, RecursionError):\n        raise", "ValueError:\n        raise", PROXIES),
    ("(ValueError, RecursionError):\n        body", "ValueError:\n        body", PROXIES),
    ("min(float(text), _LONGEST_REST)", "float(text)", MERGES),
    ("min(max(0.0, (until - at).total_seconds()), _LONGEST_REST)", "max(0.0, (until - at).total_seconds())", MERGES),
    ("(ValueError, TypeError, OverflowError)", "(ValueError, TypeError)", MERGES),
    (
        "    except ValueError as error:\n            raise Config",
        "    except KeyError as error:\n            raise Config",
        PROXIES,
    ),
)

DRIVER = in_file(
    "lock/database.py",
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
TRANSPORT = in_file(
    "rtdb/transport.py",
    (_BOTH_NEED_NEW, "", PROXIES),
    (_BOTH_NEED_NEW, "            needs.new_for_read = True\n", PROXIES),
    (_BOTH_NEED_NEW, "            needs.new_for_write = True\n", "tests/stores/test_transport.py"),
    ("            needs.new_for_read = False\n", "            pass\n", PROXIES),
    ("            needs.new_for_write = False\n", "            pass\n", PROXIES),
    ("        if is_read:\n", "        if True:\n", PROXIES),
    ("            if on_new:\n", "            if False:\n", PROXIES),
)

HEARING_MUTANTS = STORE + DRIVER + TRANSPORT + WAITING + FOLLOWS + HEARING + STREAMS + STREAM
