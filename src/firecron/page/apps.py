"""The page, put together for one database: its desk, and what keeps it live.

A door of ASGI takes both. Flask and Django have no streams: there the desk alone is behind a door, and the page polls.
"""

from __future__ import annotations

from collections.abc import Callable

from firecron.base.clocks import SystemTiming
from firecron.base.seldom import Seldom
from firecron.jobs.registry import Registry
from firecron.lock.service import LockService
from firecron.ops.board import Board, HealthReport
from firecron.ops.operator import Operator
from firecron.page.access import Gate
from firecron.page.actions import Doing
from firecron.page.desk import Desk
from firecron.page.live import Live
from firecron.page.reads import Code, Details, Showing


def make_page(
    gate: Gate,
    locks: LockService,
    registry: Registry | None,
    health: HealthReport | None = None,
    *,
    read_only: bool = False,
    open_health: bool = False,
    is_local: bool = False,
    asked: Callable[[], object] = lambda: None,
) -> tuple[Desk, Live]:
    """Return the desk of a page, and what keeps it live. Without a `registry` it has no code. No I/O.

    `asked` is called at each request.
    """
    health = health or HealthReport(Board(locks, SystemTiming()))
    board, clocks = health.board, SystemTiming()
    code = Code(registry)
    details = Details(locks, board, code, clocks)

    desk = Desk(
        gate,
        Showing(board, details, health, read_only=read_only),
        Doing(Operator(locks), board, details, code, locks.events),
        locks.events,
        Seldom(locks.deadline),
        read_only=read_only,
        open_health=open_health,
        is_local=is_local,
        asked=asked,
    )
    return desk, Live(board, locks.events, clocks)
