"""Which principal a token stands for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base import limits
from penstock.base.scopes import is_scope
from penstock.governance.principals import Principal
from penstock.governance.tokens.mapping import principal_from_claims
from penstock.governance.tokens.rules import IssuerRules, TokenRefusal

AUDIENCE = frozenset({"https://flows.example/mcp"})


def rules(name: str = "company", **more: Any) -> IssuerRules:
    return IssuerRules(name=name, issuer=f"https://{name}.example", audiences=AUDIENCE, **more)


def principal(claims: dict[str, Any], **more: Any) -> Principal:
    found = principal_from_claims(rules(**more), {"sub": "ada", **claims}, 1_000)
    assert isinstance(found, Principal), found
    return found


def refusal(claims: dict[str, Any], **more: Any) -> TokenRefusal:
    found = principal_from_claims(rules(**more), {"sub": "ada", **claims}, 1_000)
    assert isinstance(found, TokenRefusal), found
    return found


def test_identity_is_the_issuer_and_the_subject() -> None:
    here, there = principal({}), principal({}, name="partner")
    assert here.id == "token:company:ada"
    assert here.id != there.id
    assert here.token is not None
    assert here.token.expires_at == 1_000


@given(
    st.lists(st.text("abAB/. -", min_size=1, max_size=8), max_size=6),
    st.lists(st.text("abAB/. -", min_size=1, max_size=8), max_size=6),
)
def test_two_issuers_never_share_a_group(here: list[str], there: list[str]) -> None:
    one = principal({"groups": here})
    other = principal({"groups": there}, name="partner")
    assert not one.groups & other.groups


def test_a_map_names_the_groups_and_drops_all_others() -> None:
    found = principal({"groups": ["/support/leads", "admin"]}, group_map={"/support/leads": "support-leads"})
    assert found.groups == {"support-leads"}


@pytest.mark.parametrize(
    "claims",
    [
        {"groups": {"a": 1}},
        {"groups": ["a", 7]},
        {"groups": ["a\n"]},
        {"groups": ["g" * (limits.GROUP_NAME_CHARACTERS_MAX + 1)]},
        {"groups": ["g"] * (limits.TOKEN_GROUPS_MAX + 1)},
        {"_claim_names": {"groups": "src1"}},
    ],
)
def test_groups_that_cannot_be_known_refuse_the_token(claims: dict[str, Any]) -> None:
    assert refusal(claims).code == "TOKEN_INVALID"


def test_a_claim_may_be_a_path_and_an_exact_name_counts_first() -> None:
    nested = {"realm_access": {"roles": ["lead"]}, "https://example.com/groups": ["other"]}
    assert principal(nested, groups_claim="realm_access.roles").groups == {"company.lead"}
    assert principal(nested, groups_claim="https://example.com/groups").groups == {"company.other"}


@pytest.mark.parametrize("claim", ["scope", "scp"])
def test_scopes_are_a_text_or_a_list(claim: str) -> None:
    wanted = {"workflow:run", "execution:read"}
    assert principal({claim: "workflow:run execution:read openid"}).scopes == wanted | {"openid"}
    assert principal({claim: ["workflow:run", "execution:read", 7]}).scopes == wanted


@given(st.lists(st.text("abw:.*", max_size=8), max_size=8))
def test_without_a_map_no_token_has_a_wildcard(texts: list[str]) -> None:
    scopes = principal({"scope": " ".join(texts)}).scopes
    assert all(is_scope(scope) and not scope.endswith("*") for scope in scopes)


def test_a_map_gives_scopes_and_drops_all_others() -> None:
    chosen = {"penstock.use": ("workflow:run", "execution:*")}
    found = principal({"scope": "penstock.use workflow:write"}, scope_map=chosen)
    assert found.scopes == {"workflow:run", "execution:*"}


def test_a_tenant_comes_from_the_rules_or_from_a_claim_and_is_never_invented() -> None:
    assert principal({"org": "acme"}).tenant == "default"
    assert principal({"org": "acme"}, tenant="shared").tenant == "shared"
    assert principal({"org": "acme"}, tenant_claim="org").tenant == "acme"
    assert principal({"org": "A1"}, tenant_claim="org", tenant_map={"A1": "acme"}).tenant == "acme"
    for value in (None, 7, "-", "a b", "../default", "X", ["acme"]):
        refusal({"org": value}, tenant_claim="org")
    refusal({"org": "A2"}, tenant_claim="org", tenant_map={"A1": "acme"})


@pytest.mark.parametrize(
    ("claims", "kind"),
    [
        ({"client_id": "desktop"}, "person"),
        ({"client_id": "bot"}, "agent"),
        ({"azp": "nightly"}, "service"),
        ({"sub": "robot", "client_id": "robot"}, "service"),
        ({"sub": "robot@clients", "azp": "robot"}, "service"),
        ({"gty": "client-credentials"}, "service"),
        ({"idtyp": "app"}, "service"),
        ({"client_id": "robot", "preferred_username": "service-account-robot"}, "service"),
    ],
)
def test_a_client_that_signed_in_for_itself_is_never_a_person(claims: dict[str, Any], kind: str) -> None:
    found = principal(claims, agent_clients=frozenset({"bot"}), service_clients=frozenset({"nightly"}))
    assert found.kind == kind


def test_a_claim_may_say_what_a_caller_is() -> None:
    assert principal({"kind": "agent"}, kind_claim="kind").kind == "agent"
    assert refusal({"kind": "system"}, kind_claim="kind").code == "TOKEN_INVALID"


@pytest.mark.parametrize("subject", [None, "", 7, "a\x00", "s" * 256, ["ada"]])
def test_a_token_without_a_subject_is_refused(subject: Any) -> None:
    assert "sub" in refusal({"sub": subject}).message


def test_a_token_id_that_cannot_be_named_is_refused() -> None:
    assert "jti" in refusal({"jti": "x" * 300}).message
    assert "jti" in refusal({"jti": 7}).message
