"""One tick of one job on this instance."""
