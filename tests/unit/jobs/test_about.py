"""What a person should know of a job or a leader: what it becomes, and what is left of it when it is read back."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from firecron import ConfigurationError, distributed_cron, leader
from firecron.jobs.about import NOTHING, About, check_about, read_about
from firecron.jobs.decorator import declared
from firecron.leaders.leader import declared_leaders

RUNBOOK = "https://wiki.example.com/digest?v=2#failing"
WHOLE = About("Sends the digest.", "mail", RUNBOOK)


def documented() -> None:
    """Sends the digest
    to all customers.

    The rest is for programmers.
    """


def described(function: Callable[..., object]) -> str | None:
    """The description of the function as a job, and as a leader, which is the same."""
    (job,) = declared(distributed_cron("job", "0 9 * * *")(function))
    (found,) = declared_leaders(leader("leader")(function))
    assert job.about == found.about
    return job.about.description


class Jobs:
    """Not the description of any job."""

    def method(self) -> None:
        """

        Of a method.
        """

    @staticmethod
    def static() -> None:
        """Of a static method."""

    def __call__(self) -> None:
        """Called."""


def wrapped() -> None:
    """Of the function inside."""


def long() -> None: ...


long.__doc__ = "a\t b " + "😀" * 100


@pytest.mark.parametrize(
    ("function", "description"),
    [
        (documented, "Sends the digest"),
        (lambda: None, None),
        (Jobs.method, "Of a method."),
        (vars(Jobs)["static"], "Of a static method."),
        (Jobs(), None),
        (functools.partial(functools.partial(wrapped)), "Of the function inside."),
        (long, "a b " + "😀" * 98),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_first_line_of_the_docstring_describes_a_function(
    function: Callable[..., object], description: str | None
) -> None:
    """That of the function, and of no class; as long as the security rules allow."""
    assert described(function) == description


def test_a_description_that_is_given_goes_first() -> None:
    """It is one line, whatever blanks it has."""

    def job() -> None:
        """Does something else."""

    (found,) = declared(distributed_cron("job", "0 9 * * *", description=" Mails\n\tcustomers ")(job))
    assert found.about.description == "Mails customers"


def test_what_is_given_is_kept() -> None:
    """Up to the bounds, which count as the security rules do."""
    assert check_about("Sends the digest.", "mail", RUNBOOK) == WHOLE
    longest = About("😀" * 100, "o" * 100, "https://" + "x" * 492)
    assert check_about(longest.description, longest.owner, longest.runbook) == longest
    assert read_about(dict(longest.fields().items())) == longest
    assert (WHOLE.known(), NOTHING.known()) == (WHOLE.fields(), {})
    assert WHOLE.lines() == ["Sends the digest.", f"owner mail, runbook {RUNBOOK}"]
    assert (NOTHING.lines(), About(runbook=RUNBOOK).lines()) == ([], [f"runbook {RUNBOOK}"])


ADDRESSES = [
    "http://wiki.example.com/digest",
    "wiki.example.com/digest",
    "javascript:alert(1)//https://",
    "https://",
    "https:///digest",
    "https://ops:secret@wiki.example.com/",
    "https://wiki.example.com@evil.example/",
    "https://wiki.example.com/\u202edigest",
    "https://wiki.example.com/a b",
    "https://wiki\\.example.com",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_only_an_address_with_tls_is_a_runbook(address: str) -> None:
    """Another one is refused where it is given, and left out where it is read: anybody may have written it."""
    with pytest.raises(ConfigurationError, match=r"runbook=.* must be an address such as https://"):
        check_about(None, None, address)
    assert read_about({"runbook": address, "owner": "mail"}) == About(owner="mail")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (("", None, None), "description='' must be a text, or None"),
        ((None, " \n", None), r"owner=' \n' must be a text, or None"),
        ((None, 5, None), "owner=5 must be a text, or None"),
        ((None, None, b"https://x"), "runbook=b'https://x' must be a text, or None"),
        (("d" * 201, None, None), "description has 201 characters, and at most 200 are stored: 'dddd"),
        ((None, "o" * 101, None), "owner has 101 characters, and at most 100 are stored"),
        ((None, None, "https://" + "x" * 493), "runbook has 501 characters, and at most 500 are stored"),
    ],
)
def test_what_can_not_be_stored_is_refused(given: tuple[object, object, object], problem: str) -> None:
    """The refusal names the option and its value."""
    with pytest.raises(ConfigurationError) as caught:
        check_about(*given)
    assert problem in str(caught.value)


def test_a_surrogate_is_no_reason_to_refuse() -> None:
    """What the database doesn't take is replaced, as in each text that is stored."""
    assert check_about("caf\udce9", None, None) == About("caf?")


@pytest.mark.parametrize(
    ("node", "found"),
    [
        ({}, NOTHING),
        ({"description": 5, "owner": ["mail"], "runbook": True}, NOTHING),
        ({"description": "", "owner": "", "runbook": ""}, NOTHING),
        ({"description": "two\nlines\x1b[31m", "owner": "o" * 101}, About("two ⏎ lines\ufffd[31m", "o" * 100)),
        ({"runbook": "https://" + "x" * 493}, NOTHING),
    ],
)
def test_what_is_read_can_be_printed(node: dict[object, object], found: About) -> None:
    """Whatever the node holds: what is no text is missing, and what is too long is cut."""
    assert read_about(node) == found
