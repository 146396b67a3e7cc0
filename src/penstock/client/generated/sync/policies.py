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

        Those of the server, which hold for all tenants, and the documents that your tenant stored.
        """
        return self._caller.invoke("policy.list", {}, PolicyList)

    def get(self, policy_id: str) -> PolicyDocument:
        """Get a document with policies."""
        return self._caller.invoke("policy.get", {"policy_id": policy_id}, PolicyDocument)

    def put(
        self, policy_id: str, *, text: str, if_match: str | None = None, idempotency_key: str | None = None
    ) -> PolicyDocument:
        """Store policies of your tenant.

        They hold from now on, and only narrow what the server's policies permit: they are forbids, some of which
        may ask for an approval. All of them are checked first, and none is stored if one has a mistake. Changing
        which of them are enforced and which only watched (@mode) needs the scope policy:shadow.
        """
        return self._caller.invoke(
            "policy.put",
            {"policy_id": policy_id, "text": text, "if_match": if_match},
            PolicyDocument,
            idempotency_key=idempotency_key,
        )

    def delete(self, policy_id: str, *, if_match: str | None = None, idempotency_key: str | None = None) -> Deleted:
        """Delete a document with policies.

        What its policies forbade is allowed from now on, as far as others permit it.
        """
        return self._caller.invoke(
            "policy.delete", {"policy_id": policy_id, "if_match": if_match}, Deleted, idempotency_key=idempotency_key
        )

    def check(self, *, text: str, server_wide: bool | None = None) -> CheckedPolicy:
        """Check policies without storing them.

        Against the schema of everything that can be called in your tenant. Every mistake is listed with its line.
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

        Whether it is in the caller's lists, whether it would be made, held or refused with these arguments, who
        decides about a held call, and which policies say so. Nothing is called.
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

        The last calls of your tenant in the audit log. Says how many would now be refused, need an approval or be
        permitted, and which could not be decided because only a digest of their arguments is kept.
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
        """Explain which tools somebody sees over MCP.

        The list as the client of a key would get it now, with its size, and why workflows and tools that it lacks
        are hidden: a missing scope, policies, or the toolset. Nothing is called.
        """
        return self._caller.invoke(
            "policy.tools",
            {"key": key, "principal": principal, "toolset": toolset, "operations": operations},
            SeenTools,
        )
