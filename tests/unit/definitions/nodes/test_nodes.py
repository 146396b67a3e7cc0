"""The declarations of the node types are complete and agree with the model and with each other."""

import pkgutil

import pytest

from penstock.definitions import nodes
from penstock.definitions.editor_schema import node_shape
from penstock.definitions.model import ACTIVITY_TYPES, PUBLISHED_TYPES, NodeType
from penstock.definitions.node_parts.kind import NodeKind, Pace
from penstock.definitions.nodes import ACTIVITY_KINDS, NODE_KINDS, implied_activity, kind_named

EVERY_KIND = pytest.mark.parametrize("kind", NODE_KINDS.values(), ids=lambda kind: kind.name)


def field_names(kind: NodeKind) -> set[str]:
    published = kind.published.shape.fields if kind.published is not None else ()
    return {member.name for member in (*node_shape(kind).fields, *published)}


def test_every_node_type_has_a_module_of_its_own_and_nothing_else_stands_there() -> None:
    assert {module.name for module in pkgutil.iter_modules(nodes.__path__)} == {str(member) for member in NodeType}


def test_every_declaration_stands_under_its_own_type() -> None:
    assert list(NODE_KINDS) == list(NodeType)
    assert all(kind.type is node_type for node_type, kind in NODE_KINDS.items())
    assert all(kind.shape.name == kind.shape.title == kind.name for kind in NODE_KINDS.values())


def test_the_activities_are_those_of_the_model() -> None:
    assert {kind.type for kind in ACTIVITY_KINDS} == ACTIVITY_TYPES
    assert all(kind.pace is Pace.WAITS for kind in ACTIVITY_KINDS)


def test_the_published_types_are_those_of_the_model() -> None:
    assert {kind.type for kind in NODE_KINDS.values() if kind.published is not None} == set(PUBLISHED_TYPES)


def test_a_word_of_other_tools_leads_to_one_node_type() -> None:
    words = [word for kind in NODE_KINDS.values() for word in kind.other_words]
    assert len(words) == len(set(words))
    assert not any(kind_named(word) for word in words)


def test_only_nodes_with_a_successor_have_next() -> None:
    without = {kind.name for kind in NODE_KINDS.values() if "next" not in field_names(kind)}
    assert without == {"continue_as_new", "end", "fail", "switch"}
    assert {kind.name for kind in NODE_KINDS.values() if kind.is_final} == without - {"switch"}


@EVERY_KIND
def test_the_rules_of_a_comparison_name_fields_that_exist(kind: NodeKind) -> None:
    rules, known = kind.comparison, field_names(kind) | {"next"}
    assert {*rules.aliases, *rules.aliases.values(), *rules.defaults, *rules.effects} <= known
    assert rules.expressions | rules.elsewhere <= known


@EVERY_KIND
def test_what_an_activity_renders_are_fields_of_it(kind: NodeKind) -> None:
    if kind.activity is not None:
        # A model call takes more members than are listed; a list of messages is one of them.
        assert set(kind.activity.arguments) - {"messages"} <= field_names(kind)


def test_a_compensation_without_a_type_is_recognised_by_its_fields() -> None:
    assert implied_activity({"tool": "t", "server": "s"}).type is NodeType.TOOL_CALL
    assert implied_activity({"url": "https://example.com"}).type is NodeType.HTTP
    assert implied_activity({"handler": "shop:refund"}).type is NodeType.STEP
