"""Walks through the source stay short: how many files somebody touches to add a usual thing."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.definitions.model import NodeType
from penstock.definitions.node_parts.kind import NodeKind
from penstock.definitions.nodes import NODE_KINDS
from penstock.mcp_surface.methods import METHODS
from penstock.operations.audit.records import AuditRecordView
from penstock.operations.builtin import builtin_operations, internal_operations, profile_operations
from penstock.runtime.ports.platform import AuditEntry, AuditQuery
from penstock.runtime.tables.audit.records import audit_statement

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "penstock"

# --- a method of MCP: its row in `methods`, its handler in a `methods` module, its test -------------------------------

MCP_METHOD_SOURCES_MAX = 2
# These are answered without the SDK too, which is a choice for speed and no part of adding a method.
ON_THE_FAST_PATH = frozenset({"server/discover", "tools/list", "tools/call", "tasks/get"})


def files_with_text(folder: Path, text: str) -> set[str]:
    """The modules that have exactly this text as a string."""
    found = set()
    for path in folder.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        if text in source:
            strings = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
            if any(value == text for value in strings):
                found.add(str(path.relative_to(folder)))
    return found


@pytest.mark.parametrize("method", sorted(set(METHODS) - ON_THE_FAST_PATH))
def test_a_method_of_mcp_is_written_in_the_table_and_where_it_is_handled(method: str) -> None:
    places = files_with_text(SOURCE / "mcp_surface", method)
    elsewhere = places - {"methods.py", *(path for path in places if path.endswith("/methods.py"))}
    # What the client is asked, and what the SDK dispatches itself, has no handler of ours but may be looked for.
    assert len(places) <= MCP_METHOD_SOURCES_MAX or method == "initialize", places
    assert elsewhere <= {"server.py", "questions/client_questions.py"} or method == "initialize", elsewhere


# --- a database or a store: its adapter, and the module that pairs it with what belongs to it -------------------------

STORES = SOURCE / "runtime" / "stores"
STORE_WIRING = "app/drivers.py"


def store_classes() -> dict[str, str]:
    """The databases and stores that there are, each with the folder of its adapter."""
    return {
        node.name: f"runtime/stores/{path.relative_to(STORES).parts[0]}/"
        for path in STORES.rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name.endswith(("Database", "Store")) and node.name[0] != "_"
    }


def words_of(source: str) -> set[str]:
    """The names that a module uses, imported, called or taken from another module."""
    return {
        word
        for node in ast.walk(ast.parse(source))
        for word in (getattr(node, "id", None), getattr(node, "attr", None), getattr(node, "name", None))
        if isinstance(word, str)
    }


def places_of_stores(stores: dict[str, str]) -> dict[str, set[str]]:
    """Where else than in its adapter each store is named."""
    places: dict[str, set[str]] = {name: set() for name in stores}
    for path in SOURCE.rglob("*.py"):
        source, place = path.read_text(encoding="utf-8"), str(path.relative_to(SOURCE))
        if any(name in source for name in stores):
            for name in words_of(source) & set(stores):
                if not place.startswith(stores[name]):
                    places[name].add(place)
    return places


def test_a_database_or_store_is_named_in_its_adapter_and_in_one_module_of_the_wiring() -> None:
    stores = store_classes()
    assert {"SqliteDatabase", "TemporaryDatabase", "SqliteGraphStore"} <= set(stores)
    assert words_of("from a import b\nc = d.SqliteDatabase()") >= {"b", "SqliteDatabase"}
    elsewhere = {name: places - {STORE_WIRING} for name, places in places_of_stores(stores).items()}
    assert {name: places for name, places in elsewhere.items() if places} == {}


# --- a node type: the model, its two modules with their tables, what it records ---------------------------------------

NODE_TYPE_SOURCES_MAX = 8
# The more intricate ones whose names are no everyday words; `loop`, `wait` and `fail` are used for much else.
INTRICATE_TYPES = ("subworkflow", "emit", "for_each", "continue_as_new", "set_state", "agent_delegate")


def modules_that_know(kind: NodeKind, detail: str) -> set[str]:
    """The modules that name a node type: as a member of `NodeType`, by its detail or by the word in documents."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        if kind.name in source or kind.type.name in source or detail in source:
            members = (node.attr for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute))
            strings = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
            if kind.type.name in members or detail in words_of(source) or kind.name in strings:
                found.add(str(path.relative_to(SOURCE)))
    return found


