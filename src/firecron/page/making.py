"""The parts of a page, put together for one database."""

from __future__ import annotations

from firecron.base.clocks import SystemTiming
from firecron.jobs.registry import Registry
from firecron.lock.service import LockService
from firecron.ops.health_report import HealthReport
from firecron.ops.operator import Operator
from firecron.page.board import Board
from firecron.page.code import Code
from firecron.page.desk import Desk
from firecron.page.details import Details
from firecron.page.doing import Doing
from firecron.page.gates import Gate
from firecron.page.live import Live
from firecron.page.showing import Showing


def make_page(
    gate: Gate,
    locks: LockService,
    registry: Registry | None,
    health: HealthReport | None = None,
    *,
    read_only: bool = False,
    open_health: bool = False,
    is_local: bool = False,
) -> tuple[Desk, Live]:
    """Return the desk of a page, and what keeps it live. Without a `registry` it has no code. No I/O."""
    clocks = SystemTiming()
    code = Code(registry)
    board = Board(locks, clocks)
    details = Details(locks, board, code, clocks)

    def database() -> str:
        return f"{locks.store.name}/{locks.settings.prefix}" if locks.settings.prefix else locks.store.name

    desk = Desk(
        gate,
        Showing(board, details, health or HealthReport(locks, clocks), database, read_only=read_only),
        Doing(Operator(locks), board, details, code, locks.events),
        locks.events,
        read_only=read_only,
        open_health=open_health,
        is_local=is_local,
    )
    return desk, Live(board, locks.events, clocks)
