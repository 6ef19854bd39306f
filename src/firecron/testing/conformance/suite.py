"""The conformance kit: what a lock must do, as tests to run on a database of your own.

    class TestMyDatabase(LockConformance):
        def make_service(self, settings, timing):
            return LockService(app, settings, timing=timing)

        def read(self, path):
            return db.reference(path, app).get()

        def write(self, path, node):
            reference = db.reference(path, app)
            reference.delete() if node is None else reference.set(node)

pytest finds the tests in the subclass. They look into the raw nodes after each step, use names of their own, and
delete their nodes in the end: after a test's own fixtures have ended, so the app is one that outlives the test.
Expiry is tested by jumping ahead on a clock that all services of a test share, so nothing is waited for, also on a
real database. pytest itself is not needed: `setup_method()`, a test, and `teardown_method()` can be called by
anything.
"""

from __future__ import annotations

from firecron.testing.conformance.crowd import CrowdConformance
from firecron.testing.conformance.lease import LeaseConformance
from firecron.testing.conformance.node import NodeConformance
from firecron.testing.conformance.slots import SlotConformance


class LockConformance(LeaseConformance, NodeConformance, SlotConformance, CrowdConformance):
    """All of it; a subclass gives `make_service`, `read` and `write`."""
