"""One instance leads: `@leader`, and what stands and leads on this instance from `start` to `stop`."""
