"""Operations on policy, typed. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.client.caller import Caller
from penstock.client.generated.views.policy import (
    CheckedPolicy,
    ExplainedCall,
    PolicyDocument,
    PolicyList,
    Replay,
    SeenTools,
)
from penstock.client.generated.views.shared import Deleted

__all__ = ["Policies"]


class Policies:
    """Operations on policy."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def list(self) -> PolicyList:
        """List policies.

        Returns the policies of the server, which apply to all tenants, and the documents that your tenant stored.
        """
        return self._caller.invoke("policy.list", {}, PolicyList)

    def get(self, policy_id: str) -> PolicyDocument:
        """Get a policy document."""
        return self._caller.invoke("policy.get", {"policy_id": policy_id}, PolicyDocument)

    def put(
        self, policy_id: str, *, text: str, if_match: str | None = None, idempotency_key: str | None = None
    ) -> PolicyDocument:
        """Store policies of your tenant.

        They apply from now on, and can only narrow what the server's policies permit: they are forbids, some of
        which may ask for an approval. All of them are checked first, and none is stored if one has a mistake.
        Changing which of them are enforced and which only watched (@mode) needs the scope policy:shadow.
        """
        return self._caller.invoke(
            "policy.put",
            {"policy_id": policy_id, "text": text, "if_match": if_match},
            PolicyDocument,
            idempotency_key=idempotency_key,
        )

    def delete(self, policy_id: str, *, if_match: str | None = None, idempotency_key: str | None = None) -> Deleted:
        """Delete a policy document.

        What its policies forbade is allowed from now on, as far as other policies permit it.
        """
        return self._caller.invoke(
            "policy.delete", {"policy_id": policy_id, "if_match": if_match}, Deleted, idempotency_key=idempotency_key
        )

    def check(self, *, text: str, server_wide: bool | None = None) -> CheckedPolicy:
        """Check policies without storing them.

        Checks them against the schema of everything that can be called in your tenant, and lists every mistake with
        its line.
        """
        return self._caller.invoke("policy.check", {"text": text, "server_wide": server_wide}, CheckedPolicy)

    def explain(
        self,
        *,
        action: str,
        arguments: Mapping[str, Any] | None = None,
        key: str | None = None,
        principal: Mapping[str, Any] | None = None,
        surface: str | None = None,
        remote: str | None = None,
    ) -> ExplainedCall:
        """Explain what would happen to a call.

        Says whether the operation is in the caller's lists, and whether the call would be made, held or refused
        with these arguments. Names who would decide about it, and the policies that say so. Nothing is called.
        """
        return self._caller.invoke(
            "policy.explain",
            {
                "action": action,
                "arguments": arguments,
                "key": key,
                "principal": principal,
                "surface": surface,
                "remote": remote,
            },
            ExplainedCall,
        )

    def replay(self, *, text: str, last: int | None = None) -> Replay:
        """Decide recorded calls again with other policies.

        Takes the last calls of your tenant in the audit log. Says how many would now be refused, need an approval
        or be permitted, and which could not be decided because only a digest of their arguments is stored.
        """
        return self._caller.invoke("policy.replay", {"text": text, "last": last}, Replay)

    def tools(
        self,
        *,
        key: str | None = None,
        principal: Mapping[str, Any] | None = None,
        toolset: str | None = None,
        operations: bool | None = None,
    ) -> SeenTools:
        """Explain which tools a key sees over MCP.

        Returns the list as a client with that key would get it now, with its size, and why other workflows and
        tools are hidden: a missing scope, a policy, or the toolset. Nothing is called.
        """
        return self._caller.invoke(
            "policy.tools",
            {"key": key, "principal": principal, "toolset": toolset, "operations": operations},
            SeenTools,
        )
