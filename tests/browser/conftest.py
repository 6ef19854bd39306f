"""A browser, and the page of a fleet that it looks at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.browser.served import Served, served

from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.browsers import browser

__all__ = ["browser"]


@pytest.fixture
def site(rtdb: Rtdb) -> Iterator[Served]:
    """The page of three jobs, served by an instance that may run one of them."""
    with served(rtdb) as page:
        yield page
