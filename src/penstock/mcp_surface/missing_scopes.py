"""Calls that a further scope would allow, answered with 403 before anything else sees them.

Clients with an access token can ask their issuer for more, if they know what is missing (RFC 6750). A result with
`isError` tells only the model. That is why a call of a built-in operation without its scopes ends here, in both eras.
What a tenant defined looks unknown to callers who may not use it, so such calls pass, and so does everything that no
scope would change.

Above it: `endpoint`, for callers with a token. Below it: the gate, the tool lists.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from penstock.base.errors import PenstockError
from penstock.base.scopes import EVERYTHING
from penstock.mcp_surface.callers import Caller
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.tools.registry import ToolRegistry
from penstock.operations.catalogue.capability import Capability
from penstock.operations.gate.authorization import scope_refusal, without_scopes
from penstock.operations.gate.context import Request
from penstock.operations.gate.pipeline import Gate, RefusedCall

__all__ = ["MissingScopes"]

_CALL = "tools/call"
_EVERY_SCOPE = frozenset({EVERYTHING})


class _Params(msgspec.Struct):
    name: str = ""


class _Message(msgspec.Struct):
    method: str = ""
    params: _Params | None = None


_read = msgspec.json.Decoder(_Message).decode


class MissingScopes:
    """Finds the scopes that a caller with a token lacks."""

    def __init__(self, gate: Gate, options: McpOptions) -> None:
        self._gate = gate
        self._registry = ToolRegistry(gate, options)

    async def refusal(self, caller: Caller, body: bytes) -> PenstockError | None:
        """Return why a message is refused, if a further scope of the issuer would change that; it is on record then."""
        principal = caller.principal
        if not principal.scopes:
            error = without_scopes(self._gate.services, principal)
            self._gate.refused(_request(caller, _CALL), error.code)
            error.on_record = True
            return error
        name = _called(body)
        capability = None if name is None else await self._capability(caller, name)
        if capability is None:
            return None
        known = scope_refusal(self._gate.services, capability, principal)
        if known is None or known.challenge is None:
            return None
        # The gate refuses it and keeps the record.
        outcome = await self._gate.call(_request(caller, capability.name))
        return outcome.error if isinstance(outcome, RefusedCall) else None

    async def _capability(self, caller: Caller, name: str) -> Capability | None:
        """Return the built-in operation that a name means to a caller with every scope."""
        everything = replace(caller.principal, scopes=_EVERY_SCOPE)
        tool = (await self._registry.of(everything, caller.toolset, caller.remote)).find(name)
        return None if tool is None or not tool.capability.is_builtin else tool.capability


def _request(caller: Caller, operation: str) -> Request:
    return Request(
        operation=operation,
        arguments={},
        principal=caller.principal,
        surface="mcp",
        request_id=caller.request_id,
        remote=caller.remote,
        origin=caller.origin,
    )


def _called(body: bytes) -> str | None:
    """Return the name of the tool that a message calls."""
    try:
        message = _read(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # answered as what it is: not a message, or several
    return message.params.name if message.method == _CALL and message.params is not None else None
