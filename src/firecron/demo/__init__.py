"""The demonstration: three instances race for a job, and one of them is killed during its run.

    python -m firecron.demo        (or, in a checkout: make demo)

Three processes run the same program on one emulator. Each tick is run by exactly one of them. One process is killed
during its run, and another one takes the run over. At the end the demonstration counts what the database holds: slots,
runs, duplicates and missed slots.
"""
