"""`python -m rtdb_emulator`: the same as the command `rtdb-emulator`."""

from rtdb_emulator.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
