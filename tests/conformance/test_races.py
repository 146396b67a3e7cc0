"""Two changes at once are as one after the other: every two functions of the tables that meet, on PostgreSQL.

See `races` for how they are brought together. The last tests switch the locks off and see the same races go wrong.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.conformance.families import CHANGES, FAMILIES, SEVERAL, function_of
from tests.conformance.platform_stores import run_bounded
from tests.conformance.races import Course, Outcome, Reach, open_course, pairs_that_meet
from tests.thorough import IS_THOROUGH, is_tried

STATEMENTS_MAX, STATEMENTS_ONE_IN = 3, 5
CHANGES_MAX, PAIRS_ONE_IN = 15, 5
# Functions whose locks keep two of their own calls apart.
AGAINST_ITSELF = (
    "replace_key",
    "append_audit",
    "forget_audit",
    "redact_audit",
    "put_resource",
    "delete_resource",
    "count_start",
    "exchange_buckets",
    "take_uses",
    "put",
    "put_all",
    "put_schedule",
    "spend",
    "put_memory",
)
# Changes whose locks keep others apart: one writes what the other one has read, or each waits for the other.
AGAINST_OTHERS = (
    ("put_key: revoked", "replace_key: by the third"),
    ("put_resources", "put_resource: new"),
    ("put_resources", "delete_resource: expected"),
    ("add_deliveries", "add_deliveries: the other way round"),
    ("append_audit: a new tenant", "append_audit: another new one"),
    ("forget_audit: of the other", "forget_audit: told to the other"),
    ("take_uses: the other, too", "take_uses: asked for the other"),
    ("append: within a quota", "append: within the same quota"),
    ("append: another next", "delete_runs: the other way round"),
    ("claim: by another", "claim: what was begun"),
    ("delete_runs", "delete_runs: the other way round"),
    ("delete_ended", "spend: beside"),
    ("put_all: names change hands", "delete"),
    ("put_schedule: expected", "delete_schedule"),
    ("spend: below", "delete_runs: the left"),
    ("put_memory", "clear_memory"),
)


async def reaches(course: Course) -> dict[str, Reach]:
    return {name: await course.reach(call) for name, call in CHANGES.items()}


async def mistakes(course: Course, one: str, other: str, *, all_statements: bool = IS_THOROUGH) -> list[str]:
    """Every race of two changes whose outcome neither of their orders gives.

    Of transactions with many statements, some are tried in every run of the suite, and all of them in thorough ones.
    """
    in_order = await course.alone(CHANGES[one], CHANGES[other])
    in_reverse = turned(await course.alone(CHANGES[other], CHANGES[one]))
    found: list[str] = []
    for first, second in {(one, other): None, (other, one): None}:
        length = (await course.reach(CHANGES[first])).statements
        for statement in range(1, length + 1):
            name, is_long = f"{first} {second} {statement}", length > STATEMENTS_MAX
            if is_long and not is_tried(name, STATEMENTS_ONE_IN, thorough=all_statements):
                continue
            outcome = await course.raced(CHANGES[first], CHANGES[second], stops_after=statement)
            assert outcome is not None, f"{first} has no statement {statement}"
            seen = outcome if first == one else turned(outcome)
            if seen not in (in_order, in_reverse):
                gave = f"{seen.given}, and not {in_order.given} or {in_reverse.given}"
                differ = sorted({*seen.rows} ^ {*in_order.rows})
                found.append(f"{second} while {first} is after statement {statement}: {gave}; {differ}")
    return found


def are_raced(one: str, other: str) -> bool:
    """Whether two changes are brought together. Of different families, and of a large one, some are in every run."""
    if one == other:
        return one not in SEVERAL
    families = [family for family in FAMILIES.values() if one in family.changes or other in family.changes]
    one_in = PAIRS_ONE_IN if len(families) > 1 else len(families[0].changes) // CHANGES_MAX + 1
    return is_tried(f"{one} {other}", one_in)


def turned(outcome: Outcome) -> Outcome:
    return replace(outcome, given=outcome.given[::-1])


@pytest.mark.parametrize("family", FAMILIES)
def test_two_changes_at_once_are_as_one_after_the_other(family: str, postgres_address: str) -> None:
    found: list[str] = []

    async def scenario() -> None:
        async with open_course(postgres_address) as course:
            for one, other in pairs_that_meet(await reaches(course)):
                if one in FAMILIES[family].changes and are_raced(one, other):
                    found.extend(await mistakes(course, one, other))

    run_bounded(scenario())
    assert found == []


def test_without_locks_a_function_goes_wrong_against_itself(postgres_address: str) -> None:
    wrong: set[str] = set()

    async def scenario() -> None:
        async with open_course(postgres_address, has_locks=False) as course:
            for name in CHANGES:
                function = function_of(name)
                if (
                    function in AGAINST_ITSELF
                    and function not in wrong
                    and await mistakes(course, name, name, all_statements=True)
                ):
                    wrong.add(function)

    run_bounded(scenario())
    assert wrong == set(AGAINST_ITSELF)


def test_without_locks_changes_go_wrong_against_others(postgres_address: str) -> None:
    right: list[tuple[str, str]] = []

    async def scenario() -> None:
        async with open_course(postgres_address, has_locks=False) as course:
            for one, other in AGAINST_OTHERS:
                if not await mistakes(course, one, other, all_statements=True):
                    right.append((one, other))

    run_bounded(scenario())
    assert right == []
