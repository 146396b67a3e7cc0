"""Nobody gets a credential that gives more than they have: every operation that returns one, and weaker callers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.base.json import JsonValue, object_or_empty
from penstock.governance.holds import Preset
from penstock.governance.principals import Principal, TokenReference
from penstock.operations.builtin import builtin_operations, profile_operations
from penstock.operations.catalogue.capability import Capability
from penstock.operations.gate.context import HoldChoices
from penstock.runtime.tables.api_keys import read_key
from tests.scenarios.office import Office, in_office

CREDENTIALS = {
    "key.create": "a key",
    "key.rotate": "a key",
    # These sign nobody in here: events that we send are signed with the one, the other leads to a server that we use.
    "webhook.create": "a secret of events",
    "webhook.rotate": "a secret of events",
    "upstream.begin_sign_in": "an address of another server",
}
"""Every operation that returns a secret, or an address that signs somebody in."""
# Members of answers that look like one of these, and are none: names of secrets, addresses without a right, counts.
HARMLESS = {
    "api_key_secret": "the name of a secret",
    "secrets": "the names of secrets",
    "old_secret_until": "a time",
    "secret_version": "a number",
    "stream_url": "an address that asks for a key",
    "url": "an address that asks for a key, or of somebody else",
    "base_url": "the address of a model",
    "token": "a time stamp of the audit log",
    "token_id": "the name of a token",
    "bytes_per_token": "a number",
    "credential": "the id of a key or token",
    "look": "an address that asks for a key",
}
TRIGGER_SECRET = ("trigger.list", "secret")  # the name of a secret
_SUSPICIOUS = re.compile(r"secret|token(_id)?$|password|credential$|cookie|url$|^link|look|(?<!public_)(?<!_)key_text")


def members(schema: JsonValue) -> Iterator[str]:
    """The names of all members that a schema describes."""
    if isinstance(schema, list):
        for item in schema:
            yield from members(item)
    elif isinstance(schema, dict):
        yield from object_or_empty(schema.get("properties"))
        for item in schema.values():
            yield from members(item)


def operations() -> list[Capability]:
    return [*builtin_operations(), *profile_operations(fixtures=True)]


def test_every_operation_that_may_return_a_credential_is_classified() -> None:
    for capability in operations():
        found = {name for name in members(capability.output_schema) if _SUSPICIOUS.search(name)}
        unknown = {name for name in found - HARMLESS.keys() if (capability.name, name) != TRIGGER_SECRET}
        may_return_one = bool(unknown) or capability.repeat is not None
        assert may_return_one == (capability.name in CREDENTIALS), (capability.name, unknown)


DAY = 86_400_000
VICTIM: dict[str, Any] = {
    "kind": "person",
    "scopes": ["draft:*", "approve:finance", "key:write"],
    "groups": ["finance"],
    "subject": "person:victim",
}
"""The key that others want to have."""
BESIDE = {name: VICTIM[name] for name in ("groups", "subject")}
WEAKER: dict[str, tuple[str, tuple[str, ...], dict[str, Any], str]] = {
    "a service": ("service", ("*",), {"groups": ["finance"]}, "KEY_BEYOND_YOURS"),
    "an agent": ("agent", ("*",), {"groups": ["finance"]}, "KEY_BEYOND_YOURS"),
    "a person without a scope": ("person", ("key:*",), {"groups": ["finance"]}, "SCOPE_REQUIRED"),
    "a person of another tenant": ("person", ("*",), {"tenant": "acme"}, "KEY_NOT_FOUND"),
    "a person whose key expires": ("person", ("*",), {"expires_in": "1h"}, "KEY_BEYOND_YOURS"),
    "a person with few tools": ("person", ("*",), {"toolset": "workflows"}, "KEY_BEYOND_YOURS"),
    "a person outside of the group": ("person", ("draft:*", "key:*"), {}, "SCOPE_REQUIRED"),
    "another person": (
        "person",
        ("draft:*", "approve:finance", "key:write"),
        {"groups": ["finance"]},
        "KEY_BEYOND_YOURS",
    ),
}


@pytest.mark.parametrize("preset", ["open", "strict"])
@pytest.mark.parametrize("weaker", WEAKER)
def test_no_caller_gets_a_key_that_is_beyond_theirs(tmp_path: Path, weaker: str, preset: Preset) -> None:
    kind, scopes, more, code = WEAKER[weaker]

    async def test(office: Office) -> None:
        victim = await office.hire("victim", VICTIM["kind"], *VICTIM["scopes"], **BESIDE)
        caller = await office.hire("caller", kind, *scopes, **more)
        before = await read_key(office.gate.services.platform, victim.key_id or "")
        for arguments in ({}, {"overlap": "1h"}, {"subject": "person:victim"}):
            refused = await office.refusal(caller, "key.rotate", key_id=victim.key_id, **arguments)
            assert refused.code == code, arguments
        assert await read_key(office.gate.services.platform, victim.key_id or "") == before
        if code == "KEY_NOT_FOUND":  # nobody learns that it exists; they make keys of their own tenant
            return
        # What a caller cannot replace, they cannot make either, and the other way round.
        wanted = {**VICTIM, "name": "another", "expires_in": "90d"}
        if "toolset" in more:
            wanted["toolset"] = "all"
        assert (await office.refusal(caller, "key.create", **wanted)).code == code

    in_office(tmp_path, test, HoldChoices(preset=preset))


def test_whoever_could_make_a_key_may_replace_it_and_stays_in_its_lineage(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        victim = await office.hire("victim", VICTIM["kind"], *VICTIM["scopes"], **BESIDE)
        admin = await office.hire("admin", "person", "*", subject="person:admin")
        made = await office.call(admin, "key.rotate", key_id=victim.key_id)
        assert (made["key"]["subject"], made["key"]["created_by"]) == ("person:victim", admin.id)
        assert {office.owner.id, "person:admin"} == {*made["key"]["lineage"]}

    in_office(tmp_path, test)


def test_everybody_replaces_their_own_key(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        for kind in ("person", "service", "agent"):
            holder = await office.hire(
                kind, kind, "key:write", expires_in="1d", toolset="workflows", groups=["finance"]
            )
            made = await office.call(holder, "key.rotate", key_id=holder.key_id)
            assert (made["key"]["kind"], made["key"]["subject"]) == (kind, holder.id)
            assert (made["key"]["toolset"], made["key"]["groups"]) == ("workflows", ["finance"])
            assert made["key"]["expires_at"] is not None

    in_office(tmp_path, test, HoldChoices(preset="open"))


def test_a_key_that_is_replaced_with_a_token_does_not_last_for_ever(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        token = TokenReference(issuer="company", subject="ada", tenant="default", expires_at=2**50)
        ada = Principal(id="token:company:ada", tenant="default", kind="person", scopes=frozenset({"*"}), token=token)
        mine = await office.hire("mine", "person", "*", maker=office.owner, subject="token:company:ada")
        assert (await office.call(office.owner, "key.get", key_id=mine.key_id))["expires_at"] is None
        made = await office.call(ada, "key.rotate", key_id=mine.key_id)
        assert made["key"]["expires_at"] is not None
        assert made["key"]["subject"] == "token:company:ada"

    in_office(tmp_path, test)


@pytest.mark.parametrize("subject", ["ada", "person:", "local:root", "os:root", "person:a b", "tenant", "key:nothing"])
def test_what_is_no_subject_is_refused(tmp_path: Path, subject: str) -> None:
    async def test(office: Office) -> None:
        arguments = {"name": "one", "scopes": ["key:read"], "subject": subject}
        refused = await office.refusal(office.owner, "key.create", **arguments)
        assert refused.code in ("INVALID_ARGUMENTS", "KEY_NOT_FOUND")

    in_office(tmp_path, test)


def test_every_operation_on_credentials_that_changes_something_is_held_for_a_model() -> None:
    resources = ("key.", "token.", "console_session.", "app.")
    for capability in operations():
        internal = capability.name.startswith("console_session.") and capability.route is None
        if capability.name.startswith(resources) and not capability.annotations.read_only and not internal:
            assert capability.governance.holdable, capability.name
            assert capability.governance.risk == "high", capability.name


@pytest.mark.parametrize("surface", ["mcp", "rest"])
def test_a_model_does_not_sign_anybody_out_by_itself(tmp_path: Path, surface: str) -> None:
    async def test(office: Office) -> None:
        await office.hire("boss", "person", "*")
        who = "boss" if surface == "mcp" else "robot"
        request = {"surface": surface}
        held = await office.call(who, "key.sign_out", principal=office.people["ada"].id, request=request)
        assert (held["status"], held["held"]["operation"]) == ("waiting_approval", "key.sign_out")
        # A person signs out at once.
        assert (await office.call("ada", "key.sign_out"))["principal"] == office.people["ada"].id

    in_office(tmp_path, test)
