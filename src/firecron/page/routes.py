"""The paths of the page below its mount. Pure.

Others rely on `/`, `/health`, `/api/jobs`, `/api/jobs/<name>`, `/api/events` and the acts below a job.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from firecron.errors import ConfigurationError
from firecron.lock.names import check_name

Kind: TypeAlias = Literal[
    "slash", "file", "health", "jobs", "job", "strip", "strips", "instances", "acts", "events", "act"
]
Act: TypeAlias = Literal["run", "pause", "resume", "unlock", "cancel"]

ACTS: tuple[Act, ...] = get_args(Act)
FILES = {"/": "page.html", "/page.js": "page.js", "/page.css": "page.css", "/icon.svg": "icon.svg"}
_FIXED: dict[str, Kind] = {
    "": "slash",
    **dict.fromkeys(FILES, "file"),
    "/health": "health",
    "/api/jobs": "jobs",
    "/api/strips": "strips",
    "/api/instances": "instances",
    "/api/acts": "acts",
    "/api/events": "events",
}


@dataclass(frozen=True, slots=True)
class Route:
    """What a path names. `name` is the job or lock, `act` what is to be done to it; empty where there is none."""

    kind: Kind
    name: str = ""
    act: Act | None = None

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that the path takes."""
        return ("POST",) if self.kind == "act" else ("GET", "HEAD")


def find_route(path: str) -> Route | None:
    """Return what the path below the mount names; None if it names nothing."""
    if path in _FIXED:
        return Route(_FIXED[path])
    if not path.startswith("/api/jobs/"):
        return None
    name, *below = path.removeprefix("/api/jobs/").split("/")
    try:
        check_name(name)
    except ConfigurationError:
        return None
    if not below:
        return Route("job", name)
    if below == ["strip"]:
        return Route("strip", name)
    act = next((act for act in ACTS if below == [act]), None)
    return None if act is None else Route("act", name, act)
