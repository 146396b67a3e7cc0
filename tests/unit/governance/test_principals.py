"""Kinds of principals: who may create a key that counts as a person, a service or an agent."""

from __future__ import annotations

from penstock.governance.principals import KEY_KINDS, Principal, may_create_kind


def test_no_kind_creates_a_kind_above_its_own() -> None:
    assert {kind for kind in KEY_KINDS if may_create_kind("agent", kind)} == {"agent"}
    assert {kind for kind in KEY_KINDS if may_create_kind("service", kind)} == {"agent", "service"}
    for maker in ("person", "local", "system"):
        assert all(may_create_kind(maker, kind) for kind in KEY_KINDS)
    for stranger in ("schedule", "webhook", "anonymous"):
        assert not any(may_create_kind(stranger, kind) for kind in KEY_KINDS)


def test_the_nearest_principal_of_a_chain_lends_its_permissions() -> None:
    alone = Principal(id="key:a", tenant="default", kind="agent", scopes=frozenset())
    assert alone.on_behalf_of is None
    chained = Principal(
        id="schedule:s", tenant="default", kind="schedule", scopes=frozenset(), acting_for=("key:a", "key:b")
    )
    assert chained.on_behalf_of == "key:a"


def test_a_credential_is_named_by_its_id() -> None:
    keyed = Principal(id="key:a", tenant="default", kind="service", scopes=frozenset(), key_id="a")
    signed = Principal(id="webhook:w", tenant="default", kind="webhook", scopes=frozenset(), credential="HOOK_SECRET")
    assert (keyed.credential_id, signed.credential_id) == ("a", "HOOK_SECRET")


def test_only_who_has_every_scope_in_the_default_tenant_owns_the_server() -> None:
    def someone(tenant: str, *scopes: str) -> Principal:
        return Principal(id="key:a", tenant=tenant, kind="person", scopes=frozenset(scopes))

    assert someone("default", "*").is_operator
    assert not someone("acme", "*").is_operator
    assert not someone("default", "backup:*", "key:*").is_operator
