"""The demonstration: three instances, one job, one of them killed in the middle of it.

    python -m firecron.demo        (or, in a checkout: make demo)

Three processes run the same program against one emulator. Each tick is won by one of them; one is killed while it
works, and another one takes its run over. At the end the count comes from the database: slots, runs, duplicates,
missed.
"""
