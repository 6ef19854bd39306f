"""The alert policies for Cloud Monitoring: they ask for events that there are, and for what can be watched."""

from __future__ import annotations

import json
import re
from typing import Any, get_args

import pytest
from tests.docs.documents import ROOT

from firecron.base.events import Slug
from firecron.lock.record import Reason

FOLDER = ROOT / "docs" / "alerts"
PAGE = (ROOT / "docs" / "told-from-outside.md").read_text("utf-8")
FILES = sorted(path.name for path in FOLDER.iterdir())
# Seconds: Cloud Monitoring's longest look back for what is absent.
LONGEST_ABSENCE = 23.5 * 3600


def loaded(name: str) -> Any:
    return json.loads((FOLDER / name).read_text("utf-8"))


def policies() -> list[str]:
    return [name for name in FILES if "conditions" in loaded(name)]


@pytest.mark.parametrize("name", FILES)
def test_a_filter_names_events_that_there_are(name: str) -> None:
    """Each event and reason in a filter is one that firecron writes, and the page tells of the file."""
    text = json.dumps(loaded(name)).replace('\\"', "'")
    events = re.findall(r"'([a-z]+\.[a-z_]+)'", text)
    assert set(events) <= {*get_args(Slug)}
    reasons = re.search(r"jsonPayload.reason=\((.*?)\)", text)
    assert reasons is None or set(re.findall(r"'(\w+)'", reasons[1])) <= {*get_args(Reason)}
    assert f"alerts/{name}" in PAGE


@pytest.mark.parametrize("name", policies())
def test_a_policy_is_one_that_cloud_monitoring_takes(name: str) -> None:
    """A policy of a log has the rate limit that such policies need; an absence is one that can be seen."""
    policy = loaded(name)
    (condition,) = policy["conditions"]
    assert policy["combiner"] == "OR"
    if "conditionMatchedLog" in condition:
        assert re.fullmatch(r"\d+s", policy["alertStrategy"]["notificationRateLimit"]["period"])
        assert "job" in condition["conditionMatchedLog"]["labelExtractors"]
    else:
        assert "notificationRateLimit" not in policy["alertStrategy"]
        assert int(condition["conditionAbsent"]["duration"].removesuffix("s")) <= LONGEST_ABSENCE
        assert "/firecron-succeeded" in condition["conditionAbsent"]["filter"]
