"""The declaration of a node type: everything that the document side knows about it, as one value.

Above it: each module of `nodes` makes one `NodeKind`. Everything that walks a document (schemas, outline, checks,
compilation, comparison, drawing, documentation) reads these declarations instead of branching on the type. Below it:
the other modules of this package. The engine decides what a node does at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.model import Compensation, NodeDetail, NodeType
from penstock.definitions.node_parts.changes import Comparison
from penstock.definitions.node_parts.jq_places import JqReader
from penstock.definitions.node_parts.outline import Outline, OutlineNode, Route
from penstock.definitions.shapes.fields import Shape
from penstock.definitions.source.findings import Finding

__all__ = [
    "Activity",
    "Bodies",
    "BodySource",
    "Category",
    "NodeKind",
    "NodeSource",
    "Pace",
    "PublishedConfig",
    "Reference",
    "Resource",
    "RunEnd",
]


class Category(StrEnum):
    """How a node appears in a drawing; each category has one look. MISSING is for targets that do not exist."""

    TERMINAL = "terminal"
    FAILURE = "failure"
    WORK = "work"
    MODEL = "model"
    DECISION = "decision"
    PERSON = "person"
    TIME = "time"
    DATA = "data"
    GROUP = "group"
    MISSING = "missing"


class Pace(StrEnum):
    """Whether a visit to a node needs anything outside the engine."""

    AT_ONCE = "at_once"  # decided by the engine alone; includes nodes with bodies, whose bodies may wait
    SENDS = "sends"  # sends something out and continues
    WAITS = "waits"  # waits for work, for time or for a person


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedConfig:
    """The `config` block of a node type in the published format, and the objects inside it."""

    shape: Shape
    required: bool = True
    parts: tuple[Shape, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BodySource:
    """A body as a node writes it: a list of nodes inside the node, or the id of a first node outside it."""

    name: str
    path: str
    nodes: JsonValue = None
    entry: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bodies:
    """The bodies of a node type.

    `word` is the noun for one body. `item_name` is the field that names the current item, with its default. `names` are
    further names that expressions inside can read. If `once_each` is False, every node inside has many outputs, so
    expressions outside cannot read them by the node's name.
    """

    read: Callable[[OutlineNode], Iterator[BodySource]]
    word: str = "branch"
    item_name: tuple[str, str] | None = None
    names: tuple[str, ...] = ()
    once_each: bool = True
    check: Callable[[OutlineNode], Iterator[Finding]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What makes a node type an activity: the fields that are rendered for its executor.

    Only these fields may refer to secrets. With `single`, the arguments are the value of the first field that is
    present; otherwise they are an object of all of them. `implied_by` is the field that identifies a compensation
    without a type.
    """

    arguments: tuple[str, ...]
    single: bool = False
    implied_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """How a node type ends the run: the code of the finding when it is inside a body, and what it would do there."""

    code: str
    does: str
    restarts: bool = False  # the next run of the chain starts from the beginning


class Resource(StrEnum):
    """The kinds of thing outside its document that a node can name."""

    WORKFLOW = "workflow"
    STEP = "step"
    SERVER = "server"
    AGENT = "agent"
    MODEL = "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One thing outside the document that a node needs, and the field that names it."""

    resource: Resource
    name: JsonValue
    field: str
    version_pin: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSource:
    """A node to compile. `compensate` is already compiled, because it may be an activity of another type."""

    node: OutlineNode
    native: bool
    compensate: Compensation | None = None

    @property
    def fields(self) -> JsonObject:
        """The fields of the node."""
        return self.node.fields


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKind:
    """A node type.

    The defaults describe what most types have in common, so that a declaration shows what is special. `gives` completes
    the sentence "`.id` is …" in the reference. `parts` are objects that occur only inside this type. `other_words` are
    the names that other tools use for it. `routes` replaces `next` and edges for a type that names its successors
    itself. `answer_fields` hold the schema of a person's answer. `output` reads the schema of the node's output.
    """

    type: NodeType
    shape: Shape
    gives: str
    build: Callable[[NodeSource], NodeDetail]
    category: Category
    published: PublishedConfig | None = None
    parts: tuple[Shape, ...] = ()
    other_words: tuple[str, ...] = ()
    caption: Callable[[JsonObject], str] | None = None

    # How a run passes through it
    pace: Pace = Pace.AT_ONCE
    begins_run: bool = False
    has_successor: bool = True
    routes: Callable[[JsonObject, str], Iterator[Route]] | None = None
    bodies: Bodies | None = None
    run_end: RunEnd | None = None
    activity: Activity | None = None

    # Data
    jq: tuple[JqReader, ...] = ()
    published_jq: tuple[JqReader, ...] = ()
    answer_fields: tuple[str, ...] = ()
    output: Callable[[JsonObject], JsonValue] = lambda fields: fields.get("output_schema")
    references: Callable[[JsonObject], Iterator[Reference]] | None = None

    # What can be wrong with it beyond its shape, and what a change of it means
    check: Callable[[OutlineNode], Iterator[Finding]] | None = None
    check_all: Callable[[Outline], Iterator[Finding]] | None = None
    comparison: Comparison = field(default_factory=Comparison)

    @property
    def name(self) -> str:
        """The word that a document writes as `type`."""
        return str(self.type)

    @property
    def is_final(self) -> bool:
        """Whether nothing can follow it, because it ends the run or fails."""
        return not self.has_successor and self.routes is None

    @property
    def is_instant(self) -> bool:
        """Whether a visit takes no time: the node waits for nothing and has no bodies."""
        return self.pace is not Pace.WAITS and self.bodies is None
