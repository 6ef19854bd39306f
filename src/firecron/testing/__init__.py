"""For tests: a store in memory, clocks that are moved by hand, and the conformance kit for a database of your own."""

from firecron.testing.clocks import FakeClock, FakeTiming
from firecron.testing.conformance.suite import LockConformance
from firecron.testing.memory import MemoryStore
from firecron.testing.rehearsal import Rehearsal

__all__ = ["FakeClock", "FakeTiming", "LockConformance", "MemoryStore", "Rehearsal"]
