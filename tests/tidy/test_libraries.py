"""Private parts of libraries are used in few modules, which say why; other surfaces and commands use what is public."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "penstock"
SURFACES = ("cli", "mcp_surface", "openwop", "rest")
# Each of them says in its docstring why, and has a test that notices when the library changes.
ALLOWED = {"mcp_surface/eras/sdk_internals.py"}

_IMPORTING = frozenset({"find_spec", "import_alone", "import_module", "lazy_import"})
# Parts of a dependency in packages of their own, with the dependency; they are used only together with it.
_BROUGHT = {
    "anthropic": "pydantic-ai-slim",
    "anyio": "mcp",
    "google": "a2a-sdk",
    "httpx": "a2a-sdk",
    "markupsafe": "jinja2",
    "mcp_types": "mcp",
    "pydantic": "mcp",
    "sse_starlette": "mcp",
}
# Only looked for, to name the right command.
_LOOKED_FOR = frozenset({"pip"})
# Documented names of the standard library.
_PUBLIC = frozenset({"_exit", "_replace"})


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
    if name in _PUBLIC:
        return False
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


def imported_libraries(source: str) -> Iterator[str]:
    """The libraries that a module imports, also late: the first part of every name."""
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [item.name for item in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in _IMPORTING and node.args:
            first = node.args[0]
            names = [first.value] if isinstance(first, ast.Constant) and isinstance(first.value, str) else []
        yield from (name.partition(".")[0] for name in names)


def declared_distributions() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    return {_normal(re.split(r"[^\w.-]", text, maxsplit=1)[0]) for group in groups for text in group}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def undeclared_libraries(sources: dict[str, str]) -> dict[str, list[str]]:
    """Libraries that no dependency of the project brings by itself, with the modules that import them."""
    declared, known = declared_distributions(), packages_distributions()
    found: dict[str, list[str]] = {}
    for path, source in sources.items():
        for library in set(imported_libraries(source)) - {"penstock", *sys.stdlib_module_names}:
            if declared.isdisjoint(map(_normal, known.get(library, []))) and library not in {*_BROUGHT, *_LOOKED_FOR}:
                found.setdefault(library, []).append(path)
    return found


def test_what_the_product_imports_is_a_dependency_of_its_own() -> None:
    sources = {str(path.relative_to(SOURCE)): path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    assert undeclared_libraries(sources) == {}
    assert set(_BROUGHT.values()) <= declared_distributions()


def test_a_library_that_only_comes_along_is_found() -> None:
    late = 'import typing\nrich = lazy_import("rich.text")\n'
    assert undeclared_libraries({"a.py": "import typer\nimport click\n", "b.py": late}) == {
        "typer": ["a.py"],
        "rich": ["b.py"],
    }
