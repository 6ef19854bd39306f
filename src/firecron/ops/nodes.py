"""The children of a node, whatever the node holds. Pure."""

from __future__ import annotations

from firecron.errors import Malformed


def children(node: object, path: str) -> dict[str, object]:
    """Return the children of the node at this path, by name. Raise Malformed if the node has a value instead."""
    if node is None:
        return {}
    if isinstance(node, list):  # the database returns keys that are small numbers as a list
        return {str(index): child for index, child in enumerate(node) if child is not None}
    if not isinstance(node, dict):
        raise Malformed(
            f"{path} holds {node!r:.40}, but must hold one node for each name: delete it in the Firebase console"
        )
    return node
