"""Who reaches what changes something: calls of the changing methods of hosts and stores, read off the source.

Receivers are known by what they are declared to be (a parameter, a field or an assignment with the type of a port), by
what they are assigned from, and by the names that these things always have here. Methods with a name of their own
(`delete_runs`) count whatever they are called on, and functions of `runtime.tables` are known by their import. It knows
nothing of pytest; `test_one_door.py` applies it.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from tests.tidy.trees import nodes_of, tree_of

__all__ = ["CHANGING", "READING", "Reach", "handler_uses", "made_contexts", "reaches"]


def _names(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


# Every public method of what can change something is in one of these two tables: a new one has to be put there.
# To ask for the newest run of a chain is reading: if nobody has started it yet, the host does what the history says.
CHANGING: dict[str, frozenset[str]] = {
    "Store": _names("append claim set_work delete_runs forget_runs delete_ended"),
    "Definitions": _names("put put_all delete"),
    "Database": _names("write write_together"),
    "Tables": _names(
        "put_key replace_key touch_keys record_call release_call forget_calls append_audit forget_audit"
        " redact_audit put_resource put_resources delete_resource add_deliveries save_delivery claim_delivery"
        " change_delivery forget_deliveries set_mark drop_mark exchange_buckets forget_usage take_uses"
        " release_uses put_schedule delete_schedule register_worker record_heartbeat remove_worker spend"
        " delete_runs forget_runs delete_ended put_memory delete_memory clear_memory forget_memory"
    ),
    "Host": _names("register start send try_move release adopt"),
    "Scheduler": _names("put change keep put_triggers follow follow_all drop_triggers pause run_now fire_due begin"),
    "Run": _names("answer signal update lease_activity submit cancel pause resume retry_activity fork"),
    "Penstock": _names("register start signal_with_start delete_ended"),
}
READING: dict[str, frozenset[str]] = {
    "Store": _names(
        "open close load history row positions changed changes list_runs due next_wake_at timers_ahead"
        " has_unclaimed owned ended_runs"
    ),
    "Definitions": _names("find find_named list_newest list_versions list_page clear_cache"),
    "Database": _names("open close changed one read rows"),
    "Tables": _names(
        "count_audit_chains find_audit_head find_call list_all_resources list_audit list_audit_tenants"
        " list_deliveries list_due_deliveries list_keys list_removed_audit list_resources measure_storage_bytes"
        " read_delivery read_key read_mark read_next_delivery_at read_resource read_usage list_schedules"
        " list_workers read_spending list_ended read_memory list_memory search_memory"
    ),
    "Host": _names(
        "workflow violations workflow_named due may_perform live reloaded live_runs read history wait watched"
        " wait_for_end stop_waiting newest row list_runs positions"
        " fold evaluate_for subscribe perform_also follow_authors"
    ),
    "Scheduler": _names("start stop nudge fresh find taken"),
    "Run": _names(
        "state status result stream live progress history questions activities query newest outcome_of_signal"
    ),
    "Penstock": _names("open use_steps run runs"),
}
# What these things are called where nobody says their type.
_USUAL_NAMES = {
    "store": "Store",
    "_store": "Store",
    "definitions": "Definitions",
    "_definitions": "Definitions",
    "platform": "Database",
    "_platform": "Database",
    "host": "Host",
    "_host": "Host",
    "scheduler": "Scheduler",
    "penstock": "Penstock",
}
# By which other names the types go: adapters, and the ports that are parts of a host.
_ALSO = {
    "RunStore": "Store",
    "SqliteDatabase": "Database",
    "EmbeddedHost": "Host",
    "RunHost": "Host",
    "EffectHost": "Host",
    "RunInputs": "Host",
    "WorkflowRegistry": "Host",
    "ControlHost": "Host",
    "EmbeddedControl": "Host",
}
# Methods that other things have too; they only count on receivers that are known.
_COMMON = _names(
    "append claim register start send begin release adopt put delete change keep follow pause answer signal update"
    " submit cancel resume fork write"
)
_DISTINCTIVE = frozenset().union(*(names for port, names in CHANGING.items() if port != "Tables")) - _COMMON
_TABLES = "penstock.runtime.tables"


@dataclass(frozen=True, slots=True)
class Reach:
    """One place that takes a changing method: of what, which, and whether a call of the gate led there."""

    line: int
    port: str
    method: str
    with_context: bool

    def __str__(self) -> str:
        return f"line {self.line}: {self.port}.{self.method}"


def reaches(source: str) -> list[Reach]:
    """Every use of a changing method, called or handed on."""
    tree = tree_of(source)
    known = {**_USUAL_NAMES, **dict(_declared(source))}
    known.update(_assigned(source, known))
    return list(_found(tree, known, dict(_imported(source))))


def made_contexts(source: str) -> list[int]:
    """Lines where a `Context` is made, which only the gate may do."""
    if "Context(" not in source:
        return []
    return [
        node.lineno
        for node in nodes_of(source)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Context"
    ]


def handler_uses(source: str) -> list[int]:
    """Lines where a capability's handler is taken, which only the gate may do, or a handler with its own context."""
    if ".handler" not in source:
        return []
    within = {
        id(part)
        for node in nodes_of(source)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _takes_context(node)
        for part in ast.walk(node)
    }
    return [
        node.lineno
        for node in nodes_of(source)
        if isinstance(node, ast.Attribute)
        and node.attr == "handler"
        and _last(node.value) in ("capability", "found")
        and id(node) not in within
    ]


