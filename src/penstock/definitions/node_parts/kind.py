"""The declaration of a node type: everything that the document side knows of it, as one value.

Above it: each module of `nodes` makes one `NodeKind`, and everything that walks a document (schemas, outline, checks,
compilation, comparison, drawing, documentation) reads these declarations instead of asking for the type. Below it: the
other modules of this package. What a node does at run time is the engine's part.
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
    """What kind of thing a node is in a drawing; each has one look. MISSING is for targets that do not exist."""

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
    """Whether a visit of a node needs anybody but the engine."""

    AT_ONCE = "at_once"  # decided by the engine alone; nodes with bodies too, whose bodies may wait
    SENDS = "sends"  # hands something to the outside and goes on
    WAITS = "waits"  # waits for work, for time or for somebody


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedConfig:
    """The `config` block of a node type in the published format, and the objects inside of it."""

    shape: Shape
    required: bool = True
    parts: tuple[Shape, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BodySource:
    """A body as a node writes it: a list of nodes inside of it, or the id of its first node, which stands outside."""

    name: str
    path: str
    nodes: JsonValue = None
    entry: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bodies:
    """The bodies of a node type.

    `word` is what one of them is called. `item_name` is the field that names the current item, with its default;
    `names` are further names that expressions inside can read. Where `once_each` is False there are many outputs of
    every node inside, so that they cannot be read from outside by the node's name.
    """

    read: Callable[[OutlineNode], Iterator[BodySource]]
    word: str = "branch"
    item_name: tuple[str, str] | None = None
    names: tuple[str, ...] = ()
    once_each: bool = True
    check: Callable[[OutlineNode], Iterator[Finding]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What makes a node type an activity: the fields that are rendered for whoever does the work.

    Only these may refer to secrets. With `single` the value of the first one that is there is the arguments; otherwise
    they are an object of them all. `implied_by` is the field by which a compensation without a type is recognised.
    """

    arguments: tuple[str, ...]
    single: bool = False
    implied_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """How a node type ends the run: the code of the finding when it stands in a body, and what it would do there."""

    code: str
    does: str
    restarts: bool = False  # the next run of the chain begins at the beginning


class Resource(StrEnum):
    """What a node can name that stands outside of its document."""

    WORKFLOW = "workflow"
    STEP = "step"
    SERVER = "server"
    AGENT = "agent"
    MODEL = "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One thing outside of the document that a node needs, and the field that names it."""

    resource: Resource
    name: JsonValue
    field: str
    version_pin: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSource:
    """A node to be compiled. `compensate` is compiled already: it may be an activity of another type."""

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

    What most types have in common is the default, so that a declaration says what is special:
    `gives` completes the sentence "`.id` is …" in the reference; `parts` are objects that only occur inside of it;
    `other_words` are what other tools call it; `routes` replaces `next` and edges for a type that names its successors
    itself; `answer_fields` hold the schema of what a person answers; `output` reads the schema of what it gives.
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

    # How a run passes it
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
        """Whether nothing comes after it: it ends the run, or fails."""
        return not self.has_successor and self.routes is None

    @property
    def is_instant(self) -> bool:
        """Whether a visit takes no time: nothing is waited for, and there is nothing inside."""
        return self.pace is not Pace.WAITS and self.bodies is None
