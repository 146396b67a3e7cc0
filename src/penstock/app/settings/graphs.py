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
    "Its stored queries: files and folders (every declaration in every `.gq` file is one), or an object that gives "
    "each name its file and how it is offered."
)
_BROKEN = (
    "What a schema, query or policy with mistakes does at the start: `refuse` stops the server, `quarantine` starts it "
    "without this graph. Later, a change with mistakes is not used."
)
_TOOLS_MAX = "Above so many exposed queries, `queries_list` and `query_run` are offered in place of one tool for each."
_PROTECTED = "Branches that change only after somebody has approved it; the owner of the file is not asked."
_POLICY = (
    "Files and folders with policies (`.cedar`) that hold for this graph only, beside those of `policy.files`. If "
    "there are none of those, scopes go on to decide about everything else."
)
_ADHOC = "Whether callers may send queries and mutations of their own, beside the stored ones."


class QueryToolSettings(Struct, frozen=True, kw_only=True):
    """How a stored query is offered over MCP."""

    expose: Annotated[bool, Field("Whether it is in lists of tools; it can be called by name in any case.")] = True
    tool_name: Annotated[str | None, Field("Its name as a tool, if not its own.", format=QUERY_NAME)] = None


class QueryFileSettings(Struct, frozen=True, kw_only=True):
    """Where a stored query is declared."""

    file: Annotated[str, Field("The file with its declaration.", format=PATH)]
    mcp: Annotated[QueryToolSettings | None, Field("How it is offered over MCP; as a tool unless set.")] = None


class _GraphChoices(Struct, frozen=True, kw_only=True):
    """What can be said of every graph."""

    queries: Annotated[tuple[str, ...] | Mapping[str, QueryFileSettings], Field(_QUERIES, format=PATH)] = ()
    title: Annotated[str | None, Field("What people call it; its name unless set.")] = None
    description: Annotated[str | None, Field("What is in it, for people and models.")] = None
    allow_adhoc: Annotated[bool, Field(_ADHOC)] = False
    protected_branches: Annotated[tuple[str, ...], Field(_PROTECTED, format=BRANCH)] = ()
    tools_max: Annotated[int, Field(_TOOLS_MAX, minimum=0)] = limits.QUERY_TOOLS_MAX
    policy: Annotated[tuple[str, ...], Field(_POLICY, format=PATH)] = ()
    on_broken: Annotated[Literal["refuse", "quarantine"], Field(_BROKEN)] = "refuse"


class GraphSettings(_GraphChoices, frozen=True, kw_only=True):
    """A graph under the name that callers use for it."""

    schema: Annotated[str, Field("The file with its schema (`.pg`).", format=PATH)]
    tenant: Annotated[str, Field("The tenant that has it.", format=TENANT)] = "default"

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
    """The only graph of a server, which is called `default`. A server with several has them under `graphs`."""

    schema: Annotated[str | None, Field("The file with its schema (`.pg`); no graph unless set.", format=PATH)] = None

    def named(self) -> GraphSettings | None:
        """Return it as a graph with a name; None if there is none."""
        if self.schema is None:
            return None
        return GraphSettings(
            schema=self.schema, **{name: getattr(self, name) for name in _GraphChoices.__struct_fields__}
        )
