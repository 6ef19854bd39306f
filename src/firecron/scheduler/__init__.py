"""The scheduler: it makes jobs run by themselves."""
