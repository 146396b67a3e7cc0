"""What every store does with definitions: versions, names that are deleted and come back, pages, tenants."""

import asyncio

import pytest
from msgspec.structs import replace

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject
from penstock.runtime.ports.runs import (
    ANY,
    DefinitionChanged,
    DefinitionPage,
    DefinitionPut,
    DefinitionRefused,
    DefinitionRow,
)
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.stores import AT, definition, on_every_store, start


def put_at(number: int, minute: int, *, name: str = "refund", by: str | None = None) -> DefinitionRow:
    """A definition, put so many minutes later than the first."""
    return replace(definition(number, name=name), created_at=AT + minute * 60_000, created_by=by)


async def versions(
    store: RunStore, name: str = "refund", *, tenant: str = "default", limit: int = 2
) -> list[DefinitionRow]:
    """Every version of a name, over all pages."""
    found: list[DefinitionRow] = []
    page = await store.definitions.list_versions(name, tenant=tenant, limit=limit)
    while True:
        assert len(page.rows) <= limit
        found += page.rows
        if page.next_cursor is None:
            return found
        page = await store.definitions.list_versions(name, tenant=tenant, limit=limit, cursor=page.next_cursor)


async def names(
    store: RunStore, *, tenant: str | None = "default", prefix: str | None = None, limit: int = 2
) -> list[str]:
    """Every name, over all pages."""
    found: list[str] = []
    page = await store.definitions.list_page(tenant=tenant, prefix=prefix, limit=limit)
    while True:
        assert len(page.rows) <= limit
        found += [row.name for row in page.rows]
        if page.next_cursor is None:
            return found
        page = await store.definitions.list_page(tenant=tenant, prefix=prefix, limit=limit, cursor=page.next_cursor)


# --- versions ------------------------------------------------------------------------------------


@on_every_store
async def test_every_time_that_a_definition_becomes_the_newest_is_a_version(store: RunStore) -> None:
    put = [put_at(1, 0, by="ada"), put_at(2, 1), put_at(3, 2, by="bob"), put_at(1, 3, by="eve")]
    for row in put:
        assert await store.definitions.put(row) == DefinitionPut()
    assert await versions(store) == put[::-1]
    assert await store.definitions.find_named("refund") == put[-1]
    assert await store.definitions.find("hash-1") == put[0]
    assert await store.definitions.find("hash-1", tenant="default") == put[-1]
    assert await store.definitions.list_versions("refund", limit=10) == DefinitionPage(tuple(put[::-1]), None)


@on_every_store
async def test_putting_the_newest_again_is_no_version(store: RunStore) -> None:
    await store.definitions.put(put_at(1, 0, by="ada"))
    assert await store.definitions.put(put_at(1, 5, by="bob")) == DefinitionPut()
    assert await versions(store) == [put_at(1, 0, by="ada")]
    assert await store.definitions.find_named("refund") == put_at(1, 0, by="ada")


def with_signature(row: DefinitionRow, value: str | None) -> DefinitionRow:
    block: JsonObject = {} if value is None else {"signature": {"alg": "EdDSA", "value": value}}
    return replace(row, document={**row.document, **block})


@on_every_store
async def test_a_signature_is_added_and_replaced_and_never_taken_away(store: RunStore) -> None:
    await store.definitions.put(put_at(1, 0))
    await store.definitions.put(replace(put_at(1, 0), tenant="acme"))
    for minute, value in enumerate(["one", "two"], 1):
        signed = with_signature(put_at(1, minute, by="ada"), value)
        assert await store.definitions.put(signed, expected_hash="hash-1") == DefinitionPut()
        assert await store.definitions.find_named("refund") == signed
        assert await store.definitions.put(put_at(1, 9)) == DefinitionPut()
        assert await store.definitions.find_named("refund") == signed
        acme = await store.definitions.find("hash-1", tenant="acme")
        assert acme is not None
        assert acme.document == signed.document
    assert [row.hash for row in await versions(store)] == ["hash-1"] * 3


@on_every_store
async def test_definitions_of_which_one_is_refused_leave_signatures_as_they_were(store: RunStore) -> None:
    await store.definitions.put(put_at(1, 0))
    signed = with_signature(put_at(1, 1), "one")
    outcome = await store.definitions.put_all([(signed, "hash-1"), (put_at(2, 1), "another")])
    assert isinstance(outcome, DefinitionRefused)
    assert await store.definitions.find_named("refund") == put_at(1, 0)


