"""Policies: what one forbids stays forbidden, also after a change to it that cannot be used."""

from __future__ import annotations

from secrets import token_hex

from penstock.cli.verify.checks import NotApplicable, expect
from penstock.cli.verify.kit import API, Kit
from penstock.cli.verify.profiles.authz.table import AUTHZ
from penstock.cli.verify.target import Plane

__all__: list[str] = []

_NOT_SERVED = (404, 405)
_OK, _FORBIDDEN = 200, 403
_REFUSED = (400, 422)


@AUTHZ.check(
    "What a policy forbids stays forbidden when the policy is replaced by a text that was cut off.",
    "A policy that cannot be read must not count as none.",
)
async def broken_policy_keeps_the_last(kit: Kit) -> None:
    if kit.target.admin_key is None:
        raise NotApplicable("no key was given that may make others; pass --admin-key")
    owner = Plane(
        http=kit.http, traffic=kit.traffic, path=API, headers={"authorization": f"Bearer {kit.target.admin_key}"}
    )
    made = await owner.request(
        "POST", "/keys", {"name": "verify policies", "kind": "service", "scopes": ["system:read"]}
    )
    if made.status in _NOT_SERVED:
        raise NotApplicable(f"nothing makes keys at {API}/keys")
    secret = made.body.get("secret")
    expect(isinstance(secret, str), "a key of a service", made)
    caller = kit.with_key(secret, API)
    before = await caller.request("GET", "/info")
    expect(before.status == _OK, "an answer before there is a policy", before)
    whom = before.body.get("principal")
    path = f"/policies/verify-{token_hex(6)}"
    text = f'@id("verify.{token_hex(4)}") forbid (principal == Service::"{whom}", action, resource);'
    stored = await owner.request("PUT", path, {"text": text})
    if stored.status in _NOT_SERVED:
        raise NotApplicable(f"nothing stores policies at {API}/policies")
    expect(stored.status in (_OK, 201), "a stored policy", stored)
    try:
        forbidden = await caller.request("GET", "/info")
        expect(forbidden.status == _FORBIDDEN, "a call that the policy forbids", forbidden)
        cut_off = await owner.request("PUT", path, {"text": text[: len(text) // 2]})
        expect(cut_off.status in _REFUSED, "a refusal of a policy that was cut off", cut_off)
        after = await caller.request("GET", "/info")
        expect(after.status == _FORBIDDEN, "a call that the policy before still forbids", after)
    finally:
        await owner.request("DELETE", path)
