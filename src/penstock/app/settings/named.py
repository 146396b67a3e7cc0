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
    """Rules for an imported tool. The server's own claims about these are ignored."""

    scopes: Annotated[tuple[str, ...], Field("Scopes that a caller needs beside `upstream:run`.", format=SCOPE)] = ()
    risk: Annotated[
        Literal["low", "medium", "high", "critical"] | None,
        Field("The risk of a call: `medium` unless set; for an API, `low` if it reads and `high` otherwise."),
    ] = None
    read_only: Annotated[
        bool | None, Field("Whether a call only reads; unless set, only the reading methods of an API count as such.")
    ] = None
    destructive: Annotated[
        bool | None, Field("Whether a call may delete or overwrite data; unless set, it may if it is not `read_only`.")
    ] = None
    idempotent: Annotated[
        bool | None,
        Field(
            "Whether a call may safely be repeated; only then is a call with an unknown outcome repeated. Unless "
            "set, only `PUT` and `DELETE` of an API are."
        ),
    ] = None
    open_world: Annotated[bool, Field("Whether it reaches beyond the server's own data.")] = True
    title: Annotated[str | None, Field("Its title, instead of the server's.")] = None
    description: Annotated[str | None, Field("Its description for models, instead of the server's.")] = None


class ImportSettings(Struct, frozen=True, kw_only=True):
    """The tools of a server that are in the catalogue, and the rules for them."""

    prefix: Annotated[
        str | None,
        Field("The prefix of the names of its tools; the name of the server unless set.", format=TOOL_PREFIX),
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
            "How new tools are accepted: `manual` waits for a person, `first` accepts a tool as it is first seen. A "
            "tool that changes later always waits."
        ),
    ] = "manual"
    tenants: Annotated[tuple[str, ...], Field("The tenants that may use them; `*` stands for all.")] = ("default",)
    governance: Annotated[
        Mapping[str, ToolRuleSettings],
        Field("The rules for a tool, by name or pattern; an exact name takes precedence."),
    ] = {}


class SamplingSettings(Struct, frozen=True, kw_only=True):
    """The model that a server may ask (MCP sampling), and its limits."""

    model: Annotated[str, Field("The model, by its name under `models` or in the registry of the tenant.")]
    tenants: Annotated[
        tuple[str, ...], Field("The tenants whose calls may use and pay for it; `*` stands for all.")
    ] = ("default",)
    requests_per_call: Annotated[
        int,
        Field(
            "How often the server may ask it during one tool call.",
            minimum=1,
            maximum=limits.MCP_QUESTIONS_PER_CALL_MAX,
        ),
    ] = limits.MCP_SAMPLING_REQUESTS_DEFAULT
    max_tokens: Annotated[int, Field("The longest answer, in tokens.", minimum=1)] = limits.MCP_SAMPLING_TOKENS_DEFAULT
    cost_per_call: Annotated[
        float | None,
        Field(
            "The cost in dollars after which it is not asked again during one call; the model needs `prices`. No "
            "limit unless set.",
            minimum=0,
        ),
    ] = None
    timeout: Annotated[timedelta, Field("How long one answer may take.", minimum=0.001)] = timedelta(
        seconds=limits.MCP_SAMPLING_SECONDS_DEFAULT
    )


class McpServerSettings(Struct, frozen=True, kw_only=True):
    """A server that is started as a program (`command`) or reached over HTTP (`url`)."""

    command: Annotated[str | None, Field("The program to start; `mcp_allow_commands` must list it.")] = None
    args: Annotated[tuple[str, ...], Field("The arguments of the program.")] = ()
    env: Annotated[
        Mapping[str, str | _References],
        Field("Environment variables for the program; `${secret:NAME}` stands for a secret."),
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
    type: Annotated[str | None, Field("Accepted because some MCP clients write it; ignored.")] = None
    disabled: Annotated[bool, Field("Whether to ignore the server.")] = False
    auth: Annotated[
        OAuthSettings | None, Field("How to get tokens for it, if it wants OAuth; no token is sent unless set.")
    ] = None
    import_: Annotated[
        ImportSettings | None, Field("The tools in the catalogue, for every caller; none unless set.")
    ] = None
    sampling: Annotated[
        SamplingSettings | None, Field("The model that it may ask during a call of its tools; none unless set.")
    ] = None
    roots: Annotated[
        Mapping[str, tuple[str, ...]],
        Field(
            "The folders that it may learn of (MCP roots), as absolute paths by tenant; `*` stands for all. None "
            "unless set."
        ),
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
        str | None,
        Field("The address of its OpenAPI document, if it is not a file; it is fetched again regularly.", format=URL),
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
    output_schemas: Annotated[bool, Field("Whether tools have output schemas; they make tool lists long.")] = False
    disabled: Annotated[bool, Field("Whether to ignore the API.")] = False
    import_: Annotated[ImportSettings | None, Field("The operations in the catalogue; none unless set.")] = None

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

    max_tokens: Annotated[
        int | None, Field("The longest answer in tokens; a node that asks for more gets this.", minimum=1)
    ] = None
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
            "Its provider: `openai`, `anthropic`, `openai-compatible` (any such address), `mock` (a script), or "
            "another provider that needs no further library."
        ),
    ]
    model: Annotated[str | None, Field("The provider's name for it; unless set, the name of the entry.")] = None
    base_url: Annotated[str | None, Field("The address of the provider, if not the usual one.", format=URL)] = None
    api_key: Annotated[_References | None, Field("The API key of the provider.")] = None
    needs_key: Annotated[
        bool | None,
        Field("Whether a missing key is an error; unless set, it is for all providers except `openai-compatible`."),
    ] = None
    headers: Annotated[
        Mapping[str, str | _References], Field("Headers of every request; `${secret:NAME}` stands for a secret.")
    ] = {}
    prices: Annotated[
        TokenPriceSettings | None, Field("Its prices, if the library's price list does not have them.")
    ] = None
    limits: Annotated[ModelLimitSettings | None, Field("Limits of its use; none unless set.")] = None
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
            yield ItemProblem("limits", "has `cost_per_day`, which needs `prices`: unknown costs cannot be limited")


class AgentSettings(Struct, frozen=True, kw_only=True):
    """An agent that `agent_delegate` nodes call."""

    type: Annotated[
        Literal["a2a", "task_api", "mcp"],
        Field("`a2a` (the standard), `task_api` (`POST /tasks`, then polling), or `mcp` (a tool of an MCP server)."),
    ] = "a2a"
    url: Annotated[str | None, Field("Its address: the base of its card or its task API.", format=URL)] = None
    api_key: Annotated[_References | None, Field("Its API key.")] = None
    headers: Annotated[
        Mapping[str, str | _References], Field("Headers of every request; `${secret:NAME}` stands for a secret.")
    ] = {}
    trusted_origins: Annotated[
        tuple[str, ...], Field("Other origins that may receive the key if its card refers to them.", format=URL)
    ] = ()
    poll_interval: Annotated[
        timedelta | None, Field("How often to poll an agent that cannot stream.", minimum=0.01)
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
