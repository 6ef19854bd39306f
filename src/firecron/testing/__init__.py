"""Tools for tests: a rehearsal of jobs, a store in memory, clocks that a test moves, and the conformance kit."""

from firecron.testing.clocks import FakeClock, FakeTiming
from firecron.testing.conformance import LockConformance, ScheduleConformance
from firecron.testing.memory import MemoryStore
from firecron.testing.rehearsal import Rehearsal

__all__ = ["FakeClock", "FakeTiming", "LockConformance", "MemoryStore", "Rehearsal", "ScheduleConformance"]
