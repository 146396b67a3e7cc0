"""The entities that a step of a mutation is about, as one SELECT each. What is then written is the store's work.

Above it: the stores. Below it: `conditions`, `emitting`.
"""

from __future__ import annotations

from penstock.graph.sql.access import Access, end_values, find_access, identifier_values
from penstock.graph.sql.conditions import compile_condition, compile_value
from penstock.graph.sql.dialects import Dialect
from penstock.graph.sql.emitting import EdgeSource, Emitter, NodeSource, Scope
from penstock.graph.sql.layout import Layout
from penstock.graph.sql.patterns import compile_block
from penstock.graph.sql.statement import Statement
from penstock.graph.sql.walking import variables_with_properties
from penstock.graph.typing.model import DeleteEdges, DeleteNodes, UpdateNodes
from penstock.graph.typing.patterns import TARGET, All, MetaField, NodeVariable, TypedCondition

__all__ = ["compile_target"]


def compile_target(
    dialect: Dialect, layout: Layout, step: UpdateNodes | DeleteNodes | DeleteEdges, *, depth: int
) -> Statement:
    """The identifiers of the entities that a step updates or deletes, in order. Raises `NotCompilableError`."""
    emitter = Emitter(dialect, layout, depth, variables_with_properties(step.where) | {TARGET})
    table = layout.tables[step.type.name]
    scope = Scope()
    alias = emitter.name("n")
    conditions = [emitter.visible(alias, table)]
    source = f"{table.name} AS {alias}"
    if isinstance(step, DeleteEdges):
        columns = {name: f"{alias}.{column}" for name, column in table.columns.items()}
        type_ = emitter.constant(step.type.name)
        ends = end_values(TARGET, _tests(step.where), scope)
        scope.own[TARGET] = EdgeSource(f"{alias}.id", f"{alias}.src", f"{alias}.dst", type_, columns)
        for end, value in ends[:1]:
            near = "src" if end is MetaField.SRC else "dst"
            sql = compile_value(emitter, value, scope, compile_block)
            source = f"{table.hops(near)} AS hop CROSS JOIN {source}"
            conditions += [f"hop.{near} = {sql}", f"{alias}.rid = hop.rid"]
    else:
        node = NodeVariable(TARGET, step.type)
        tests = _tests(step.where)
        if find_access(node, tests, scope) is Access.SCAN:
            source = dialect.scan(table.name, alias)
            emitter.scans += 1
        keys = identifier_values(node, tests, scope)
        scope.own[TARGET] = NodeSource(f"{alias}.id", table, step.type.name, alias)
        conditions += [f"{alias}.id = {compile_value(emitter, each, scope, compile_block)}" for each in keys]
    conditions.append(compile_condition(emitter, step.where, scope, compile_block))
    text = f"SELECT {alias}.id FROM {source} WHERE {' AND '.join(conditions)} ORDER BY {alias}.id"
    return Statement(text, tuple(emitter.bound), (), ("id",), paged=False, limit=None, scans=emitter.scans)


def _tests(where: TypedCondition) -> tuple[TypedCondition, ...]:
    return where.operands if isinstance(where, All) else (where,)
