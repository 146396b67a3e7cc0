"""Walks through the source stay short: how many files somebody touches to add a usual thing."""

import ast
from pathlib import Path

import pytest

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
