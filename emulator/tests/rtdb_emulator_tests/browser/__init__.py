"""The emulator's page in a real browser."""
