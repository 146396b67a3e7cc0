"""The MCP methods of resources, prompts and completion: `resources/*`, `prompts/*` and `completion/complete`."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from penstock.mcp_surface.content.blocks import messages_at
from penstock.mcp_surface.eras.clients import takes_apps
from penstock.mcp_surface.handlers import COMPLETE, Context, Handler, Requests, in_pages, one_page
from penstock.mcp_surface.resources.contents import Contents

__all__ = ["ContentMethods"]


class ContentMethods:
    """Handles the methods that list and read resources and prompts, and complete their arguments."""

    def __init__(self, requests: Requests, contents: Contents) -> None:
        self._requests = requests
        self._contents = contents

    def handlers(self) -> list[Handler]:
        """Return the handler of each method."""
        return [
            Handler("resources/list", types.PaginatedRequestParams, in_pages(self._resources, "resources", "uri")),
            Handler(
                "resources/templates/list",
                types.PaginatedRequestParams,
                in_pages(self._templates, "resourceTemplates", "uriTemplate"),
            ),
            Handler("resources/read", types.ReadResourceRequestParams, self._read),
            Handler("prompts/list", types.PaginatedRequestParams, one_page(self._prompts)),
            Handler("prompts/get", types.GetPromptRequestParams, self._prompt),
            Handler("completion/complete", types.CompleteRequestParams, self._complete),
        ]

    async def _resources(self, context: Context, params: Any) -> Any:
        caller = self._requests.caller_of(context)
        return {"resources": await self._contents.resources(caller, apps=takes_apps(context)), **COMPLETE}

    async def _templates(self, context: Context, params: Any) -> Any:
        return {"resourceTemplates": await self._contents.templates(self._requests.caller_of(context)), **COMPLETE}

    async def _read(self, context: Context, params: types.ReadResourceRequestParams) -> Any:
        legacy = context.protocol_version not in MODERN_PROTOCOL_VERSIONS
        caller, client = self._requests.caller_of(context), self._requests.client(context, params)
        found = await self._contents.read(caller, str(params.uri), client, legacy=legacy)
        return found if found.get("resultType") == "input_required" else {**found, **COMPLETE}

    async def _prompts(self, context: Context, params: Any) -> Any:
        return {"prompts": await self._contents.prompts(self._requests.caller_of(context)), **COMPLETE}

    async def _prompt(self, context: Context, params: types.GetPromptRequestParams) -> Any:
        caller, client = self._requests.caller_of(context), self._requests.client(context, params)
        prompt = await self._contents.prompt(caller, params.name, dict(params.arguments or {}), client)
        return {"resultType": "complete", **messages_at(context.protocol_version, prompt)}

    async def _complete(self, context: Context, params: types.CompleteRequestParams) -> Any:
        reference = params.ref.name if isinstance(params.ref, types.PromptReference) else params.ref.uri
        argument, chosen = params.argument, params.context.arguments if params.context is not None else None
        caller = self._requests.caller_of(context)
        found = await self._contents.completion(caller, str(reference), argument.name, argument.value, chosen)
        return {"completion": found, "resultType": "complete"}
