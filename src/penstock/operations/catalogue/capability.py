"""A capability: anything that can be called, described once for every surface.

It has a name, texts for people and models, schemas, annotations, governance, its REST route, and the handler. REST
routes, MCP tools, commands and policies are derived from these; none of them adds logic of its own. The canonical name
is dotted (`workflow.execute`) and is the operationId, the command (`penstock workflow execute`), the policy action and
the audit verb; MCP puts the configured prefix in front of it.

Above it: `catalogue`, `pipeline`, the modules with operations. Below it: nothing but data types.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

from penstock.base.json import JsonObject, JsonValue

__all__ = [
    "Annotations",
    "Authorization",
    "Bucket",
    "Capability",
    "EventStream",
    "Example",
    "Governance",
    "Handler",
    "Reply",
    "Route",
    "StreamEvent",
]

T = TypeVar("T")
Bucket: TypeAlias = Literal["read", "write", "admin"]
Risk: TypeAlias = Literal["low", "medium", "high", "critical"]


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
    bucket: Bucket = "read"


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """The REST route of a capability, below the base path.

    Names in the path are members of the input; `query` and `headers` list the others that are not in the body.
    `whole_body` names the one member that *is* the body.
    """

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    query: tuple[str, ...] = ()
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    whole_body: str | None = None
    status: int = 200
    other_statuses: tuple[int, ...] = ()
    etag: bool = False
    """Whether its answers have an ETag."""


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


Handler: TypeAlias = Callable[[Any, Any], Awaitable[Any]]


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
    def only_reads(self) -> bool:
        """Whether a call stores nothing.

        An exposed workflow that calls itself read-only means the outside world: starting it still stores a run.
        """
        return self.populator == "builtin" and self.annotations.read_only

    @property
    def resource(self) -> str:
        """The first part of the name: the kind of resource it is about."""
        return self.name.partition(".")[0]
