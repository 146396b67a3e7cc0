"""Walks through the source stay short: how many files somebody touches to add a usual thing."""

import ast
from pathlib import Path

import pytest

from penstock.definitions.model import NodeType
from penstock.definitions.node_parts.kind import NodeKind
from penstock.definitions.nodes import NODE_KINDS
from penstock.mcp_surface.methods import METHODS

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


# --- a store: its adapter, and the module that pairs stores with what belongs to them ---------------------------------

STORES = SOURCE / "runtime" / "stores"
STORE_WIRING = "app/storage.py"


def store_classes() -> dict[str, str]:
    """The stores that there are, each with the folder of its adapter."""
    return {
        node.name: f"runtime/stores/{path.relative_to(STORES).parts[0]}/"
        for path in STORES.rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name.endswith("Store") and not node.name.startswith("_")
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


def test_a_store_is_named_in_its_adapter_and_in_one_module_of_the_wiring() -> None:
    stores = store_classes()
    assert {"MemoryRunStore", "SqliteRunStore", "SqlitePlatformStore"} <= set(stores)
    assert words_of("from a import b\nc = d.SqliteRunStore()") >= {"b", "SqliteRunStore"}
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
