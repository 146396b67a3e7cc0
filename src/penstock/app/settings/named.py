"""Settings that come by name, as many as an operator wants: MCP servers, APIs, models, agents.

Above it: `model`. Below it: `composite_types`, `secrets`. `executors.configured` builds executors from them.
"""

# No `from __future__ import annotations`: the annotations are the declarations, and are read at run time.

import os
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Literal

from msgspec import Struct

from penstock.app.settings.composite_types import Field
from penstock.app.settings.formats import PATH, SCOPE, TOOL_PREFIX, URL
from penstock.app.settings.secrets import CommandReference, EnvironmentReference, FileReference
from penstock.app.settings.upstream_auth import ItemProblem, OAuthSettings, may_have_tokens
from penstock.base import limits
from penstock.definitions.source.findings import suggestion
from penstock.runtime.ports.models import COMPATIBLE, MOCK, PROVIDERS

__all__ = [
    "AgentSettings",
    "ApiSettings",
    "ImportSettings",
    "ItemProblem",
    "McpServerSettings",
    "ModelLimitSettings",
    "ModelSettings",
    "SamplingSettings",
    "TokenPriceSettings",
    "ToolRuleSettings",
]

# The references of `SecretReference`, spelt out where annotations are read at run time.
_References = EnvironmentReference | FileReference | CommandReference


class ToolRuleSettings(Struct, frozen=True, kw_only=True):
    """What holds for an imported tool; what its server says about itself counts for nothing of this."""

    scopes: Annotated[tuple[str, ...], Field("Scopes that a caller needs beside `upstream:run`.", format=SCOPE)] = ()
    risk: Annotated[
        Literal["low", "medium", "high", "critical"] | None,
        Field("How much harm a call can do: `medium` unless set; of an API, `low` if it reads and `high` if not."),
    ] = None
    read_only: Annotated[
        bool | None, Field("Whether a call changes nothing; unless set, only a reading method of an API does not.")
    ] = None
    destructive: Annotated[
        bool | None, Field("Whether a call may delete or overwrite; unless set, it may if it is not `read_only`.")
    ] = None
    idempotent: Annotated[
        bool | None,
        Field(
            "Whether a call may be made twice; only then is one with an unknown outcome repeated. Unless set, only "
            "`PUT` and `DELETE` of an API may."
        ),
    ] = None
    open_world: Annotated[bool, Field("Whether it reaches out of the server's own data.")] = True
    title: Annotated[str | None, Field("What it is called, in place of the server's word.")] = None
    description: Annotated[str | None, Field("What models are told about it, in place of the server's words.")] = None


class ImportSettings(Struct, frozen=True, kw_only=True):
    """Which tools of a server are in the catalogue, and what holds for them."""

    prefix: Annotated[
        str | None,
        Field("What the names of its tools begin with; the name of the server unless set.", format=TOOL_PREFIX),
    ] = None
    tools: Annotated[
        tuple[str, ...],
        Field("The tools that may be imported, by name or pattern (`search`, `read_*`); none unless set."),
    ] = ()
    resources: Annotated[
        tuple[str, ...],
        Field("The resources that may be read, as patterns of their addresses (`docs://*`); none unless set."),
    ] = ()
    prompts: Annotated[
        tuple[str, ...], Field("The prompts that may be imported, by name or pattern; none unless set.")
    ] = ()
    accept: Annotated[
        Literal["manual", "first"],
        Field(
            "Who accepts a tool that is new: `manual` waits for somebody, `first` takes it as it is first seen. "
            "One that changes later always waits."
        ),
    ] = "manual"
    tenants: Annotated[tuple[str, ...], Field("The tenants that have them; `*` stands for all.")] = ("default",)
    governance: Annotated[
        Mapping[str, ToolRuleSettings], Field("What holds for a tool, by name or pattern; the exact name counts first.")
    ] = {}


