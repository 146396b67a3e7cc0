"""What is stored of a sign-in can be read with the same secret, for the same tenant and server, and in no other way."""

from __future__ import annotations

import base64

from hypothesis import given
from hypothesis import strategies as st

from penstock.runtime.upstreams.oauth.vault import TokenVault

PEPPER = bytes(range(32))
names = st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)


@given(names, names, st.binary(max_size=200))
def test_what_is_sealed_can_be_read_again(tenant: str, server: str, content: bytes) -> None:
    vault = TokenVault(PEPPER)
    assert vault.unseal(tenant, server, vault.seal(tenant, server, content)) == content


@given(names, names, names, names)
def test_a_row_of_another_tenant_or_server_cannot_be_read(tenant: str, server: str, other: str, name: str) -> None:
    vault = TokenVault(PEPPER)
    sealed = vault.seal(tenant, server, b"token")
    assert (vault.unseal(other, name, sealed) is None) == ((tenant, server) != (other, name))


@given(st.integers(min_value=0), st.integers(min_value=1, max_value=255))
def test_any_change_makes_it_unreadable(place: int, change: int) -> None:
    vault = TokenVault(PEPPER)
    raw = bytearray(base64.b64decode(vault.seal("default", "shop", b"token")))
    raw[place % len(raw)] ^= change
    assert vault.unseal("default", "shop", base64.b64encode(raw).decode()) is None


def test_another_secret_reads_nothing_and_no_two_seals_are_the_same() -> None:
    vault = TokenVault(PEPPER)
    sealed = vault.seal("default", "shop", b"token")
    assert TokenVault(bytes(32)).unseal("default", "shop", sealed) is None
    assert sealed != vault.seal("default", "shop", b"token")


@given(st.one_of(st.none(), st.text(), st.integers(), st.binary()))
def test_anything_else_reads_as_nothing(value: object) -> None:
    assert TokenVault(PEPPER).unseal("default", "shop", value) is None
