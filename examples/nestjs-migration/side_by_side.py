"""The NestJS original and firecron use one lock: while one holds it, the other is refused.

Run it with `firecron emulator -- python side_by_side.py`.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import parse_qs, urlparse

from original import Original, emulator_host
from race import race

from firecron import LockService, Refusal

NAME = "send-daily-digest"
RACED = "expire-sessions"
CLOCK_ERROR = 2.0


def main() -> int:
    host = emulator_host()
    url = urlparse(os.environ.setdefault("FIRECRON_DATABASE_URL", "https://demo-firecron.firebaseio.com"))
    namespace = parse_qs(url.query).get("ns", [str(url.hostname).split(".", 1)[0]])[0]
    ours = LockService()
    with Original(f"http://{host}/?ns={namespace}", "api-v3-00042-abc") as original, TemporaryDirectory() as folder:
        results = [
            while_the_original_holds(original, ours),
            while_ours_holds(original, ours),
            a_clock_that_is_late(original, ours),
            both_at_once(original, ours, Path(folder)),
        ]
    print("each kept the other out" if all(results) else "THEY DID NOT KEEP EACH OTHER OUT")
    return 0 if all(results) else 1


def while_the_original_holds(original: Original, ours: LockService) -> bool:
    say("the original", original.acquire(NAME))
    refusal = ours.acquire(NAME, ttl=60)
    say("firecron", refusal)
    original.release(NAME)
    print("the original releases: it deletes the node")
    lease = ours.acquire(NAME, ttl=60)
    say("firecron", lease)
    if isinstance(lease, Refusal):
        return False
    lease.release()
    return isinstance(refusal, Refusal) and refusal.reason == "held" and refusal.instance_id == "api-v3-00042-abc"


def while_ours_holds(original: Original, ours: LockService) -> bool:
    with ours.hold(NAME, ttl=60):
        print("firecron has it now, in a with block")
        refused = not original.acquire(NAME)
        say("the original", not refused)
    print("firecron releases")
    free = original.acquire(NAME)
    say("the original", free)
    original.release(NAME)
    return refused and free


def a_clock_that_is_late(original: Original, ours: LockService) -> bool:
    """Show why `hold_at_least` must be longer than the clock error while both run.

    The job ends quickly. After that, an instance whose clock is late reaches the same tick.
    """
    lease = ours.acquire(NAME, ttl=60, hold_at_least=10 * CLOCK_ERROR)
    if isinstance(lease, Refusal):
        return False
    lease.release()
    print(f"firecron is done at once, and keeps the lock for {10 * CLOCK_ERROR:g} s all the same")
    refused = not original.acquire(NAME, late=CLOCK_ERROR)
    say(f"an original whose clock is {CLOCK_ERROR:g} s late", not refused)
    return refused


def both_at_once(original: Original, ours: LockService, folder: Path) -> bool:
    theirs, firecrons = race(original, folder, RACED)
    print(f"both at once: {theirs} runs of the original, {firecrons} of firecron, never two at the same time")
    return ours.read(RACED) is None


def say(who: str, answer: object) -> None:
    what = "it has it" if answer else "refused"
    why = f" ({answer.reason}): {answer.message}" if isinstance(answer, Refusal) else ""
    print(f"{who} asks: {what}{why}")


if __name__ == "__main__":
    raise SystemExit(main())
