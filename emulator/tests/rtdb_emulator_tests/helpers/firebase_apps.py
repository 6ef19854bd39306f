"""The Firebase apps of this process."""

from __future__ import annotations

import sys
from typing import Any, cast


def firebase_apps() -> dict[str, Any]:
    """All apps by their names, without loading firebase-admin where nobody has."""
    firebase_admin = sys.modules.get("firebase_admin")
    # firebase-admin has no other list of them.
    return {} if firebase_admin is None else dict(cast("dict[str, Any]", firebase_admin._apps))


def delete_firebase_apps() -> None:
    """Delete them all, so that none decides which database another test is given."""
    for app in firebase_apps().values():
        sys.modules["firebase_admin"].delete_app(app)