class SamplingSettings(Struct, frozen=True, kw_only=True):
    """The model that a server is lent (sampling in MCP), and how much of it."""

    model: Annotated[str, Field("The model, by its name under `models` or in the registry of the tenant.")]
    tenants: Annotated[
        tuple[str, ...], Field("The tenants whose calls may use it, and pay for it; `*` stands for all.")
    ] = ("default",)
    requests_per_call: Annotated[
        int,
        Field(
            "How often the server may ask it during one call of a tool.",
            minimum=1,
            maximum=limits.MCP_QUESTIONS_PER_CALL_MAX,
        ),
    ] = limits.MCP_SAMPLING_REQUESTS_DEFAULT
    max_tokens: Annotated[int, Field("The longest answer.", minimum=1)] = limits.MCP_SAMPLING_TOKENS_DEFAULT
    cost_per_call: Annotated[
        float | None,
        Field(
            "Dollars after which it is not asked again during one call; the model needs `prices`. No limit unless set.",
            minimum=0,
        ),
    ] = None
    timeout: Annotated[timedelta, Field("How long one answer may take.", minimum=0.001)] = timedelta(
        seconds=limits.MCP_SAMPLING_SECONDS_DEFAULT
    )


class McpServerSettings(Struct, frozen=True, kw_only=True):
    """A server that is started as a program (`command`) or reached over HTTP (`url`)."""

    command: Annotated[str | None, Field("The program to start; `mcp_allow_commands` must list it.")] = None
    args: Annotated[tuple[str, ...], Field("What the program is started with.")] = ()
    env: Annotated[
        Mapping[str, str | _References], Field("Variables for the program; `${secret:NAME}` stands for a secret.")
    ] = {}
    cwd: Annotated[str | None, Field("The folder to start the program in.", format=PATH)] = None
    url: Annotated[str | None, Field("The address of the server.", format=URL)] = None
    headers: Annotated[
        Mapping[str, str | _References], Field("Headers of every request; `${secret:NAME}` stands for a secret.")
    ] = {}
    protocol: Annotated[
        str, Field("`auto`, `legacy` (servers that know only the older handshake), or a protocol version.")
    ] = "auto"
    timeout: Annotated[
        timedelta | None, Field("How long a call may take when its node does not say.", minimum=0.001)
    ] = None
    type: Annotated[str | None, Field("Written by some MCP clients; it says nothing that is needed here.")] = None
    disabled: Annotated[bool, Field("Whether to leave the server out.")] = False
    auth: Annotated[
        OAuthSettings | None, Field("How to get tokens for it, if it wants OAuth; no token is sent unless set.")
    ] = None
    import_: Annotated[
        ImportSettings | None, Field("Which of its tools are in the catalogue, for every caller; none unless set.")
    ] = None
    sampling: Annotated[
        SamplingSettings | None, Field("The model that it may ask while one of its tools runs; none unless set.")
    ] = None
    roots: Annotated[
        Mapping[str, tuple[str, ...]],
        Field("The folders that it is told of, as absolute paths by tenant; `*` stands for all. None unless set."),
    ] = {}

    def problems(self) -> Iterator[ItemProblem]:
        """Check that a server is reached in exactly one way, and that what it is lent can be lent."""
        yield from self._unfit_roots()
        if (self.command is None) == (self.url is None):
            yield ItemProblem("", "must have either `command` (a program) or `url` (an address)")
        if self.url is not None:
            for name in ("args", "env", "cwd"):
                if getattr(self, name):
                    yield ItemProblem(name, "is for servers that are started with `command`")
        else:
            for name in ("headers", "auth"):
                if getattr(self, name):
                    yield ItemProblem(name, "is for servers that are reached with `url`")
        if self.auth is not None and any(name.lower() == "authorization" for name in self.headers):
            yield ItemProblem("headers", "must not have `authorization`: `auth` says where tokens come from")
        if self.auth is not None and self.url is not None and not may_have_tokens(self.url):
            yield ItemProblem("url", "must begin with https:// where there is `auth`, except on this machine")

    def _unfit_roots(self) -> Iterator[ItemProblem]:
        for tenant, folders in self.roots.items():
            if len(folders) > limits.MCP_ROOTS_MAX:
                yield ItemProblem(f"roots.{tenant}", f"must have at most {limits.MCP_ROOTS_MAX} folders")
            for folder in folders:
                if not os.path.isabs(folder):
                    yield ItemProblem(f"roots.{tenant}", f"must have absolute paths, not `{folder}`")


