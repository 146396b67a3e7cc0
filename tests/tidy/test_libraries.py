"""Private parts of libraries are used in few modules of the surfaces, which say why; others use what is public."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "penstock"
SURFACES = ("mcp_surface", "openwop", "rest")
# Each of them says in its docstring why, and has a test that notices when the library changes.
ALLOWED = {"mcp_surface/eras/sdk_internals.py"}


def private_uses(source: str) -> list[str]:
    """Private names that are imported from a library, and private attributes of anything but the object itself."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and not (node.module or "").startswith(("penstock", "__future__")):
            names = [*(node.module or "").split("."), *(item.name for item in node.names)]
            found += [f"{node.module}: {name}" for name in names if _is_private(name)]
        elif isinstance(node, ast.Attribute) and _is_private(node.attr) and not _is_own(node.value):
            found.append(ast.unparse(node))
    return found


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _is_own(value: ast.expr) -> bool:
    own = isinstance(value, ast.Name) and value.id in ("self", "cls")
    inherited = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "super"
    return own or inherited


@pytest.mark.parametrize("surface", SURFACES)
def test_a_surface_uses_what_is_public(surface: str) -> None:
    paths = [str(path.relative_to(SOURCE)) for path in sorted((SOURCE / surface).rglob("*.py"))]
    found = {path: private_uses((SOURCE / path).read_text(encoding="utf-8")) for path in paths if path not in ALLOWED}
    assert {path: uses for path, uses in found.items() if uses} == {}


def test_the_exceptions_exist_and_are_needed() -> None:
    assert all(private_uses((SOURCE / path).read_text(encoding="utf-8")) for path in ALLOWED)


def test_private_names_are_found() -> None:
    assert private_uses("from mcp.server.runner import _has_envelope\n") == ["mcp.server.runner: _has_envelope"]
    assert private_uses("from mcp.shared._streams import make\n") == ["mcp.shared._streams: _streams"]
    assert private_uses("def f(context): return context.session._connection\n") == ["context.session._connection"]
    assert private_uses("class A:\n    def f(self): return self._own + super()._base\n") == []
