"""Steps: what a run has done already, so that no later attempt at its tick does it again."""
