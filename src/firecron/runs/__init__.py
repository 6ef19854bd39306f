"""Runs: one tick of one job on this instance, from the claim to the history."""
