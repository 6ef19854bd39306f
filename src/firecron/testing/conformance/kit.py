"""The tools that the conformance tests share: services on the user's database, a clock that jumps, the raw nodes."""

from __future__ import annotations

import secrets
import time
from typing import ClassVar

from firecron.base.clocks import Deadline, Timing
from firecron.lock.lease import Lease
from firecron.lock.record import Reason
from firecron.lock.refusal import Refusal
from firecron.locks import LockService
from firecron.settings import Settings, load
from firecron.testing.clocks import FakeTiming

# Seconds.
TTL = 60
MARGIN = 1

PATIENCE = 30


def real_clock() -> float:
    """Return this machine's monotonic clock in milliseconds: the `base` of a `FakeTiming` for a real database."""
    return time.monotonic_ns() / 1e6


def taken(answer: Lease | Refusal) -> Lease:
    """Return the lease; fail if the answer is a refusal."""
    assert isinstance(answer, Lease), answer
    return answer


def refused(answer: Lease | Refusal, reason: Reason) -> Refusal:
    """Return the refusal; fail if the answer is a lease, or a refusal for another reason."""
    assert isinstance(answer, Refusal), answer
    assert answer.reason == reason, answer
    return answer


class Kit:
    """Access to the database under test, which a subclass provides."""

    # The path above all nodes that the tests write.
    prefix: ClassVar[str] = ""

    def make_service(self, settings: Settings, timing: Timing) -> LockService:
        """Return a new service on the database under test, as another instance would make it.

        Args:
            settings: The settings to give it.
            timing: The clocks to give it.
        """
        raise NotImplementedError

    def read(self, path: str) -> object:
        """Return what is stored at the path, as an administrator sees it.

        Args:
            path: The path, without a slash at either end.
        """
        raise NotImplementedError

    def write(self, path: str, node: object) -> None:
        """Store the node at the path as an administrator.

        Args:
            path: The path, without a slash at either end.
            node: The new node; None deletes it.
        """
        raise NotImplementedError

    def setup_method(self) -> None:
        # Each test has its own name, because the database may be in use.
        self.name = f"conformance-{secrets.token_hex(4)}"
        self.timing = FakeTiming(wall=0.0, base=real_clock)  # its wall clock is decades wrong
        self._jumped = False
        self._services: list[LockService] = []

    def teardown_method(self) -> None:
        for service in self._services:
            service.close()
        self.node = None

    # The tests use the methods below.

    def start_over(self) -> None:
        """Take a new name and a new clock, for the next case of the same test."""
        self.teardown_method()
        self.setup_method()

    def service(self, timing: Timing | None = None, prefix: str | None = None) -> LockService:
        """Return a new service that knows the database's time. It has to ask for that before the test's clock jumps."""
        assert not self._jumped, "make all services before the clock jumps: the database's time doesn't jump with it"
        settings = load(
            prefix=self.prefix if prefix is None else prefix,
            margin=MARGIN,
            # These values keep a jump from making the service ask for the database's time again.
            clock_drift=1e-6,
            clock_interval=86_400,
        )
        timing = timing or self.timing
        service = self.make_service(settings, timing)
        service.clock.now(Deadline.after(timing, PATIENCE))
        self._services.append(service)
        return service

    def jump(self, seconds: float) -> None:
        """Advance the clock of all services by `seconds`."""
        self._jumped = True
        self.timing.advance(seconds)

    def now(self, service: LockService) -> int:
        """Return the service's estimate of the database's time in milliseconds."""
        return service.clock.now(Deadline.after(self.timing, PATIENCE)).server

    @property
    def path(self) -> str:
        """The path of the lock of the test's name."""
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
        """The children of the lock's node, which must exist."""
        node = self.node
        assert isinstance(node, dict), node
        return node

    def number(self, field: str) -> int:
        """Return this field of the node, which must be a whole number."""
        value = self.fields[field]
        assert isinstance(value, int), f"{field} is {value!r}"
        assert not isinstance(value, bool), f"{field} is {value!r}"
        return value

    def edit(self, **changes: object) -> None:
        """Change fields of the node by hand, as in the Firebase console. None deletes a field."""
        self.node = {key: value for key, value in {**self.fields, **changes}.items() if value is not None}

    def server_time(self) -> int:
        """Return the database's own time in milliseconds."""
        path = f"{self.prefix}/cron-instances/{self.name}".lstrip("/")
        self.write(path, {".sv": "timestamp"})
        now = self.read(path)
        self.write(path, None)
        assert isinstance(now, int), now
        return now
