"""The client program of the official suite's `auth` scenarios: our executor, its sign-ins and its store.

    python -m tests.conformance.mcp_suite.oauth_client SERVER_URL

It does what a person with `penstock tool upstream sign-in` and a workflow with a `tool_call` node do: call a tool, sign
in when the call says that this is required, call it again. The person is a request to the address of the sign-in, which
the suite answers with the redirect that a browser would follow. The scenario and its context come from the environment.

Above it: `oauth_suite` gives this command to the suite. Below it: the gate, the MCP executor, a real SQLite file.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from penstock.app.executors.configured import open_executors
from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.app.settings.model import HttpSettings, Settings
from penstock.app.settings.named import McpServerSettings
from penstock.app.settings.secrets import EnvironmentReference
from penstock.app.settings.upstream_auth import OAuthSettings
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject
from penstock.operations.gate.internal_callers import internal_call
from penstock.operations.gate.pipeline import Gate
from penstock.runtime.activities.performing import ActivityError, ActivityOutcome, AsyncPerformer
from tests.unit.runtime.executors.calls import call_of

__all__ = ["main"]

_SERVER: Final = "suite"
_REDIRECT: Final = "http://127.0.0.1:3000/callback"
_METADATA_URL: Final = "https://conformance-test.local/client-metadata.json"
_CALLS: Final = 2
# More would be a loop: one for a token, one for more scopes, and one to spare.
_SIGN_INS_MAX: Final = 3
_CALL_MS: Final = 120_000


def _settings(url: str, context: dict[str, Any]) -> Settings:
    """The settings that an operator would write for the scenario."""
    version = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "")
    server = McpServerSettings(
        url=url,
        protocol=version if version in MODERN_PROTOCOL_VERSIONS else "legacy",
        auth=_auth(context),
    )
    return Settings(mcp_servers={_SERVER: server}, http=HttpSettings(allow_private=True))


def _auth(context: dict[str, Any]) -> OAuthSettings:
    key, secret = context.get("private_key_pem"), context.get("client_secret")
    credentials = os.environ["MCP_CONFORMANCE_SCENARIO"].startswith("auth/client-credentials")
    if context.get("client_id") is None:
        return OAuthSettings(client_metadata_url=_METADATA_URL)
    return OAuthSettings(
        grant="client_credentials" if credentials else "authorization_code",
        client_id=context["client_id"],
        issuer=context.get("issuer"),
        client_secret=_secret("CLIENT_SECRET", secret),
        private_key=_secret("PRIVATE_KEY", key),
    )


def _secret(name: str, value: str | None) -> EnvironmentReference | None:
    if value is None:
        return None
    os.environ[name] = value
    return EnvironmentReference(name)


async def _answer(gate: Gate, operation: str, arguments: JsonObject) -> Any:
    return await internal_call(gate, local_owner(), operation, arguments, surface="cli")


async def _sign_in(gate: Gate) -> None:
    """Do what the command does, with a person who agrees at once."""
    begun = await _answer(gate, "upstream.begin_sign_in", {"server": _SERVER, "redirect_uri": _REDIRECT})
    async with httpx2.AsyncClient() as browser:
        page = await browser.get(begun.authorization_url)
    came_back = parse_qs(urlsplit(page.headers["location"]).query)
    given: JsonObject = {name: came_back[name][0] for name in ("state", "code", "iss", "error") if name in came_back}
    await _answer(gate, "upstream.complete_sign_in", {"server": _SERVER, **given})


async def _call(executor: AsyncPerformer) -> ActivityOutcome:
    node: JsonObject = {"server": _SERVER, "tool": "test-tool"}
    return await executor.perform(call_of("tool_call", node, {}, timeout_ms=_CALL_MS))


async def _converse(url: str, folder: Path) -> ActivityOutcome:
    """Call the tool twice: servers change between calls. Sign in whenever that is required."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    async with (
        open_executors(_settings(url, context)) as equipment,
        Penstock.open(
            folder / "store.db", executors=equipment.executors, upstream=equipment.upstream, perform=False
        ) as penstock,
        open_gate(penstock) as gate,
    ):
        outcome: ActivityOutcome = ActivityError("nothing was called", "NOTHING")
        for _ in range(_CALLS):
            for _ in range(_SIGN_INS_MAX + 1):
                outcome = await _call(equipment.executors["tool_call"])
                print(outcome, file=sys.stderr, flush=True)
                if not isinstance(outcome, ActivityError) or outcome.code != "UPSTREAM_SIGN_IN_REQUIRED":
                    break
                await _sign_in(gate)
        return outcome


def main() -> int:
    """Be the client; the exit code says whether the tool was called in the end."""
    with tempfile.TemporaryDirectory(prefix="penstock-oauth-") as folder:
        try:
            outcome = asyncio.run(_converse(sys.argv[-1], Path(folder)))
        except PenstockError as error:
            print(f"{error.code}: {error.message}", file=sys.stderr)
            return 1
    return 1 if isinstance(outcome, ActivityError) else 0


if __name__ == "__main__":
    sys.exit(main())
