"""A capability: anything that can be called, described once for every surface.

It has a name, texts for people and models, schemas, annotations, governance, its REST route, and the handler. REST
routes, MCP tools, commands and policies are derived from these; none of them adds logic of its own. The canonical name
is dotted (`workflow.execute`) and is the operationId, the command (`penstock workflow start`), the policy action and
the audit verb; MCP puts the configured prefix in front of it.

Above it: `catalogue`, `pipeline`, the modules with operations. Below it: nothing but data types.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.governance.approvals import value_digest
from penstock.governance.holds import Approval
from penstock.governance.policy.schema import RESERVED_TYPES, ActionShape
from penstock.governance.policy.shapes import record_of
from penstock.operations.catalogue.reaching import Reaches

__all__ = [
    "BOUND",
    "QUERY",
    "REGISTERED_TOOL",
    "Annotations",
    "Authorization",
    "Bucket",
    "Capability",
    "DefinitionKind",
    "EventStream",
    "Example",
    "Governance",
    "Handler",
    "Reply",
    "Revealed",
    "Route",
    "StreamEvent",
]

T = TypeVar("T")
QUERY = "query"
"""The populator of stored queries."""
BOUND = "bound"
"""The populator of operations that are offered for one graph, without the argument that names it."""
REGISTERED_TOOL = "tool"
"""The populator of tools that tenants register."""
Bucket: TypeAlias = Literal["read", "write", "admin"]
Risk: TypeAlias = Literal["low", "medium", "high", "critical"]
DefinitionKind: TypeAlias = Literal[
    "workflow", "sent_workflow", "schedule", "tool", "model", "agent", "schema", "query", "webhook", "policy"
]
"""What takes effect after the call that stores it, without the caller who stored it."""


class Annotations(msgspec.Struct, frozen=True, kw_only=True):
    """What a call does to the world, in MCP's terms."""

    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False


class Governance(msgspec.Struct, frozen=True, kw_only=True):
    """What a call needs. `scopes` must all be granted; `bucket` names the rate limit that it counts against."""

    risk: Risk = "low"
    scopes: tuple[str, ...] = ()
    confirm: bool = False
    draft: Literal["never", "always", "on_risk"] = "never"
    approval: Approval | None = None
    """Who approves a held call; None: the approvers that the operator chose."""
    holdable: bool = True
    """Whether a call may be held. Those with which calls that wait are looked at and decided are not."""
    bucket: Bucket = "read"
    authors: tuple[str, ...] = ()
    """The names of the agents that wrote the called workflow or a part of it, and of the people behind them."""
    stores: DefinitionKind | None = None
    """The kind of definition that a call stores, which runs, sends or decides something later; None: no such thing."""

    @property
    def by_agent(self) -> bool:
        """Whether an agent wrote what is called, or a part of it: a call of it is decided as the call of an agent."""
        return bool(self.authors)


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """The REST route of a capability, below the base path.

    Names in the path are members of the input; `query` and `headers` list the others that are not in the body.
    `whole_body` names the one member that *is* the body. `other_names` are further spellings of members in the body,
    and what they stand for.
    """

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    query: tuple[str, ...] = ()
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    whole_body: str | None = None
    other_names: dict[str, str] = msgspec.field(default_factory=dict)
    status: int = 200
    other_statuses: tuple[int, ...] = ()
    etag: bool = False
    """Whether its answers have an ETag."""
    streams: bool = False
    """Whether a caller can have the events of the run that it starts, instead of one answer."""


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """A call that works, for the documentation: its arguments and its output."""

    arguments: JsonObject
    output: JsonValue = None


