"""The lock: one node, one holder."""
