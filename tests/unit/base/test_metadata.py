"""Asking the metadata server."""

from __future__ import annotations

import pytest
import requests

from firecron.base.metadata import ask_metadata


def test_a_request_takes_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere than on Cloud Run some network may swallow the request: it is given up after a second."""
    asked: list[tuple[str, dict[str, object]]] = []

    def get(url: str, **options: object) -> requests.Response:
        asked.append((url, options))
        raise requests.ConnectTimeout

    monkeypatch.setattr(requests, "get", get)
    assert ask_metadata("instance/id", {}) is None
    url = "http://metadata.google.internal/computeMetadata/v1/instance/id"
    assert asked == [(url, {"headers": {"Metadata-Flavor": "Google"}, "timeout": 1.0})]
