"""A short random walk of two clients; `make node-walk` makes long ones."""

from __future__ import annotations

import pytest

from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.nodejs import Stage
from rtdb_emulator_tests.node.walk import walk


@pytest.mark.parametrize("seed", [1, 2])
def test_two_clients_rest_and_a_model_agree(stage: Stage, rtdb: Rtdb, seed: int) -> None:
    """Whatever two clients write at the same time, they, REST and a plain model of the database agree on it."""
    walk(stage, rtdb.emulator, rtdb.namespace, seed, steps=60)
