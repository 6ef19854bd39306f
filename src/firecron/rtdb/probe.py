"""What the database answers to somebody without credentials."""

from __future__ import annotations

from urllib.parse import quote

import requests

from firecron.base.clocks import Deadline
from firecron.errors import Unavailable
from firecron.rtdb import transport
from firecron.rtdb.target import Target


def may_read(target: Target, path: str, deadline: Deadline) -> bool:
    """Whether anybody in the world may read the path. Raises Unavailable where it can't be told."""
    namespace = f"&ns={quote(target.parameters['ns'], safe='')}" if "ns" in target.parameters else ""
    request = requests.Request(
        "GET", f"{target.base_url}/{quote(path)}.json?shallow=true{namespace}", headers={"Accept": "application/json"}
    )
    with transport.session(1) as session:
        try:
            reply = transport.send(session, request.prepare(), deadline, transport.Options(session, target.base_url))
        except (requests.RequestException, transport.DeadlineExceeded) as error:
            raise Unavailable(f"RTDB can't be reached at {target.base_url}: {type(error).__name__}") from error
    if reply.status_code in (requests.codes.unauthorized, requests.codes.forbidden):
        return False
    if reply.status_code != requests.codes.ok:
        raise Unavailable(f"RTDB answered {reply.status_code} to a request without credentials")
    return True