@on_every_store
async def test_versions_of_other_names_are_not_listed(store: RunStore) -> None:
    for number, name in enumerate(["refund", "refunds", "Refund", "refund", "other"]):
        await store.definitions.put(replace(definition(number, name=name), hash=f"{name}-{number}"))
    assert [row.hash for row in await versions(store)] == ["refund-3", "refund-0"]
    assert await versions(store, "nobody") == []


@on_every_store
async def test_pages_of_versions_stay_in_place_when_more_are_put(store: RunStore) -> None:
    for number in range(5):
        await store.definitions.put(definition(number))
    first = await store.definitions.list_versions("refund", limit=2)
    await store.definitions.put(definition(9))
    second = await store.definitions.list_versions("refund", limit=2, cursor=first.next_cursor)
    assert [row.hash for row in (*first.rows, *second.rows)] == ["hash-4", "hash-3", "hash-2", "hash-1"]


# --- two people at once --------------------------------------------------------------------------


@on_every_store
async def test_a_definition_is_put_only_in_place_of_the_expected_one(store: RunStore) -> None:
    assert await store.definitions.put(definition(1), expected_hash="hash-0") == DefinitionChanged(None)
    assert await store.definitions.find_named("refund") is None
    assert await store.definitions.put(definition(1), expected_hash=None) == DefinitionPut()
    assert await store.definitions.put(definition(2), expected_hash=None) == DefinitionChanged("hash-1")
    assert await store.definitions.put(definition(2), expected_hash="hash-1") == DefinitionPut()
    assert await store.definitions.put(definition(3), expected_hash="hash-1") == DefinitionChanged("hash-2")
    assert await store.definitions.put(definition(2), expected_hash="hash-1") == DefinitionChanged("hash-2")
    assert await store.definitions.put(definition(2), expected_hash="hash-2") == DefinitionPut()
    assert await store.definitions.put(definition(3), expected_hash=ANY) == DefinitionPut()
    assert [row.hash for row in await versions(store)] == ["hash-3", "hash-2", "hash-1"]


@on_every_store
async def test_definitions_are_put_all_at_once_or_not_at_all(store: RunStore) -> None:
    await store.definitions.put(definition(1))
    first, second = definition(2, name="pay"), definition(3)
    refused = await store.definitions.put_all([(first, None), (second, "hash-9")])
    assert refused == DefinitionRefused("refund", DefinitionChanged("hash-1"))
    assert await store.definitions.find_named("pay") is None
    assert await store.definitions.find("hash-2") is None
    assert await versions(store) == [definition(1)]
    assert await store.definitions.put_all([(first, None), (second, "hash-1")]) == DefinitionPut()
    assert await store.definitions.find_named("pay") == first
    assert [row.hash for row in await versions(store)] == ["hash-3", "hash-1"]
    again = [(definition(4, name="pay"), "hash-2"), (definition(5, name="pay"), "hash-4")]
    assert await store.definitions.put_all(again) == DefinitionPut(), "the second follows the first"
    newest = await store.definitions.find_named("pay")
    assert newest is not None
    assert newest.hash == "hash-5"


@on_every_store
async def test_definitions_of_which_one_asks_for_a_name_of_the_other_are_not_put(store: RunStore) -> None:
    tools: list[DefinitionRow] = [
        replace(definition(number, name=name), document={"expose": {"tool": {"name": "same"}}})
        for number, name in enumerate(("one", "two"))
    ]
    refused = await store.definitions.put_all([(row, None) for row in tools])
    assert isinstance(refused, DefinitionRefused)
    assert (refused.name, getattr(refused.outcome, "owner", None)) == ("two", "one")
    assert await store.definitions.list_newest() == ()
    assert await store.definitions.put(tools[1]) == DefinitionPut(), "nobody has the name"


@on_every_store
async def test_what_was_refused_is_not_kept(store: RunStore) -> None:
    await store.definitions.put(definition(1))
    await store.definitions.put(definition(2), expected_hash="hash-9")
    assert await store.definitions.find("hash-2") is None
    assert await versions(store) == [definition(1)]


@on_every_store
async def test_of_many_who_expect_the_same_one_gets_through(store: RunStore) -> None:
    await store.definitions.put(definition(0))
    outcomes = await asyncio.gather(
        *(store.definitions.put(definition(number), expected_hash="hash-0") for number in range(1, 11))
    )
    assert outcomes.count(DefinitionPut()) == 1
    assert len(await versions(store)) == 2


