"""The table of node types: its rules fit what the model keeps of the nodes, and a phase means one thing."""

from __future__ import annotations

from penstock.definitions.model import NodeType
from penstock.engine.transitions import Phase
from penstock.engine.walk.nodes.table import rules_of
from penstock.engine.walk.rules import RULES
from tests.golden.history import golden_files, read

# Where node types do something of their own in a phase that others are in too.
SHARED_PHASES = {Phase.COMPLETED, Phase.FORKED, Phase.RETRYING, Phase.TIMED_OUT}


def test_every_node_type_has_the_rules_that_the_table_says() -> None:
    assert {node_type: rules_of(node_type) for node_type in NodeType} == RULES


def test_rules_are_for_what_the_model_keeps_of_their_nodes() -> None:
    nodes = [node for path in golden_files() for node in read(path).workflow().nodes.values()]
    assert {node.type for node in nodes} == set(NodeType)
    assert [node.id for node in nodes if not isinstance(node.detail, RULES[node.type].detail)] == []


def test_a_phase_belongs_to_one_module_unless_it_is_known_to_be_shared() -> None:
    owners: dict[Phase, set[str]] = {}
    for rules in RULES.values():
        for phase, move in rules.moves.items():
            owners.setdefault(phase, set()).add(move.__module__)
    assert {phase for phase, modules in owners.items() if len(modules) > 1} == SHARED_PHASES
