"""The steps of a run, recorded so that no later claim does them again; and work that is done once and for all."""
