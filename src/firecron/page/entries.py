"""The entries of stored jobs, as the page reads them: a page of a job's, one by its name, and their count.

What is read is kept for a few seconds for all who look, so it costs no more with many browsers: one query for a page,
and one request for an entry. A count reads all keys of the job, so it is kept for a minute, and nothing asks for it but
a visitor.
"""

from __future__ import annotations

import re
from itertools import islice

from firecron.errors import UnknownJob
from firecron.jobs.catalogue import CatalogueEntry
from firecron.ops.board import Board, Shared
from firecron.ops.entries import EntryRow, entry_row
from firecron.ops.health import JobVerdict
from firecron.ops.schedules import Schedules
from firecron.store import split_name

MOST_ENTRIES = 50
_AGE = 5.0
_COUNT_AGE = 60.0
# How a key, or its beginning, may look. With any other no key begins.
_BEGINS = re.compile(r"[A-Za-z0-9_-]{0,60}", re.ASCII)


class Entries:
    """Reads the entries of the stored jobs of one board. Every method raises StoreError, and UnknownJob for a name
    that is none of theirs.
    """

    def __init__(self, board: Board) -> None:
        timing = board.database.timing
        self._board = board
        self._schedules = Schedules(board.database)
        self._nodes = Shared(self._read, timing, _AGE)
        self._pages = Shared(self._read_page, timing, _AGE)
        self._counts = Shared(self._schedules.count, timing, _COUNT_AGE)
        # A page that was read before an act is never shown after it.
        self._acts = 0

    def page(self, job: str, prefix: str = "", after: str = "") -> tuple[list[EntryRow], str | None]:
        """Return the next entries with this prefix, by their keys, without removed ones; and the key to
        go on `after`, if there may be more.
        """
        declared, verdict = self._declared(job)
        if not _BEGINS.fullmatch(prefix) or not _BEGINS.fullmatch(after):
            return [], None
        found = self._pages.get("\n".join((job, prefix, after, str(self._acts))))
        rows = [self._row(declared, key, node, verdict) for key, node in found[:MOST_ENTRIES]]
        more = found[MOST_ENTRIES - 1][0] if len(found) > MOST_ENTRIES else None
        return [row for row in rows if row.entry.state != "removed"], more

    def row(self, name: str) -> EntryRow:
        """Return one entry, by its name, also one that was removed and still has its node."""
        job, key = split_name(name)
        declared, verdict = self._declared(job)
        node = self.node(name)
        if node is None:
            raise UnknownJob(f"there is no stored schedule {name}")
        return self._row(declared, key, node, verdict)

    def node(self, name: str) -> object:
        """Return the node of an entry; None without one."""
        return self._nodes.get(name)

    def count(self, job: str) -> int:
        """Return how many entries a job has, also closed ones."""
        self._declared(job)
        return self._counts.get(job)

    def changed(self, name: str) -> None:
        """Read anew what a visitor has changed."""
        self._acts += 1
        self._nodes.changed(name)

    def _declared(self, job: str) -> tuple[CatalogueEntry, JobVerdict | None]:
        declared = self._board.declared(job)
        if declared is None or declared.stored is None:
            raise UnknownJob(f"{job} is no job with stored schedules")
        return declared, next((row.verdict for row in self._board.jobs().rows if row.job == job), None)

    def _row(self, declared: CatalogueEntry, key: str, node: object, job: JobVerdict | None) -> EntryRow:
        return entry_row(declared, key, node, self._board.now(), self._board.database, job)

    def _read(self, name: str) -> object:
        return self._board.database.node(self._board.database.paths.lock(name))

    def _read_page(self, asked: str) -> list[tuple[str, object]]:
        job, prefix, after, _ = asked.split("\n")
        # One more than is shown, to know whether there are more.
        most = MOST_ENTRIES + 1
        return list(islice(self._schedules.nodes(job, prefix=prefix, after=after or None, size=most), most))
