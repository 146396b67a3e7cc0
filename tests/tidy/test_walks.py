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
