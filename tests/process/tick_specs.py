"""The jobs that most of the tests here want, as `TICK_JOBS` takes them (see `tick_jobs`)."""

from __future__ import annotations

from typing import Any, TypeAlias

Spec: TypeAlias = dict[str, Any]

EVERY_SECOND = "* * * * * *"

SHORT: Spec = {"name": "short", "line": EVERY_SECOND, "takes": 0.005, "options": {"lock_ttl": 10}}
LONG: Spec = {"name": "long", "line": EVERY_SECOND, "takes": 3.0, "options": {"lock_ttl": 10}}
# In flight whenever its process is asked to end, and then it does.
WORK: Spec = {"name": "work", "line": EVERY_SECOND, "takes": 30, "obeys": True, "options": {"lock_ttl": 10}}
# As well, and cancelled; it needs a moment to clean up.
ASYNC_WORK: Spec = {
    "name": "async",
    "line": EVERY_SECOND,
    "takes": 30,
    "is_async": True,
    "cleanup": 0.3,
    "options": {"lock_ttl": 10},
}
