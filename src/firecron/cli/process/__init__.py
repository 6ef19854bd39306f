"""A command run as a child process, and the signals that end it."""
