"""The tables of the kit: enough checks, each with an id of its own, a requirement and a reason."""

from __future__ import annotations

import pytest

from penstock.cli.terminal.values import UsageError
from penstock.cli.verify.checks import Profile
from penstock.cli.verify.command import chosen_checks
from penstock.cli.verify.profiles.listing import PROFILES


def test_the_profiles_are_those_that_were_promised() -> None:
    assert set(PROFILES) == {"core", "authz", "writes", "abuse", "audit", "state-witness"}
    assert len(PROFILES["core"].checks) == 35
    assert sum(len(profile.checks) for profile in PROFILES.values()) >= 120


def test_every_check_has_a_sentence_for_what_and_for_why() -> None:
    for profile in PROFILES.values():
        for check in profile.checks:
            assert check.id.startswith(f"{profile.name}."), check
            assert check.requirement.endswith("."), check.id
            assert check.why.endswith((".", "?")), check.id


def test_two_checks_of_a_profile_have_different_names() -> None:
    profile = Profile("p", "")

    async def nothing(kit: object) -> None:
        """Check nothing."""

    profile.add("a", "It works.", "Why.", nothing)
    with pytest.raises(ValueError, match="already"):
        profile.add("a", "It works.", "Why.", nothing)


def test_checks_are_chosen_by_profile_and_by_id() -> None:
    assert chosen_checks("core", ()) == PROFILES["core"].checks
    assert [check.id for check in chosen_checks("core,abuse", ["abuse.retry-after"])] == ["abuse.retry-after"]
    for profiles, ids in (("other", ()), ("", ()), ("core", ["abuse.retry-after"])):
        with pytest.raises(UsageError):
            chosen_checks(profiles, ids)
