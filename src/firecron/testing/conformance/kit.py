"""What the tests of the conformance kit share: services on the user's database, a clock to jump with, and a look at
the raw nodes.
"""

from __future__ import annotations

import secrets
import time
from typing import ClassVar

from firecron.base.clocks import Deadline, Timing
from firecron.lock.lease import Lease
from firecron.lock.record import Reason
from firecron.lock.refusal import Refusal
from firecron.lock.service import LockService
from firecron.settings import Settings, load
from firecron.testing.clocks import FakeTiming

# Seconds.
TTL = 60
MARGIN = 1

PATIENCE = 30


def real_clock() -> float:
    """This machine's monotonic clock in milliseconds: the `base` of a `FakeTiming` beside a real database."""
    return time.monotonic_ns() / 1e6


def taken(answer: Lease | Refusal) -> Lease:
    """The lease; fails for a refusal."""
    assert isinstance(answer, Lease), answer
    return answer


def refused(answer: Lease | Refusal, reason: Reason) -> Refusal:
    """The refusal; fails for a lease, and for another reason."""
    assert isinstance(answer, Refusal), answer
    assert answer.reason == reason, answer
    return answer


class Kit:
    """How to get at the database under test; a subclass says it."""

    # Above everything that the tests write.
    prefix: ClassVar[str] = ""

    def make_service(self, settings: Settings, timing: Timing) -> LockService:
        """A service, as of an instance of its own, on the database under test."""
        raise NotImplementedError

    def read(self, path: str) -> object:
        """What is stored at this path, as an administrator sees it."""
        raise NotImplementedError

    def write(self, path: str, node: object) -> None:
        """Store this at the path (None: delete), as an administrator."""
        raise NotImplementedError

    def setup_method(self) -> None:
        # Names of its own for each test: a database may be in use.
        self.name = f"conformance-{secrets.token_hex(4)}"
        self.timing = FakeTiming(wall=0.0, base=real_clock)  # its wall clock is decades wrong
        self._jumped = False
        self._services: list[LockService] = []

    def teardown_method(self) -> None:
        for service in self._services:
            service.close()
        self.node = None

    # What follows is for the tests.

    def start_over(self) -> None:
        """Another name and another clock, for the next case of the same test."""
        self.teardown_method()
        self.setup_method()

    def service(self, timing: Timing | None = None, prefix: str | None = None) -> LockService:
        """A service that knows the database's time: which it must, before the test jumps ahead of it."""
        assert not self._jumped, "the database's time doesn't jump, so services are made before the test's does"
        settings = load(
            prefix=self.prefix if prefix is None else prefix,
            margin=MARGIN,
            # So that a jump is no reason to ask for the database's time again.
            clock_drift=1e-6,
            clock_interval=86_400,
        )
        timing = timing or self.timing
        service = self.make_service(settings, timing)
        service.clock.now(Deadline.after(timing, PATIENCE))
        self._services.append(service)
        return service

    def jump(self, seconds: float) -> None:
        """Let so much time pass for all services."""
        self._jumped = True
        self.timing.advance(seconds)

    @property
    def path(self) -> str:
        """Where the lock of the test's name is."""
        return f"{self.prefix}/cron-locks/{self.name}".lstrip("/")

    @property
    def node(self) -> object:
        """The lock's node."""
        return self.read(self.path)

    @node.setter
    def node(self, node: object) -> None:
        self.write(self.path, node)

    @property
    def fields(self) -> dict[str, object]:
        """The lock's node, which must be there, with children."""
        node = self.node
        assert isinstance(node, dict), node
        return node

    def number(self, field: str) -> int:
        """This field of the node, which must be a number."""
        value = self.fields[field]
        assert isinstance(value, int), f"{field} is {value!r}"
        assert not isinstance(value, bool), f"{field} is {value!r}"
        return value

    def edit(self, **changes: object) -> None:
        """Change fields of the node by hand (None: delete), as in the Firebase console."""
        self.node = {key: value for key, value in {**self.fields, **changes}.items() if value is not None}

    def server_time(self) -> int:
        """The database's own time."""
        path = f"{self.prefix}/cron-instances/{self.name}".lstrip("/")
        self.write(path, {".sv": "timestamp"})
        now = self.read(path)
        self.write(path, None)
        assert isinstance(now, int), now
        return now