class ApiSettings(Struct, frozen=True, kw_only=True):
    """An API that an OpenAPI document describes."""

    document: Annotated[str | None, Field("The file with its OpenAPI document, JSON or YAML.", format=PATH)] = None
    url: Annotated[
        str | None, Field("Where its OpenAPI document is, if not in a file; it is asked for again.", format=URL)
    ] = None
    base_url: Annotated[
        str | None, Field("The address of the API; unless set, the first server of the document.", format=URL)
    ] = None
    overrides: Annotated[
        str | None, Field("A file with names, texts and fixed arguments in place of the document's.", format=PATH)
    ] = None
    headers: Annotated[
        Mapping[str, str | _References],
        Field(
            "Headers of every request; `${secret:NAME}` stands for a secret, `${principal}` and `${tenant}` for whom "
            "the call is made."
        ),
    ] = {}
    query: Annotated[
        Mapping[str, str | _References], Field("Parameters of every request, with the same references.")
    ] = {}
    timeout: Annotated[
        timedelta | None, Field("How long a call may take when its node does not say.", minimum=0.001)
    ] = None
    output_schemas: Annotated[bool, Field("Whether tools say what they answer with; it makes lists of tools long.")] = (
        False
    )
    disabled: Annotated[bool, Field("Whether to leave the API out.")] = False
    import_: Annotated[
        ImportSettings | None, Field("Which of its operations are in the catalogue; none unless set.")
    ] = None

    def problems(self) -> Iterator[ItemProblem]:
        """Check that the document is in exactly one place."""
        if (self.document is None) == (self.url is None):
            yield ItemProblem("", "must have either `document` (a file) or `url` (an address)")
        if self.import_ is not None and (self.import_.resources or self.import_.prompts):
            yield ItemProblem("import", "an API has operations (`tools`), no resources and no prompts")


class TokenPriceSettings(Struct, frozen=True, kw_only=True):
    """What a million tokens cost in US dollars."""

    input_per_million: Annotated[float, Field("Dollars for a million tokens of input.", minimum=0)]
    output_per_million: Annotated[float, Field("Dollars for a million tokens of output.", minimum=0)]


class ModelLimitSettings(Struct, frozen=True, kw_only=True):
    """How much a model may be used."""

    max_tokens: Annotated[int | None, Field("The longest answer; a node that asks for more gets this.", minimum=1)] = (
        None
    )
    requests_per_minute: Annotated[
        int | None, Field("Requests in a minute, of all processes that share the store.", minimum=1)
    ] = None
    concurrent: Annotated[int | None, Field("Requests at the same time, in each process; others wait.", minimum=1)] = (
        None
    )
    cost_per_day: Annotated[
        float | None, Field("Dollars that each tenant may spend on it in a day (UTC); needs `prices`.", minimum=0)
    ] = None


