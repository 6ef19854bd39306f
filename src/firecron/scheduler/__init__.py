"""What makes jobs run by themselves."""
