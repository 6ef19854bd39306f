"""One node, one holder."""
