"""What is left to chance, where tests count requests."""

from __future__ import annotations

import random


class Chance:
    """A number from 0 to 1 at random, or the one that a test sets. Nothing is pruned by chance: that takes less than a
    tenth.
    """

    def __init__(self, value: float | None = None) -> None:
        self.value = value

    def __call__(self) -> float:
        return random.uniform(0.1, 1) if self.value is None else self.value
