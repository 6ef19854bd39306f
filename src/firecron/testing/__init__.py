"""For tests: a store in memory, clocks that are moved by hand, and the conformance kit for a database of your own."""

from firecron.testing.clock import FakeClock
from firecron.testing.conformance import LockConformance
from firecron.testing.memory import MemoryStore
from firecron.testing.rehearsal import Rehearsal
from firecron.testing.timing import FakeTiming

__all__ = ["FakeClock", "FakeTiming", "LockConformance", "MemoryStore", "Rehearsal"]
