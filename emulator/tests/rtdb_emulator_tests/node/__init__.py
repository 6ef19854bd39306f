"""Real Node clients against the emulator."""
