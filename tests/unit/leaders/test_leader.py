"""Declaring and finding leaders: what `@leader` accepts, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from firecron import ConfigurationError, FireCron, Term, UnknownJob, distributed_cron, leader
from firecron.leaders.leader import declared_leaders, explore_leaders
from firecron.settings import load
from firecron.testing import FakeClock, MemoryStore


@leader("price-feed", ttl=20, pause=2, max_term=3600, role="feeds")
async def price_feed(term: Term) -> None: ...


class Feeds:
    @leader("orders")
    def orders(self) -> None: ...

    @staticmethod
    @leader("quotes")
    async def quotes(term: Term | None) -> None: ...


def make(*providers: object, **settings: object) -> FireCron:
    clock = FakeClock()
    return FireCron(
        *providers, store=MemoryStore(clock.now), timing=clock, settings=load(**settings), has_threads=False
    )


def test_a_leader_carries_its_options_and_stays_a_function() -> None:
    """The function is returned unchanged, and its options are in milliseconds."""
    [options] = declared_leaders(price_feed)
    election = options.election
    assert (election.name, election.ttl, election.pause, election.max_term) == ("price-feed", 20_000, 2_000, 3_600_000)
    assert (options.role, options.disabled) == ("feeds", False)
    assert price_feed.__name__ == "price_feed"


def test_the_defaults() -> None:
    """Without options a ttl is 15 s, the pause a second, and a term has no end of its own."""
    [options] = declared_leaders(Feeds.orders)
    election = options.election
    assert (election.ttl, election.pause, election.max_term, options.role) == (15_000, 1_000, None, None)


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (("l", "* * * * *"), {}, "ConfigurationError: leader('l', '* * * * *'): a leader has a name and no cron line"),
        ((), {}, "ConfigurationError: leader() has no name: write @leader("),
        ((len,), {}, "ConfigurationError: leader() has no name: write @leader("),
        (("l",), {"tll": 5}, "TypeError: leader() has no option 'tll': did you mean ttl?"),
    ],
)
def test_what_is_no_leader_is_refused_with_a_remedy(
    arguments: tuple[object, ...], options: dict[str, object], said: str
) -> None:
    """A leader that is declared like a job, without its name, or with a misspelt option says what to write."""
    with pytest.raises((ConfigurationError, TypeError)) as refused:
        leader(*arguments, **options)  # type: ignore[arg-type]  # that is what is tried
    assert f"{type(refused.value).__name__}: {refused.value}".startswith(said)


def test_leaders_are_found_where_jobs_are() -> None:
    """Methods, static methods and functions are found, each bound, with its Term if it wants one."""
    found = explore_leaders(Feeds(), price_feed)
    assert [(one.name, one.is_async, one.term_parameter) for one in found] == [
        ("orders", False, None),
        ("quotes", True, "term"),
        ("price-feed", True, "term"),
    ]
    assert found[0].where.endswith("test_leader.Feeds.orders")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": "a/b"}, "can't name a lock"),
        ({"ttl": 0, "max_term": -1}, "max_term=-1 is too short"),
        ({"ttl": 20, "max_term": 10}, r"max_term \(10 s\) must not be shorter than ttl \(20 s\)"),
        ({"role": "a,b"}, "role='a,b' must be one name"),
        ({"disabled": 1}, "disabled=1 must be True or False"),
        ({"pause": None}, "pause=None is not a duration"),
    ],
)
def test_options_that_can_not_work_are_refused_while_decorating(options: dict[str, Any], said: str) -> None:
    """A mistake is an error when the program is loaded, and names the option, its value and the remedy."""
    with pytest.raises(ConfigurationError, match=said):
        leader(**{"name": "price-feed", **options})


def test_a_function_that_needs_more_than_its_term_is_refused() -> None:
    """A leader gets no arguments but its Term."""

    @leader("price-feed")
    def needs_more(term: Term, feed: str) -> None: ...

    with pytest.raises(ConfigurationError, match="a leader gets no arguments except its Term"):
        explore_leaders(needs_more)

    @leader("price-feed")
    def not_annotated(term) -> None: ...  # type: ignore[no-untyped-def]  # that is what is tested

    with pytest.raises(ConfigurationError, match="annotate it, `term: Term`, to get the leader's Term"):
        explore_leaders(not_annotated)


def test_a_generator_is_no_leader() -> None:
    """A generator would do nothing when it is called."""
    with pytest.raises(ConfigurationError, match=r"leader\('price-feed', …\) can't be used on .* a generator"):

        @leader("price-feed")
        def generates() -> Any:
            yield 1


def test_two_leaders_of_one_name_are_refused() -> None:
    """Two functions can't share a node."""

    @leader("orders")
    def other() -> None: ...

    with pytest.raises(ConfigurationError, match=r"two leaders are named 'orders': .*Feeds.orders and .*other"):
        make(Feeds(), other)


def test_a_job_and_a_leader_of_one_name_are_refused() -> None:
    """While exploring, and when a job is added later, a name that is a leader's is refused for a job."""

    @distributed_cron("orders", "* * * * *")
    def job() -> None: ...

    with pytest.raises(ConfigurationError, match=r"a leader and a job are named 'orders': .*Feeds.orders and .*job"):
        make(job, Feeds())
    crons = make(Feeds())
    with pytest.raises(ConfigurationError, match="a leader and a job are named 'orders'"):
        crons.registry.add(job)


def test_a_ttl_too_short_for_the_margin_is_refused_at_the_start() -> None:
    """The lock's promise needs a ttl of six margins."""
    with pytest.raises(ConfigurationError, match=r"ttl of the leader 'orders' \(15 s\) is too short"):
        make(Feeds(), margin=3).check_jobs()


def test_an_unknown_leader_is_named() -> None:
    """A mistaken name says which leaders there are."""
    with pytest.raises(UnknownJob, match="there is no leader 'feed'; the leaders are: orders, quotes"):
        make(Feeds()).leadership("feed")


def test_a_leader_stands_where_its_role_is() -> None:
    """A role that this instance hasn't, or `disabled`, keeps it from standing, and from its group."""

    @leader("never", disabled=True)
    def never() -> None: ...

    def here(**settings: object) -> list[str]:
        return [member[0] for member in make(price_feed, never, Feeds(), **settings).engine.leaders.members()]

    assert here() == ["orders", "quotes"]
    assert here(roles="feeds") == ["price-feed", "orders", "quotes"]
