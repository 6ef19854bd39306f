"""What the metadata server of Cloud Run knows, such as the project and the instance's id.

A request takes one second at most. Without an answer, or if another server answers, the result is None: elsewhere there
is no metadata server, and a network may answer with its sign-in page.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

_TIMEOUT = 1.0
_HOST = "metadata.google.internal"
_VALUE = re.compile(r"[A-Za-z0-9.:-]+")


def ask_metadata(path: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the value at a path below `/computeMetadata/v1/`; None without one. This blocks for one second at most."""
    import requests

    host = environment.get("GCE_METADATA_HOST", _HOST)
    headers = {"Metadata-Flavor": "Google"}
    try:
        reply = requests.get(f"http://{host}/computeMetadata/v1/{path}", headers=headers, timeout=_TIMEOUT)
    except requests.RequestException:
        return None  # this machine is not on Google Cloud, or its network is down
    value = reply.text.strip()
    return value if reply.ok and _VALUE.fullmatch(value) else None