class Authorization(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy decides about: the action, and the resource that it affects."""

    action: str
    resource_kind: str
    resource_id: str | None = None
    attributes: JsonObject = msgspec.field(default_factory=dict)


class Reply(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A handler's result when a plain value is not enough.

    If the value contains a secret, `kept` is stored for repeated calls instead, and the capability's `repeat` makes the
    value from it again.
    """

    value: T
    kept: JsonObject | None = None
    status: int | None = None
    etag: str | None = None
    location: str | None = None


class StreamEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a stream. Without an `id` it is not repeated after a reconnect; a heartbeat has no type."""

    event: str | None
    data: JsonValue = None
    id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventStream:
    """An answer that arrives as a sequence of events. The surface that renders it must close it."""

    events: AsyncIterator[StreamEvent]
    retry_ms: int
    execution_id: str | None = None
    """The run that the events are of, if the call does not name it."""


Handler: TypeAlias = Callable[[Any, Any], Awaitable[Any]]
Revealed: TypeAlias = Literal["run", "runs"] | None
"""Contents of the run that a call is about, of any runs of the tenant, or none."""
# The kinds of resources whose names as entities of policies are not just capitalized: principals have those types.
_RESOURCE_TYPES = {"execution": "Run"}


@dataclass(frozen=True, kw_only=True)
class Capability:
    """Something that can be called. `errors` are its own codes, beside those that any call may be refused with.

    Schemas are built on first use, so that a starting process does not build hundreds that nobody reads.
    """

    name: str
    title: str
    description: str
    make_input_schema: Callable[[], JsonObject]
    make_output_schema: Callable[[], JsonObject | None]
    annotations: Annotations
    governance: Governance
    handler: Handler
    convert: Callable[[JsonObject], Any]
    """Converts arguments to the handler's input; raises Rejected with every violation of the schema."""
    authorization: Callable[[JsonObject], Authorization]
    route: Route | None = None
    errors: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()
    repeat: Callable[[Any, JsonObject], JsonValue] | None = None
    """Makes the answer for a repeated call from the services and `Reply.kept`.

    Without it, the stored answer is used.
    """
    follow: Callable[[Any, Any, JsonObject], Awaitable[JsonValue]] | None = None
    """Makes the final answer for a repeated call from the services, the request and an answer that was provisional."""
    policy_input: Callable[[JsonObject], JsonObject] | None = None
    """Makes what policies see from the arguments, if those are not it already: a prompt's arguments are all texts."""
    witness: Callable[[Any, Any], Awaitable[JsonValue]] | None = None
    """Returns the state that a call would change, from its context and input. An approval holds for that state only."""
    impact: Callable[[Any, Any], Awaitable[JsonObject]] | None = None
    """Returns what a call would do, from its context and input, for people who look before it is made."""
    find: Callable[[Any, Any], Awaitable[object]] | None = None
    """Finds what a call is about, from its context and input; raises what the handler would raise if there is no such
    thing, or the caller may not know of it. It changes nothing. A call that would wait is refused by it instead.
    """
    reaches: Reaches | None = None
    """Returns what a call with some arguments can reach, by name: workflows, tools, models. An approval holds for these
    as they are; see `operations.reachable`."""
    secrets: Callable[[Any, JsonObject], Awaitable[dict[str, JsonValue]]] | None = None
    """Returns secret parts of the arguments, from the context and the arguments, that `input_schema` does not mark."""
    reveals: Callable[[JsonObject], Revealed] | None = None
    """Says for arguments whether the answer has contents of runs in places that no policy can name."""
    approvals: Callable[[Any, Any], Awaitable[tuple[Approval, ...]]] | None = None
    """Returns whose approval a call needs because of what it changes, from its context and input.

    Such a call waits under every preset, as one that a policy wants approved.
    """
    policy_groups: tuple[str, ...] = ()
    """Further groups of actions that policies know it by."""
    stands_for: Callable[[JsonObject], tuple[str, JsonObject, PenstockError] | None] | None = None
    """Returns the name and arguments of the call that is made in its place, and the error if there is nothing to call.

    None if the arguments do not name one. The gate decides about that call, once the caller has the scopes of this one.
    """
    populator: str = "builtin"
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)

    @cached_property
    def input_schema(self) -> JsonObject:
        """The schema of the arguments."""
        return self.make_input_schema()

    @cached_property
    def output_schema(self) -> JsonObject | None:
        """The schema of the answer; None for a stream."""
        return self.make_output_schema()

    @cached_property
    def schema_version(self) -> str:
        """A digest that changes with what the capability accepts, and with the version of what it starts."""
        return value_digest([self.name, self.input_schema, self.metadata.get("hash")])

    @cached_property
    def only_reads(self) -> bool:
        """Whether a call stores nothing.

        An exposed workflow that calls itself read-only means the outside world: starting it still stores a run.
        """
        return (self.is_builtin or self.populator == QUERY) and self.annotations.read_only

    @property
    def is_builtin(self) -> bool:
        """Whether it is a built-in operation, or one that is bound to a graph."""
        return self.populator in ("builtin", BOUND)

    @cached_property
    def policy_action(self) -> ActionShape:
        """The action that policies know it by. Everything that starts a workflow is one action of that workflow."""
        kind = self.authorization({}).resource_kind
        named = _RESOURCE_TYPES.get(kind, "".join(part.capitalize() for part in kind.split("_")))
        if named in RESERVED_TYPES:
            named = f"{named}Entry"
        workflow = self.metadata.get("workflow")
        own = f"workflow:{workflow}" if self.populator == "workflow" and isinstance(workflow, str) else self.name
        does: Bucket = "read" if self.annotations.read_only else "write"
        own_groups: tuple[str, ...] = (self.governance.bucket,) if self.is_builtin else ("call", does)
        return ActionShape(
            name=own,
            groups=(*own_groups, *self.policy_groups),
            resource_type=named,
            input=record_of(self.input_schema),
            # What is hidden of a run is decided by its workflow.
            answer=lambda: None if self.is_of_tenant else self.output_schema,
        )

    @property
    def is_of_tenant(self) -> bool:
        """Whether a tenant defined it: what nobody else may know to exist."""
        return not self.is_builtin and self.populator != "demo"

    @property
    def resource(self) -> str:
        """The first part of the name: the kind of resource it is about."""
        return self.name.partition(".")[0]
