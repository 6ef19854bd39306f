"""What a lock must do, as tests for any store."""
