"""Listeners to events: one that records them, and one with a bug."""

from __future__ import annotations

from firecron.base.events import Event, Events


def recorded(events: Events) -> list[Event]:
    """All events from now on."""
    heard: list[Event] = []
    events.subscribe(heard.append)
    return heard


def broken_listener(event: Event) -> None:
    """A listener with a bug."""
    raise ValueError(event.slug)
