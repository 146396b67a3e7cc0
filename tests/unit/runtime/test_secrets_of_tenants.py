"""Secrets of tenants: each reads its own."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as some

from penstock.runtime.activities.routing import Router
from penstock.runtime.secrets import EnvironmentSecrets, secret_name

_TENANTS = some.from_regex(r"[a-z0-9][a-z0-9_-]{0,8}", fullmatch=True).filter(lambda name: name != "default")
_NAMES = some.from_regex(r"[A-Z][A-Z0-9_]{0,8}", fullmatch=True)


def test_in_the_default_tenant_a_secret_is_called_what_documents_call_it() -> None:
    assert secret_name("default", "STRIPE_KEY") == "STRIPE_KEY"


def test_another_tenant_has_secrets_of_its_own() -> None:
    assert secret_name("acme-eu", "STRIPE_KEY") == "TENANT_ACME_HEU__STRIPE_KEY"


@given(_TENANTS, _NAMES, _TENANTS, _NAMES)
def test_no_two_tenants_and_names_meet(tenant: str, name: str, other: str, another: str) -> None:
    if (tenant, name) != (other, another):
        assert secret_name(tenant, name) != secret_name(other, another)


def test_a_tenant_cannot_read_a_secret_of_the_default_one() -> None:
    environment = {"PENSTOCK_SECRET_KEY": "ours", "PENSTOCK_SECRET_TENANT_ACME__OWN": "theirs"}
    router = Router(secrets=EnvironmentSecrets(environment=environment))

    async def filled(name: str, tenant: str) -> object:
        return await router._filled({"header": "***"}, {"/header": f"${{secret:{name}}}"}, tenant)

    assert getattr(asyncio.run(filled("KEY", "default")), "value", None) == {"header": "ours"}
    assert getattr(asyncio.run(filled("KEY", "acme")), "code", None) == "SECRET_NOT_SET"
    assert getattr(asyncio.run(filled("OWN", "acme")), "value", None) == {"header": "theirs"}
