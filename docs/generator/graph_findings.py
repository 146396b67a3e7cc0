"""The page about what checks of graph files report: every code of a schema, a query and a change of a schema."""

from collections.abc import Iterator
from typing import Final

from docs.generator.markdown import code, page, table

__all__ = ["GRAPH_FINDINGS", "SCHEMA_STEPS", "graph_findings_page"]

# Steps from one schema to another: their codes, what happens, and what that means for the data.
SCHEMA_STEPS: Final = {
    "OG-DS-101 OG-DS-102": (
        "a type or property is dropped",
        "its values disappear; softly, unless loss of data is allowed: older commits keep them",
    ),
    "OG-MF-101": ("`@unique` is added", "fails if two entities agree"),
    "OG-MF-102": ("`@range` or `@check` is added", "fails if a value does not fit"),
    "OG-MF-103": ("a required property is added", "fails unless the type has no entities"),
    "OG-MF-104": ("a narrower `@card`", "fails if a node has too many or too few edges"),
    "OG-MF-105": ("another key", "not possible: identifiers would change"),
    "OG-MF-106": ("another type, or fewer values of an enum", "not possible: add another property"),
    "OG-MF-107": ("an optional property becomes required", "not possible"),
    "OG-MF-108": ("other ends of an edge type", "not possible: declare another one"),
}
# What the checks of schemas and queries report: codes that belong together, and their meaning.
GRAPH_FINDINGS: Final = {
    "SYNTAX": "the text does not follow the grammar here",
    "TEXT_TOO_LARGE TOO_MANY TOO_DEEP": "a text, a number of things or nesting is beyond its [limit](limits.md)",
    "UNSUPPORTED_STATEMENT": "`set`, `reset`, `show`, `explain` or `branch`: other versions of the language have them",
    "DUPLICATE_QUERY DUPLICATE_PARAMETER": "two queries of a file, or two parameters, have one name",
    "DUPLICATE_TYPE DUPLICATE_PROPERTY": "two types, or two properties of a type, have one name, whatever its case",
    "UNKNOWN_TYPE UNKNOWN_PROPERTY": "a declaration names something that does not exist",
    "RESERVED_NAME": "no property may have this name",
    "INTERFACE_CONFLICT": "a property is declared otherwise in an interface",
    "KEY_COUNT KEY_TYPE": "two keys; a property that cannot be part of a key",
    "CONSTRAINT_PLACE CONSTRAINT_TYPE": "a constraint where it cannot stand, or on a type that cannot have it",
    "RANGE_BOUNDS CARDINALITY CHECK_PATTERN": "bounds that allow nothing; an invalid regular expression",
    "LIST_TYPE ENUM_VALUES VECTOR_DIMENSION EMBED_TYPE RENAME_FROM": "a type or annotation that is not allowed",
    "ANNOTATION_NAME": "a warning: an unknown annotation that looks like a known one",
    "T1 T2 T4": "unknown node type, property, edge type",
    "T3": "a literal does not fit its property",
    "T5": "a traversal does not fit the types of its nodes",
    "T6": "a variable that is not bound",
    "T7": "values that cannot be compared or assigned",
    "T8": "the argument of an aggregate does not fit",
    "T9": "a column that cannot be grouped by, or a `not` block without variables from outside",
    "T11": "a property that cannot be used here: a key in an update, `@type` in a mutation",
    "T12": "an insert without a value that is needed",
    "T13": "something is set or named twice",
    "T14": "a variable of a mutation that is no parameter",
    "T15": "numbers of steps; operands of `nearest`",
    "T16": "an update of edges",
    "T17 T21": "an order by `nearest` or `rrf` without a limit",
    "T19 T20": "operands of `search` and `fuzzy`; of `match_text` and `bm25`",
    "T22 T23": "an edge without direction between two node types; a variable of an edge where it cannot stand",
    "T24": "a Blob, which queries cannot read",
    "T25": "two columns with one name",
    "T32 T33 T35 T36 T37 T38": "rankings, searches and aliases where they cannot stand",
    "T39": "a block without variables from outside",
    "T40": "what a block adds up or is compared with",
    "T41": "an expression that is not a condition",
    "T42 T44 T45": "an order by something that is no column; blocks and values that mutations do not have",
    "T47 T49 T50": "reserved names; a variable with two meanings",
    "COLUMN_NAME": "a column without a name",
    "LIMIT": "a limit out of range",
    "ORDER_TYPE RANK_DIRECTION": "an order that does not exist",
    "MIXED_MUTATION TOOL_NAME": "deletes beside inserts; a name that no tool can have",
    "UNUSED_PARAMETER": "a warning: a parameter without effect",
    "UNCONNECTED": "a warning: nodes without connection",
    "VECTOR_EXPOSED": "a warning: a vector that a model would have to write",
}


def graph_findings_page() -> str:
    """Every code of the graph languages."""
    return page("Findings of graphs", "`docs/generator/graph_findings.py`", _parts())


def _parts() -> Iterator[str]:
    yield (
        "`penstock graph schema check`, `penstock graph query validate` and the server report these codes for graph "
        "files, all mistakes at once, each with its place. [Write a graph schema](../guides/graph-schema.md) and "
        "[write graph queries](../guides/graph-language.md) explain the languages."
    )
    yield "## Schemas and queries"
    yield table(["Code", "Meaning"], [[_codes(names), meaning] for names, meaning in GRAPH_FINDINGS.items()])
    yield "## Steps of a schema change"
    yield (
        "A plan of steps leads from one schema to another. A step has a code if it loses data or may fail on the "
        "existing data."
    )
    yield table(
        ["Code", "Step", "Meaning"],
        [[_codes(names), step, meaning] for names, (step, meaning) in SCHEMA_STEPS.items()],
    )
    yield (
        "Codes that start with `T` are those of other implementations of the languages, and so are `OG-MF-103` and "
        "`OG-MF-106`; the other `OG-` codes are ours."
    )


def _codes(names: str) -> str:
    return ", ".join(map(code, names.split()))