@pytest.mark.parametrize("name", INTRICATE_TYPES)
def test_a_node_type_is_known_to_few_modules(name: str) -> None:
    kind = NODE_KINDS[NodeType(name)]
    # Activities share one detail, which says nothing about a single one of them.
    detail = "" if kind.activity is not None else f"{name.title().replace('_', '')}Detail".replace("AsNew", "")
    known_to = modules_that_know(kind, detail or name)
    assert {"definitions/model.py", f"definitions/nodes/{name}.py", "definitions/nodes/__init__.py"} <= known_to
    assert len(known_to) <= NODE_TYPE_SOURCES_MAX, sorted(known_to)


# --- an operation: one module of a resource; `scripts/docs` makes the rest --------------------------------------------

SAMPLE_OPERATION = '''
import msgspec
from penstock.operations.catalogue.capability import Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate.context import Context

class Sample(msgspec.Struct):
    size: int = 1

ROUTE = Route(method="GET", path="/keys/sample", query=("size",))

@operation("key.sample", route=ROUTE, scopes=("key:read",), reads=True)
async def key_sample(context: Context, given: Sample) -> Sample:
    """Look at a sample."""
    return given

OPERATIONS = (key_sample,)
'''
LOOK_FOR_SAMPLE = """
import json, sys
from penstock.operations import keys
keys.__path__.append(sys.argv[1])
from docs.generator.operations import operations_file
from penstock.client import operations as table
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.tools.registry import build_tool_list
from penstock.operations.builtin import builtin_operations
from penstock.operations.catalogue.catalogue import Catalogue
from penstock.rest.arguments import ArgumentReader
from penstock.rest.openapi.document import openapi_document
capabilities = builtin_operations()
catalogue = Catalogue(capabilities)
found = catalogue.find("key.sample")
written = {item.name: item for item in table.msgspec.json.decode(operations_file(), type=list[table.Operation])}
table.operation_table = lambda: written
from penstock.cli.operations.commands import operation_command
print(json.dumps({
    "catalogue": found.title,
    "route": ArgumentReader.of(found, found.route) is not None,
    "openapi": "/keys/sample" in openapi_document(capabilities, version="1", base_path="/api")["paths"],
    "tool": build_tool_list(capabilities, McpOptions()).name_of("key.sample") is not None,
    "command": "size" in operation_command("key.sample").__annotations__,
}))
"""


def test_an_operation_in_one_module_is_in_the_catalogue_and_on_every_surface(tmp_path: Path) -> None:
    (tmp_path / "sample.py").write_text(SAMPLE_OPERATION)
    finished = subprocess.run(
        [sys.executable, "-c", LOOK_FOR_SAMPLE, str(tmp_path)], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert finished.returncode == 0, finished.stderr
    seen = json.loads(finished.stdout)
    assert seen == {"catalogue": "Look at a sample", "route": True, "openapi": True, "tool": True, "command": True}


def test_every_operation_that_a_module_declares_is_in_its_list() -> None:
    listed = {
        capability.name
        for capability in (*builtin_operations(), *internal_operations(), *profile_operations(fixtures=True))
    }
    declared = {
        node.args[0].value
        for path in (SOURCE / "operations").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "operation"
        if isinstance(node.args[0], ast.Constant)
    }
    assert "key.create" in declared
    assert declared <= listed


# --- a field of the audit record: the entry, whoever fills it in, and its column --------------------------------------

AUDIT_FIELD_SOURCES = {
    "runtime/ports/audit.py",
    "operations/gate/audit_log.py",
    "runtime/stores/sqlite/schema/migrations.py",
}


def test_a_field_of_the_audit_record_is_written_in_three_modules() -> None:
    # The one field whose name nothing else has.
    paths = [path for path in SOURCE.rglob("*.py") if "arguments_digest" in path.read_text(encoding="utf-8")]
    places = {path.relative_to(SOURCE).as_posix() for path in paths}
    assert {place for place in places if not place.startswith("client/generated/")} == AUDIT_FIELD_SOURCES


def test_stores_and_views_take_every_field_of_the_audit_record_from_its_type() -> None:
    fields = set(AuditEntry.__struct_fields__)
    chain = {"seq", "previous_hash", "hash"}
    assert set(AuditRecordView.__struct_fields__) == fields - {"tenant"} | chain
    statement, _ = audit_statement(AuditQuery(tenant="default"))
    columns = statement.removeprefix("SELECT ").partition(" FROM ")[0]
    assert {column.strip() for column in columns.split(",")} == fields | chain
