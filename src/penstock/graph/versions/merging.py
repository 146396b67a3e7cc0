"""Three-way merges: the result for each entity that changed on either side since the common ancestor.

| Source | Target | Result |
| --- | --- | --- |
| changed | as before | the change of the source |
| as before | changed | stays as in the target |
| changed | changed in the same way | stays as in the target |
| inserted | inserted differently | `divergent_insert` |
| updated | updated differently | `divergent_update` |
| deleted | updated, or the other way round | `delete_vs_update` |
| edge, new or changed | deleted its end, or the other way round | `orphan_edge` |

What else a merge may break (uniqueness, cardinality) only a store can see.

Above it: merges in the stores. Below it: `entities`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from penstock.graph.typing.patterns import EntityKind
from penstock.graph.versions.entities import ConflictKind, MergeConflict

__all__ = ["Changed", "Changes", "EntityKey", "merge_changes"]

EntityKey: TypeAlias = tuple[EntityKind, str, str]
"""Kind, type and identifier."""


@dataclass(frozen=True, slots=True)
class Changed:
    """An entity that differs from the common ancestor. Contents are anything that can be compared; None is absence."""

    before: Any
    after: Any
    ends: tuple[tuple[str, str], ...] = ()
    """The type and identifier of the nodes at both ends of an edge, as it is after."""


Changes: TypeAlias = Mapping[EntityKey, Changed]


def merge_changes(source: Changes, target: Changes) -> tuple[dict[EntityKey, Changed], list[MergeConflict]]:
    """What has to be changed in the target, and the conflicts; either may be empty."""
    wanted: dict[EntityKey, Changed] = {}
    conflicts: list[MergeConflict] = []
    for key, change in source.items():
        other = target.get(key)
        if other is None:
            wanted[key] = change
        elif other.after != change.after:
            conflicts.append(_conflict(key, _disagreement(change, other)))
    conflicts += _orphans(wanted, target)
    conflicts += _orphans(target, wanted)
    return wanted, conflicts


def _disagreement(source: Changed, target: Changed) -> ConflictKind:
    if source.before is None:
        return ConflictKind.DIVERGENT_INSERT
    if source.after is None or target.after is None:
        return ConflictKind.DELETE_VS_UPDATE
    return ConflictKind.DIVERGENT_UPDATE


def _orphans(edges: Changes, nodes: Changes) -> Iterator[MergeConflict]:
    """Edges of one side whose end the other side deleted."""
    for key, change in edges.items():
        if key[0] is not EntityKind.EDGE or change.after is None:
            continue
        for type_name, node_id in change.ends:
            node = nodes.get((EntityKind.NODE, type_name, node_id))
            if node is not None and node.after is None:
                yield _conflict(key, ConflictKind.ORPHAN_EDGE, f"{type_name} {node_id}")
                break


_MESSAGES = {
    ConflictKind.DIVERGENT_INSERT: "both branches inserted {it}, with different contents",
    ConflictKind.DIVERGENT_UPDATE: "both branches changed {it}, in different ways",
    ConflictKind.DELETE_VS_UPDATE: "one branch deleted {it}, and the other changed it",
    ConflictKind.ORPHAN_EDGE: "one branch has {it} at {end}, which the other branch deleted",
}


def _conflict(key: EntityKey, kind: ConflictKind, end: str = "") -> MergeConflict:
    entity_kind, type_name, entity_id = key
    return MergeConflict(
        kind=kind,
        entity_kind=entity_kind,
        type_name=type_name,
        entity_id=entity_id,
        message=_MESSAGES[kind].format(it=f"{type_name} {entity_id}", end=end),
    )
