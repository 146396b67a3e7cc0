"""Settings of graphs: their schema, their stored queries, and how both are offered.

Above it: `model`, which has them under `graphs` (by name) and `graph` (the only one). Below it: `composite_types`.
`app.files.graphs` reads the files that they name.
"""

# No `from __future__ import annotations`: the annotations are the declarations, and are read at run time.
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from msgspec import Struct

from penstock.app.settings.composite_types import Field
from penstock.app.settings.formats import BRANCH, PATH, QUERY_NAME, TENANT
from penstock.app.settings.upstream_auth import ItemProblem
from penstock.base import limits

__all__ = ["ONLY_GRAPH", "GraphSettings", "OnlyGraphSettings", "QueryFileSettings", "QueryToolSettings"]

ONLY_GRAPH = "default"
"""The id of the graph that the block `graph` declares."""
_QUERIES = (
    "Its stored queries: files and folders (every declaration in a `.gq` file is a query), or an object with a file "
    "and MCP options for each name."
)
_BROKEN = (
    "What happens at the start if a schema, query or policy has mistakes: `refuse` stops the server, `quarantine` "
    "starts it without this graph. Later changes with mistakes are not applied."
)
_TOOLS_MAX = (
    "With more exposed queries than this, MCP offers `queries_list` and `query_run` instead of one tool for each query."
)
_PROTECTED = "Branches whose changes need approval, except those by the owner of the file."
_POLICY = (
    "Files and folders with policies (`.cedar`) for this graph only, in addition to `policy.files`. Without "
    "`policy.files`, scopes still decide about everything else."
)
_ADHOC = "Whether callers may send their own queries and mutations, in addition to the stored ones."


class QueryToolSettings(Struct, frozen=True, kw_only=True):
    """How a stored query is offered over MCP."""

    expose: Annotated[bool, Field("Whether tool lists include it; it can always be called by name.")] = True
    tool_name: Annotated[str | None, Field("Its name as a tool; its own name unless set.", format=QUERY_NAME)] = None


class QueryFileSettings(Struct, frozen=True, kw_only=True):
    """Where a stored query is declared."""

    file: Annotated[str, Field("The file with its declaration.", format=PATH)]
    mcp: Annotated[QueryToolSettings | None, Field("How it is offered over MCP; as a tool unless set.")] = None


class _GraphChoices(Struct, frozen=True, kw_only=True):
    """What can be said of every graph."""

    queries: Annotated[tuple[str, ...] | Mapping[str, QueryFileSettings], Field(_QUERIES, format=PATH)] = ()
    title: Annotated[str | None, Field("Its display name; its name unless set.")] = None
    description: Annotated[str | None, Field("Its content, described for people and models.")] = None
    allow_adhoc: Annotated[bool, Field(_ADHOC)] = False
    protected_branches: Annotated[tuple[str, ...], Field(_PROTECTED, format=BRANCH)] = ()
    tools_max: Annotated[int, Field(_TOOLS_MAX, minimum=0)] = limits.QUERY_TOOLS_MAX
    policy: Annotated[tuple[str, ...], Field(_POLICY, format=PATH)] = ()
    on_broken: Annotated[Literal["refuse", "quarantine"], Field(_BROKEN)] = "refuse"


class GraphSettings(_GraphChoices, frozen=True, kw_only=True):
    """A graph under the name that callers use for it."""

    schema: Annotated[str, Field("The file with its schema (`.pg`).", format=PATH)]
    tenant: Annotated[str, Field("The tenant that owns it.", format=TENANT)] = "default"

    def problems(self) -> Iterator[ItemProblem]:
        """Check that no two queries want the same name as tools."""
        named = self.queries if isinstance(self.queries, Mapping) else {}
        taken: dict[str, str] = {}
        for name, query in named.items():
            called = query.mcp.tool_name if query.mcp is not None and query.mcp.tool_name else name
            known = taken.setdefault(called, name)
            if known != name:
                yield ItemProblem("queries", f"gives `{known}` and `{name}` the same name as tools: `{called}`")


class OnlyGraphSettings(_GraphChoices, frozen=True, kw_only=True):
    """The only graph of a server, named `default`. Declare several graphs under `graphs`."""

    schema: Annotated[str | None, Field("The file with its schema (`.pg`); no graph unless set.", format=PATH)] = None

    def named(self) -> GraphSettings | None:
        """Return it as a graph with a name; None without a schema."""
        if self.schema is None:
            return None
        return GraphSettings(
            schema=self.schema, **{name: getattr(self, name) for name in _GraphChoices.__struct_fields__}
        )
