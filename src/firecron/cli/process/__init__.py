"""A command that runs as a child process, and the signals that end it."""