# --- deleting ------------------------------------------------------------------------------------


@on_every_store
async def test_a_deleted_name_is_hidden_and_what_runs_need_stays(store: RunStore) -> None:
    for number in (1, 2):
        await store.definitions.put(definition(number))
    await store.append(start(definition_hash="hash-1"))
    assert await store.definitions.delete("refund") is True
    assert await store.definitions.delete("refund") is False
    assert await store.definitions.delete("nobody") is False
    assert await store.definitions.find_named("refund") is None
    assert await store.definitions.list_newest() == ()
    assert await names(store) == []
    assert await store.definitions.find("hash-1") == definition(1)
    assert await store.definitions.find("hash-2") == definition(2)
    assert await versions(store) == [definition(2), definition(1)]


@on_every_store
async def test_a_name_is_hidden_only_if_it_stands_for_what_is_expected(store: RunStore) -> None:
    for number in (1, 2):
        await store.definitions.put(definition(number))
    for expected in ("hash-1", "hash-3", ""):
        assert await store.definitions.delete("refund", expected_hash=expected) is False
    assert await store.definitions.delete("refund", tenant="acme", expected_hash="hash-2") is False
    assert await store.definitions.find_named("refund") == definition(2)
    assert await store.definitions.delete("refund", expected_hash="hash-2") is True
    assert await store.definitions.delete("refund", expected_hash="hash-2") is False


@on_every_store
async def test_a_deleted_name_comes_back_with_the_next_definition(store: RunStore) -> None:
    for number in (1, 2):
        await store.definitions.put(definition(number))
    await store.definitions.delete("refund")
    assert await store.definitions.put(definition(2), expected_hash="hash-2") == DefinitionChanged(None)
    again = put_at(2, 9, by="ada")
    assert await store.definitions.put(again, expected_hash=None) == DefinitionPut()
    assert await store.definitions.find_named("refund") == again
    assert await versions(store) == [again, definition(2), definition(1)]
    assert await names(store) == ["refund"]


# --- listing -------------------------------------------------------------------------------------

NAMES = [
    "",
    "a",
    "a.b",
    "a.c",
    "a/b",
    "aa",
    "b",
    "B",
    "Ärger",
    "ä",
    "z\U0010ffff",
    "z\U0010ffffz",
    "z\ud7ff",
    "z\ue000",
]


@on_every_store
async def test_names_are_listed_in_order_and_in_pages(store: RunStore) -> None:
    for number, name in enumerate(NAMES):
        await store.definitions.put(replace(definition(number, name=name), hash=str(number)))
    for limit in (1, 2, 3, 100):
        assert await names(store, limit=limit) == sorted(NAMES)
    assert [row.name for row in await store.definitions.list_newest()] == sorted(NAMES)


@on_every_store
async def test_names_are_found_by_their_beginning(store: RunStore) -> None:
    for number, name in enumerate(NAMES):
        await store.definitions.put(replace(definition(number, name=name), hash=str(number)))
    for prefix in (*NAMES, "a.", "ab", "\U0010ffff", "z\U0010ffff\U0010ffff", "%", "_"):
        wanted = [name for name in sorted(NAMES) if name.startswith(prefix)]
        assert await names(store, prefix=prefix) == wanted, prefix


@on_every_store
async def test_a_listing_of_names_goes_on_where_it_ended(store: RunStore) -> None:
    for name in "abcdef":
        await store.definitions.put(replace(definition(1, name=name), hash=name))
    first = await store.definitions.list_page(limit=3)
    await store.definitions.delete("c")
    await store.definitions.delete("d")
    await store.definitions.put(replace(definition(1, name="aa"), hash="aa"))
    second = await store.definitions.list_page(limit=3, cursor=first.next_cursor)
    assert [row.name for row in second.rows] == ["e", "f"]
    assert second.next_cursor is None


@on_every_store
async def test_a_page_of_definitions_has_a_sensible_size(store: RunStore) -> None:
    for number in range(limits.DEFINITIONS_PAGE_MAX + 1):
        await store.definitions.put(replace(definition(number), hash=f"v{number}"))
        await store.definitions.put(replace(definition(number, name=f"n{number}"), hash=f"n{number}"))
    page = await store.definitions.list_versions("refund", limit=10**9)
    assert len(page.rows) == limits.DEFINITIONS_PAGE_MAX
    page = await store.definitions.list_page(limit=10**9)
    assert len(page.rows) == limits.DEFINITIONS_PAGE_MAX
    for limit in (0, -1):
        with pytest.raises(Rejected, match="INVALID_LIST_LIMIT"):
            await store.definitions.list_versions("refund", limit=limit)
        with pytest.raises(Rejected, match="INVALID_LIST_LIMIT"):
            await store.definitions.list_page(limit=limit)


