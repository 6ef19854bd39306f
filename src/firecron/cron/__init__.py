"""When a line fires."""
