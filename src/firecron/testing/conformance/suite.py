"""The conformance kit: tests of what a lock must do, which you run on your own database.

    class TestMyDatabase(LockConformance):
        def make_service(self, settings, timing):
            return LockService(app, settings, timing=timing)

        def read(self, path):
            return db.reference(path, app).get()

        def write(self, path, node):
            reference = db.reference(path, app)
            reference.delete() if node is None else reference.set(node)

pytest finds the tests in the subclass. They check the raw nodes after each step, and use their own names. They delete
their nodes at the end, after the test's fixtures have ended, so the app must outlive the test.

All services of a test share a clock. A test of expiry jumps ahead on that clock, so it waits for nothing, even on a
real database. pytest is not required: any program can call `setup_method()`, a test, and `teardown_method()`.
"""

from __future__ import annotations

from firecron.testing.conformance.crowd import CrowdConformance
from firecron.testing.conformance.lease import LeaseConformance
from firecron.testing.conformance.node import NodeConformance
from firecron.testing.conformance.slots import SlotConformance
from firecron.testing.conformance.watching import WatchConformance


class LockConformance(LeaseConformance, NodeConformance, SlotConformance, CrowdConformance, WatchConformance):
    """All tests of the kit. A subclass implements `make_service`, `read` and `write`."""