@on_every_store
async def test_a_cursor_that_is_none_is_refused(store: RunStore) -> None:
    for cursor in ("", "x", "k", "kg", "n!", "nW10", "nWzEsMl0", "nbnVsbA", "é", "n\U0001f600", "x" * 500):
        with pytest.raises(Rejected, match="INVALID_LIST_CURSOR"):
            await store.definitions.list_page(limit=5, cursor=cursor)
    for cursor in ("", "x", "nWyJhIiwiYiJd", "k" + "f" * 41):
        with pytest.raises(Rejected, match="INVALID_LIST_CURSOR"):
            await store.definitions.list_versions("refund", limit=5, cursor=cursor)
    assert (await store.definitions.list_versions("refund", limit=5, cursor="k" + "f" * 40)).rows == ()


# --- tenants -------------------------------------------------------------------------------------


def of(tenant: str, number: int, *, name: str = "refund") -> DefinitionRow:
    """A definition that a tenant put."""
    return replace(definition(number, name=name), tenant=tenant, created_at=AT + len(tenant))


@on_every_store
async def test_a_name_stands_for_something_else_in_each_tenant(store: RunStore) -> None:
    for row in (of("default", 1), of("acme", 2), of("other", 3), of("acme", 4)):
        await store.definitions.put(row)
    assert await store.definitions.find_named("refund") == of("default", 1)
    assert await store.definitions.find_named("refund", tenant="acme") == of("acme", 4)
    assert await store.definitions.find_named("refund", tenant="Acme") is None
    assert await versions(store, tenant="acme") == [of("acme", 4), of("acme", 2)]
    assert await store.definitions.list_newest(tenant="other") == (of("other", 3),)
    assert await store.definitions.list_newest(tenant="nobody") == ()
    everything = (of("acme", 4), of("default", 1), of("other", 3))
    assert await store.definitions.list_newest(tenant=None) == everything


@on_every_store
async def test_one_document_in_two_tenants_is_theirs_each_for_itself(store: RunStore) -> None:
    for tenant in ("acme", "other"):
        await store.definitions.put(of(tenant, 1))
    assert await store.definitions.find_named("refund", tenant="acme") == of("acme", 1)
    assert await store.definitions.find_named("refund", tenant="other") == of("other", 1)
    assert await store.definitions.find("hash-1", tenant="acme") == of("acme", 1)
    assert await store.definitions.find("hash-1", tenant="other") == of("other", 1)
    assert await store.definitions.find("hash-1", tenant="third") is None
    assert await store.definitions.find("hash-1") == of("acme", 1)
    assert await store.definitions.delete("refund", tenant="acme") is True
    assert await store.definitions.find_named("refund", tenant="acme") is None
    assert await store.definitions.find_named("refund", tenant="other") == of("other", 1)
    assert await store.definitions.find("hash-1", tenant="acme") == of("acme", 1)


@on_every_store
async def test_what_is_expected_is_expected_of_the_tenant(store: RunStore) -> None:
    await store.definitions.put(of("acme", 1))
    assert await store.definitions.put(of("other", 2), expected_hash="hash-1") == DefinitionChanged(None)
    assert await store.definitions.put(of("other", 2), expected_hash=None) == DefinitionPut()
    assert await store.definitions.delete("refund") is False


@on_every_store
async def test_names_of_every_tenant_are_listed_in_pages(store: RunStore) -> None:
    wanted = sorted((name, tenant) for name in ("a", "b", "c") for tenant in ("acme", "default", "other"))
    for name, tenant in reversed(wanted):
        await store.definitions.put(replace(of(tenant, 1, name=name), hash=name))
    for limit in (1, 2, 4, 100):
        found: list[tuple[str, str]] = []
        cursor: str | None = None
        while True:
            page = await store.definitions.list_page(tenant=None, limit=limit, cursor=cursor)
            found += [(row.name, row.tenant) for row in page.rows]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert found == wanted
    assert await names(store, tenant="acme", limit=2) == ["a", "b", "c"]
    assert await names(store, tenant=None, prefix="b") == ["b", "b", "b"]
