"""How MCP clients name themselves, and their traces."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from penstock.mcp_surface.origins import EnvelopeOrigin, SdkOrigin

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
META = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
BROWSER: Any = SimpleNamespace(client="a browser", trace_id="5" * 32, traceparent=f"00-{'5' * 32}-{'6' * 16}-01")


def sdk(info: Any = None, meta: Any = None, http: Any = BROWSER) -> SdkOrigin:
    params = None if info is None else SimpleNamespace(client_info=info)
    return SdkOrigin(SimpleNamespace(session=SimpleNamespace(client_params=params), meta=meta), http)


def test_the_name_and_version_of_the_handshake_count_before_the_user_agent() -> None:
    named = sdk(SimpleNamespace(name="studio", version="1.2"), META)
    assert (named.client, named.trace_id) == ("studio/1.2", TRACE)
    assert sdk(SimpleNamespace(name="studio", version="")).client == "studio"
    assert (sdk().client, sdk().trace_id) == ("a browser", "5" * 32)
    assert (sdk(http=None).client, sdk(http=None).trace_id) == (None, None)


@pytest.mark.parametrize(
    ("envelope", "client"),
    [
        ({"io.modelcontextprotocol/clientInfo": {"name": "studio", "version": "1.2"}}, "studio/1.2"),
        ({"io.modelcontextprotocol/clientInfo": {"name": "studio"}}, "studio"),
        ({"io.modelcontextprotocol/clientInfo": {"name": 7}}, "a browser"),
        ({}, "a browser"),
        ([], "a browser"),
    ],
)
def test_an_envelope_names_its_client(envelope: Any, client: str) -> None:
    assert EnvelopeOrigin(msgspec.json.encode(envelope), BROWSER).client == client


def test_an_envelope_names_its_trace() -> None:
    assert EnvelopeOrigin(msgspec.json.encode(META), BROWSER).trace_id == TRACE
    assert EnvelopeOrigin(b"{}", BROWSER).trace_id == "5" * 32
    assert EnvelopeOrigin(b"{}").trace_id is None
