"""The conformance kit: tests of what a lock must do, for any store."""