def _imported(source: str) -> Iterator[tuple[str, str]]:
    """Functions of tables that change something, by the names that they have here."""
    for node in nodes_of(source):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_TABLES):
            for item in node.names:
                if item.name in CHANGING["Tables"]:
                    yield item.asname or item.name, item.name


def _found(tree: ast.AST, known: dict[str, str], imported: dict[str, str]) -> Iterator[Reach]:
    left = [(tree, False)]
    while left:
        node, with_context = left.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            with_context = with_context or _takes_context(node)
        if isinstance(node, ast.Name) and node.id in imported:
            yield Reach(node.lineno, "Tables", imported[node.id], with_context)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            port = _port(node.value, known)
            if port is not None and node.attr in CHANGING[port]:
                yield Reach(node.lineno, port, node.attr, with_context)
            elif port is None and node.attr in _DISTINCTIVE and _last(node.value) not in (None, "self"):
                owner = next(name for name, methods in CHANGING.items() if node.attr in methods)
                yield Reach(node.lineno, owner, node.attr, with_context)
        left += [(child, with_context) for child in reversed(list(ast.iter_child_nodes(node)))]


def _takes_context(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    return any(isinstance(item.annotation, ast.Name) and item.annotation.id == "Context" for item in arguments)


def _port(receiver: ast.expr, known: dict[str, str]) -> str | None:
    """What a method is called on, as far as it can be told."""
    if isinstance(receiver, ast.Await):
        receiver = receiver.value
    if isinstance(receiver, ast.Call):
        name = _last(receiver.func)
        return "Run" if name in ("run", "Run") else _made(name)
    return known.get(_last(receiver) or "")


def _made(name: str | None) -> str | None:
    """The type of what a constructor makes."""
    return name if name in CHANGING else _ALSO.get(name or "")


def _last(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else None


def _declared(source: str) -> Iterator[tuple[str, str]]:
    """Parameters, fields and variables with the type of a port."""
    for node in nodes_of(source):
        if isinstance(node, ast.arg) and node.annotation is not None:
            name, annotation = node.arg, node.annotation
        elif isinstance(node, ast.AnnAssign) and _last(node.target) is not None:
            name, annotation = str(_last(node.target)), node.annotation
        else:
            continue
        for part in ast.walk(annotation):
            port = _made(part.id) if isinstance(part, ast.Name) else None
            if port is not None:
                yield name, port


def _assigned(source: str, known: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Names for what is known already: `runs = services.host`, also several at once."""
    for node in nodes_of(source):
        if isinstance(node, ast.NamedExpr):
            pairs = _pairs(node.target, node.value)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            pairs = _pairs(node.targets[0], node.value)
        else:
            continue
        for target, value in pairs:
            name, port = _last(target), _port(value, known)
            if name is not None and port is not None:
                yield name, port


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        yield from zip(target.elts, value.elts, strict=False)
    else:
        yield target, value
