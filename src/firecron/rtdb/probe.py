"""What the database answers to a request without credentials."""

from __future__ import annotations

from contextlib import closing
from http import HTTPStatus
from urllib.parse import quote

from firecron.base.clocks import Deadline
from firecron.errors import Unavailable
from firecron.rtdb.connection import NoReply
from firecron.rtdb.target import Target
from firecron.rtdb.transport import Transport


def may_read(target: Target, path: str, deadline: Deadline) -> bool:
    """Return whether anyone may read the path without credentials. Raise Unavailable if RTDB does not tell."""
    namespace = f"&ns={quote(target.parameters['ns'], safe='')}" if "ns" in target.parameters else ""
    asked = f"/{quote(path)}.json?shallow=true{namespace}"
    with closing(Transport(target.base_url, 1)) as transport:
        try:
            reply = transport.send("GET", asked, {"Accept": "application/json"}, None, deadline)
        except NoReply as error:
            raise Unavailable(f"RTDB can't be reached at {target.base_url}: {error}") from error
    if reply.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return False
    if reply.status != HTTPStatus.OK:
        raise Unavailable(f"RTDB answered {reply.status} to a request without credentials")
    return True
