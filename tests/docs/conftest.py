"""What several tests of the documentation use."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def logging_as_before() -> Iterator[None]:
    """Undoes what a page that sets up logging has done to this process."""
    loggers = [logging.getLogger(), logging.getLogger("firecron")]
    before = [(logger, logger.level, list(logger.handlers), list(logger.filters)) for logger in loggers]
    yield
    for logger, level, handlers, filters in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers
        logger.filters[:] = filters
