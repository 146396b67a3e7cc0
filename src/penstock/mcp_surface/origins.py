"""Where MCP requests come from: the client's own name and version, and its trace.

A client names itself in the handshake, or in the envelope of each request. Only audit records need that, so it is read
when a record is made and not before. If a client does not say, the HTTP headers of the request count.

Above it: `entry_points`, `fast_path`. Below it: nothing of the SDK; a context is read by its attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from penstock.base.traces import is_traceparent, trace_id_of
from penstock.operations.gate.context import Origin

__all__ = ["EnvelopeOrigin", "SdkOrigin"]

_CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
_TRACE = "traceparent"


@dataclass(frozen=True, slots=True)
class SdkOrigin:
    """The origin of a request that the SDK handles."""

    context: Any
    http: Origin | None = None

    @property
    def client(self) -> str | None:
        """The client as it introduced itself."""
        params = self.context.session.client_params
        info = params.client_info if params is not None else None
        return _named(info.name, info.version) if info is not None else _client_of(self.http)

    @property
    def trace_id(self) -> str | None:
        """The trace in the request's metadata or headers."""
        return trace_id_of(self.traceparent)

    @property
    def traceparent(self) -> str | None:
        """The caller's span in the request's metadata or headers."""
        return _trace_in(self.context.meta) or _trace_of(self.http)


@dataclass(frozen=True, slots=True)
class EnvelopeOrigin:
    """The origin of a request of which only the envelope is known, as it was sent."""

    envelope: bytes
    http: Origin | None = None

    @property
    def client(self) -> str | None:
        """The client as the envelope names it."""
        info = self._members().get(_CLIENT_INFO)
        if isinstance(info, dict) and isinstance(info.get("name"), str):
            version = info.get("version")
            return _named(info["name"], version if isinstance(version, str) else "")
        return _client_of(self.http)

    @property
    def trace_id(self) -> str | None:
        """The trace in the envelope or in the headers."""
        return trace_id_of(self.traceparent)

    @property
    def traceparent(self) -> str | None:
        """The caller's span in the envelope or in the headers."""
        return _trace_in(self._members()) or _trace_of(self.http)

    def _members(self) -> Mapping[str, Any]:
        members = msgspec.json.decode(self.envelope)
        return members if isinstance(members, dict) else {}


def _named(name: str, version: str) -> str:
    return f"{name}/{version}" if version else name


def _trace_in(meta: Mapping[str, Any] | None) -> str | None:
    sent = meta.get(_TRACE) if meta else None
    return sent if isinstance(sent, str) and is_traceparent(sent) else None


def _client_of(http: Origin | None) -> str | None:
    return http.client if http is not None else None


def _trace_of(http: Origin | None) -> str | None:
    return http.traceparent if http is not None else None