class ModelSettings(Struct, frozen=True, kw_only=True):
    """A language model under the name that documents use for it; `default` serves nodes that name none."""

    provider: Annotated[
        str,
        Field(
            "Who serves it: `openai`, `anthropic`, `openai-compatible` (any such address), `mock` (a script), or "
            "another provider that needs no further library."
        ),
    ]
    model: Annotated[str | None, Field("The provider's name for it; the name of the entry if this is left out.")] = None
    base_url: Annotated[
        str | None, Field("Where it is served, if not at the provider's usual address.", format=URL)
    ] = None
    api_key: Annotated[_References | None, Field("Where the provider's key is to be found.")] = None
    needs_key: Annotated[
        bool | None, Field("Whether a missing key is an error; unless set, it is for all but `openai-compatible`.")
    ] = None
    headers: Annotated[
        Mapping[str, str | _References], Field("Headers of every request; `${secret:NAME}` stands for a secret.")
    ] = {}
    prices: Annotated[
        TokenPriceSettings | None, Field("What it costs, where the library's price list does not know.")
    ] = None
    limits: Annotated[ModelLimitSettings | None, Field("How much it may be used; no limits unless set.")] = None
    fallbacks: Annotated[
        tuple[str, ...], Field("Other models of the settings, asked in this order if this one cannot answer.")
    ] = ()
    timeout: Annotated[timedelta | None, Field("How long one request may take.", minimum=0.001)] = None
    replies: Annotated[object, Field("The script of a `mock`: a list of replies, or replies by node id.")] = None

    def problems(self) -> Iterator[ItemProblem]:
        """Check that each member belongs to the provider."""
        kind = PROVIDERS.get(self.provider)
        if kind is None:
            hint = suggestion(self.provider, PROVIDERS) or f"known are {', '.join(PROVIDERS)}"
            yield ItemProblem("provider", f"must be a provider that is supported, not `{self.provider}`", hint)
        elif self.base_url is not None and not kind.takes_address:
            yield ItemProblem("base_url", f"is not for `{self.provider}`, whose address is fixed")
        if self.provider == COMPATIBLE and self.base_url is None:
            yield ItemProblem("", "needs `base_url`: `openai-compatible` has no usual address")
        if self.provider == MOCK and not isinstance(self.replies, list | dict):
            yield ItemProblem("", "needs `replies`: a list, or an object with replies by node id (`*` for any)")
        if self.provider != MOCK and self.replies is not None:
            yield ItemProblem("replies", "is for the provider `mock` only")
        if self.limits is not None and self.limits.cost_per_day is not None and self.prices is None:
            yield ItemProblem("limits", "has `cost_per_day`, which needs `prices`: a cost that is unknown has no limit")


class AgentSettings(Struct, frozen=True, kw_only=True):
    """An agent that `agent_delegate` nodes give work to."""

    type: Annotated[
        Literal["a2a", "task_api", "mcp"],
        Field("`a2a` (the standard), `task_api` (`POST /tasks`, then polling), or `mcp` (a tool of an MCP server)."),
    ] = "a2a"
    url: Annotated[str | None, Field("Where it is: its card is below this address, or its task API.", format=URL)] = (
        None
    )
    api_key: Annotated[_References | None, Field("Where its key is to be found.")] = None
    headers: Annotated[
        Mapping[str, str | _References], Field("Headers of every request; `${secret:NAME}` stands for a secret.")
    ] = {}
    trusted_origins: Annotated[
        tuple[str, ...], Field("Other origins that its card may send us to with our key.", format=URL)
    ] = ()
    poll_interval: Annotated[
        timedelta | None, Field("How often to ask how far it is, if it cannot stream.", minimum=0.01)
    ] = None
    server: Annotated[str | None, Field("The MCP server, one of `mcp_servers`.")] = None
    tool: Annotated[str | None, Field("The tool of that server.")] = None

    def problems(self) -> Iterator[ItemProblem]:
        """Check that each member belongs to the type of agent."""
        if self.type == "mcp":
            if self.server is None or self.tool is None:
                yield ItemProblem("", "needs `server` and `tool`")
            wrong = ["url", "api_key", "headers", "trusted_origins", "poll_interval"]
        else:
            if self.url is None:
                yield ItemProblem("", "needs `url`")
            if self.type == "task_api" and self.api_key is None:
                yield ItemProblem("", "needs `api_key`: the task API has no requests without a key")
            wrong = ["server", "tool", *(["headers", "trusted_origins"] if self.type == "task_api" else [])]
        for name in wrong:
            if getattr(self, name):
                yield ItemProblem(name, f"is not for agents of the type `{self.type}`")
