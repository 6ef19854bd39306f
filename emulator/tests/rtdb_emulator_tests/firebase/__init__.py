"""The unchanged Firebase CLI with this emulator, after `make firebase`."""
