"""Requests that the shipped rules must refuse: a value of another type, too long, or no instant, in each field."""

from __future__ import annotations

from tests.stores.least_privilege import BEAT, CLAIMED, DECLARED, NOW, RAN, TOLD, Row, patch, put, without
from tests.stores.least_privilege_values import (
    ENTRY,
    EVERY,
    GOOD_SLOT,
    GOOD_START,
    GROUP,
    IMPOSSIBLE,
    INSTANCE,
    LENGTHS,
    LONGEST_RUNBOOK,
    MISSED,
    PAIR,
    RUN,
)

ILL_PAIRS = [
    NOW,
    "soon",
    GOOD_SLOT,
    PAIR.replace("/", " "),
    f"{PAIR} {GOOD_SLOT}",
    f"{PAIR}/{GOOD_SLOT}",
    f"{PAIR} ",
    f"x{PAIR[1:]}",
    " ".join([PAIR] * 21),
    *(f"{PAIR} {GOOD_SLOT}/{instant}" for instant in IMPOSSIBLE),
]
ILL_SLOTS = [
    NOW,
    "soon",
    GOOD_SLOT[:-1],
    f"{GOOD_SLOT}x",
    f"x{GOOD_SLOT}",
    GOOD_SLOT.replace("T", " "),
    "1999-12-31T23:59:59Z",
    "2026-00-18T09:00:00Z",
    "2026-11-00T09:00:00Z",
    "2026-11-18T24:00:00Z",
    "2026-11-18T09:60:00Z",
    "2026-11-18T09:00:60Z",
    *IMPOSSIBLE,
]


def ill_typed() -> list[Row]:
    """Each field with a value of another type."""
    rows = [
        put(f"a lock's {field} that is {value!r}", {**without(CLAIMED, "unfinished"), field: value})
        for field, value in [
            *((field, "1") for field in ("acquiredAt", "attempt", "expiresAt", "fence", "releasedAt")),
            *((field, 1) for field in ("holder", "instance", "instanceId", "kind", "outcome", "renews", "cancelWhy")),
            ("cancelWhy", "w" * 501),
            *((field, value) for field in ("slot", "succeededSlot", "unfinished", *MISSED) for value in ILL_SLOTS),
            ("succeededSlot", "2026-11-18T09:00:01Z"),
            *(("missedMore", value) for value in ILL_PAIRS),
        ]
    ]
    rows += [
        put(f"a run's {field} that is {value!r}", {**RAN, field: value}, path=RUN)
        for field, value in [
            *((field, "1") for field in ("attempt", "count", "durationMs", "endedAt", "fence", "startedAt", "atLeast")),
            *((field, 1) for field in ("error", "instance", "instanceId", "note", "outcome", "recordedBy", "trigger")),
            *(("slot", value) for value in ILL_SLOTS),
        ]
    ]
    rows += [
        patch(f"a group's {field} that is {str(value)[:20]!r}", {**TOLD, field: value}, path=GROUP)
        for field, value in [
            ("firstSeenAt", "1"),
            ("heartbeat", "30"),
            *((field, 1) for field in ("jobs", "schedules", "service")),
            ("jobs", "j" * 100_001),
            ("schedules", "s" * 200_001),
            ("service", "s" * 1_001),
        ]
    ]
    rows += [
        patch(f"a job's {field} that is {str(value)[:20]!r}", {**DECLARED, field: value}, path=ENTRY)
        for field, value in [
            *((field, "1") for field in ("alertAfter", "expectedRuntime", "grace", "since", "declaredAt")),
            *((field, "1") for field in ("catchUpWindow", "holdAtLeast", "maxRuntime", "retries", "ttl")),
            *((field, 1) for field in ("disabled", "oncePerTick", "renew", "runbook", "ticks", *LENGTHS)),
            *((field, "x" * (most + 1)) for field, most in LENGTHS.items()),
            *(("exceptDigest", value) for value in (1, "x" * 7, "x" * 9)),
            *(("runbook", address) for address in ("http://wiki.example.com", f"{LONGEST_RUNBOOK}x")),
        ]
    ]
    rows += [
        patch(f"a job's {field} that is {value!r}", {**EVERY, field: value}, path=ENTRY)
        for field, value in [
            ("every", "1"),
            *((field, value) for field in ("starting", "until") for value in (1, f"{GOOD_START}x", "x" * 21)),
        ]
    ]
    beats = [("instanceId", 1), ("jobs", "1"), ("running", "1"), ("startedAt", "1"), ("seenAt", "1")]
    return rows + [patch(f"a beat's {field} that is {value!r}", {**BEAT, field: value}, path=INSTANCE)
                   for field, value in beats]  # fmt: skip
