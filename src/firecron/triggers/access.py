"""Which callers a trigger serves: the program says it when it creates the trigger, because nothing is open by default.

Either firecron verifies the caller's OIDC token, or the program relies on Cloud Run, which has checked IAM before the
request arrives, or the program brings a verifier of its own.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from firecron.base.cloud_run import find_cloud_run
from firecron.base.events import Events
from firecron.errors import ConfigurationError
from firecron.triggers.oidc import OidcVerifier
from firecron.triggers.verifier import Denial, Verifier

OneOrMore: TypeAlias = str | Iterable[str]


class CloudRunIam:
    """A verifier that serves every request, because Cloud Run has checked IAM.

    Creating it outside of a Cloud Run service logs a WARNING.
    """

    def __init__(self, events: Events, environment: Mapping[str, str] = os.environ) -> None:
        place = find_cloud_run(environment)
        if place is None or place.kind != "service":
            message = (
                "A trigger was created with trust_cloud_run_iam=True, but this is not a Cloud Run service (K_SERVICE "
                "is not set): every caller that reaches its port can run jobs"
            )
            events.emit("trigger.open", "firecron", logging.WARNING, message)

    def check(self, authorization: str | None) -> Denial | None:
        return None


@dataclass(frozen=True, slots=True)
class Access:
    """Which callers a trigger serves: the verifier for `/health`, and the one for all else."""

    all: Verifier
    health: Verifier


def choose_access(
    events: Events,
    audience: OneOrMore | None,
    email: OneOrMore | None,
    trust_cloud_run_iam: bool,
    verifier: Verifier | None,
    health_email: OneOrMore | None,
) -> Access:
    """Return the access that the arguments of `trigger_app` ask for.

    Raise ConfigurationError unless they ask for exactly one: OIDC tokens, Cloud Run's IAM, or a verifier of their own.
    """
    chosen = choose_verifier(events, audience, email, trust_cloud_run_iam, verifier)
    if health_email is None:
        return Access(chosen, chosen)
    if not isinstance(chosen, OidcVerifier):
        raise ConfigurationError(
            f"health_email={health_email!r} names accounts whose OIDC tokens are verified, so it needs audience= and "
            "email=. Where IAM or a verifier of your own decides, let that account in there"
        )
    return Access(chosen, chosen.and_for(_emails("health_email", health_email)))


def choose_verifier(
    events: Events,
    audience: OneOrMore | None,
    email: OneOrMore | None,
    trust_cloud_run_iam: bool,
    verifier: Verifier | None,
) -> Verifier:
    """Return the verifier of those who may do all: see `choose_access`."""
    wishes = [audience is not None or email is not None, trust_cloud_run_iam, verifier is not None]
    if wishes.count(True) != 1:
        said = "doesn't say" if not any(wishes) else "says in more than one way"
        raise ConfigurationError(
            f"the trigger {said} which callers it serves: give either audience= and email= (of the service account "
            "that Cloud Scheduler uses) to have its OIDC tokens verified, or trust_cloud_run_iam=True if the service "
            "requires authentication on Cloud Run, or a verifier= of your own"
        )
    if verifier is not None:
        return verifier
    if trust_cloud_run_iam:
        return CloudRunIam(events)
    return make_oidc(audience, email)


def make_oidc(audience: OneOrMore | None, email: OneOrMore | None) -> OidcVerifier:
    """Return the verifier of OIDC tokens. Raise ConfigurationError unless both are given."""
    if audience is None or email is None:
        missing, why = (
            ("audience", "a token for another service would be accepted")
            if audience is None
            else ("email", "everybody with a Google account can get a token for any audience")
        )
        raise ConfigurationError(f"{missing}= is missing: without it {why}. Give both audience= and email=")
    return OidcVerifier(texts("audience", audience), _emails("email", email))


def _emails(name: str, given: OneOrMore) -> tuple[str, ...]:
    emails = texts(name, given)
    for one in emails:
        if "@" not in one:
            raise ConfigurationError(
                f"{name}={one!r} is not an e-mail address: give a service account's address, such as "
                "scheduler@my-project.iam.gserviceaccount.com"
            )
    return emails


def texts(name: str, given: OneOrMore) -> tuple[str, ...]:
    """Return one text or several as several. Raise ConfigurationError, which names the argument, for an empty one."""
    found = (given,) if isinstance(given, str) else tuple(given)
    if not found or not all(text.strip() for text in found):
        raise ConfigurationError(f"{name}={given!r} is empty or has an empty text: give one text or several")
    return found
