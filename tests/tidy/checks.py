"""The project's habits as functions from source text to a list of complaints.

`test_tidy.py` applies them to the project and shows that each can fail. They know nothing of pytest.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from tests.tidy.trees import nodes_of, tree_of

__all__ = [
    "BANNED_MODULE_NAMES",
    "FUNCTION_LINES_MAX",
    "MODULE_LINES_MAX",
    "check_docstring",
    "check_exports",
    "check_foreign_addresses",
    "check_function_length",
    "check_imports_in_functions",
    "check_module_length",
    "check_module_name",
    "check_port_use",
    "check_record_names",
    "check_script",
    "check_sleeps",
    "check_unfinished_marks",
]

FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 800
# Names that say nothing about what is inside, and so collect everything.
BANNED_MODULE_NAMES = frozenset({"common", "helpers", "misc", "util", "utils"})

_FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

# Joined from parts, so that this file does not contain what it looks for.
_REGISTRY_HOSTS = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("files", "pythonhosted", "org"),
        ("registry", "npmjs", "org"),
        ("registry", "yarnpkg", "com"),
        ("deb", "debian", "org"),
        ("static", "crates", "io"),
    )
)
_MACHINE_PATH = re.compile(r"(?<![\w./~$}-])/(?:work|root|tmp|home|opt|Users)/")
# Where the adapters of ports live, and what things of a port are called.
_ADAPTER_MODULES = ("penstock.runtime.stores", "penstock.runtime.executors", "penstock.runtime.host.embedded")
_PORT_NAMES = ("store", "platform", "host", "storage", "evaluator", "performer")
_UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX)\b")


def check_record_names(source: str, names: frozenset[str]) -> list[str]:
    """A record is meant by its type, not by a text that no type checker sees; `__all__` is no such text."""
    tree = tree_of(source)
    exported = {id(part) for node in tree.body if _is_export_list(node) for part in ast.walk(node)}
    return [
        f"line {node.lineno}: {node.value!r} names a record by a text; use its type in `engine.records`"
        for node in nodes_of(source)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.partition(":")[0] in names
        and id(node) not in exported
    ]


def _is_export_list(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
    )


def check_function_length(source: str) -> list[str]:
    """A function fits on a screen; its docstring does not count."""
    problems = []
    for node in _functions(source):
        lines = _span(node) - _docstring_span(node)
        if lines > FUNCTION_LINES_MAX:
            problems.append(f"line {node.lineno}: '{node.name}' has {lines} lines, at most {FUNCTION_LINES_MAX}")
    return problems


def check_module_length(source: str) -> list[str]:
    """A module is read in one sitting."""
    lines = len(source.splitlines())
    return [f"the module has {lines} lines, at most {MODULE_LINES_MAX}"] if lines > MODULE_LINES_MAX else []


def check_imports_in_functions(source: str) -> list[str]:
    """Imports stand at the top, where a reader and the import linter see them."""
    return [
        f"line {node.lineno}: import inside '{function.name}'"
        for function in _functions(source)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]


def check_docstring(source: str) -> list[str]:
    """A module says what it is."""
    return [] if ast.get_docstring(tree_of(source)) else ["the module has no docstring"]


def check_exports(source: str) -> list[str]:
    """A module with code lists its public names: sorted, once each, and all of them real."""
    tree = tree_of(source)
    if all(_is_text(node) or _is_all_of_a_module(node) for node in tree.body):
        return []
    names = _exported_names(tree)
    if names is None:
        return ["the module has no literal __all__"]
    problems = []
    if names != sorted(names, key=_export_order):
        problems.append("__all__ is not sorted: constants, then classes, then the rest")
    if len(names) != len(set(names)):
        problems.append("__all__ names something twice")
    missing = sorted(set(names) - set(_bound_names(tree.body)))
    if missing:
        problems.append(f"__all__ names what the module does not have: {', '.join(missing)}")
    return problems


def check_module_name(path: str) -> list[str]:
    """A module is named for what it holds."""
    pure = PurePosixPath(path)
    named = {pure.stem, *pure.parent.parts} & BANNED_MODULE_NAMES
    return [f"'{name}' says nothing about what is inside; name the idea" for name in sorted(named)]


def check_unfinished_marks(source: str) -> list[str]:
    """What is left to do is written in the roadmap, not in the code."""
    return [
        f"line {number}: '{match.group()}' belongs in docs/roadmap.md"
        for number, line in enumerate(source.splitlines(), start=1)
        if (match := _UNFINISHED.search(line))
    ]


def check_port_use(source: str) -> list[str]:
    """Stores and hosts are used through their ports: nobody asks which one it is, or tries what it may have."""
    adapters = {
        alias.asname or alias.name
        for node in nodes_of(source)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_ADAPTER_MODULES)
        for alias in node.names
    }
    problems = []
    for node in nodes_of(source):
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kind]) if _mentioned(kind) & adapters:
                problems.append(f"line {node.lineno}: asks for an adapter; let the port say what is needed")
            case ast.Call(func=ast.Name(id="cast"), args=[kind, _]) if _mentioned(kind) & adapters:
                problems.append(f"line {node.lineno}: takes it for an adapter; let the port say what is needed")
            case ast.Call(func=ast.Name(id="hasattr" | "getattr" | "type" | "vars" as how), args=[asked, *_]):
                if _last_name(asked).strip("_").endswith(_PORT_NAMES):
                    problems.append(f"line {node.lineno}: {how} of a port; give the port a method or a value for it")
            case _:
                pass
    return problems


def _mentioned(kind: ast.expr) -> set[str]:
    """The names in a type, also where it is written as a text."""
    names: set[str] = set()
    for node in ast.walk(kind):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                names.add(name)
            case ast.Constant(value=str() as text):
                names.update(re.findall(r"\w+", text))
            case _:
                pass
    return names


def _last_name(expression: ast.expr) -> str:
    match expression:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def check_sleeps(source: str) -> list[str]:
    """A test waits for an event, for a condition or moves a fake clock; it does not sleep.

    `asyncio.sleep(0)` is no sleep: it lets others have their turn. To wait with a timeout for what nobody will set, or
    for a moment only, is a sleep in disguise.
    """
    problems = []
    for node in nodes_of(source) if "sleep" in source or "wait(" in source else ():
        match node:
            case ast.Call(
                func=ast.Attribute(
                    value=ast.Call(func=ast.Attribute(attr="Event") | ast.Name(id="Event")), attr="wait"
                ),
                args=[_, *_],
            ):
                problems.append(f"line {node.lineno}: an event that nobody can set; see tests/waiting.py")
            case ast.Call(func=ast.Attribute(value=ast.Name(id="asyncio"), attr="wait"), keywords=keywords) if any(
                isinstance(keyword.value, ast.Constant) and keyword.arg == "timeout" for keyword in keywords
            ):
                problems.append(f"line {node.lineno}: asyncio.wait for a moment; see tests/waiting.py")
            case ast.Attribute(value=ast.Name(id="time"), attr="sleep"):
                problems.append(f"line {node.lineno}: time.sleep")
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="asyncio" | "anyio" as library), attr="sleep"), args=args
            ):
                if not (isinstance(args[0], ast.Constant) and args[0].value == 0):
                    problems.append(f"line {node.lineno}: {library}.sleep; see tests/waiting.py")
            case ast.ImportFrom(module="time" | "asyncio" | "anyio" as library, names=names) if any(
                alias.name == "sleep" for alias in names
            ):
                problems.append(f"line {node.lineno}: from {library} import sleep")
            case _:
                pass
    return problems


def check_foreign_addresses(text: str) -> list[str]:
    """No path of somebody's machine and no host of a package registry."""
    problems = []
    for number, line in enumerate(text.splitlines(), start=1):
        if match := _MACHINE_PATH.search(line):
            problems.append(f"line {number}: path of one machine '{match.group()}'")
        problems.extend(f"line {number}: registry host '{host}'" for host in _REGISTRY_HOSTS if host in line)
    return problems


def check_script(text: str, *, is_executable: bool) -> list[str]:
    """A script starts by itself and stops at the first error."""
    problems = []
    first_line = text.partition("\n")[0]
    if not is_executable:
        problems.append("the script is not executable; run chmod +x")
    if not first_line.startswith("#!/usr/bin/env "):
        problems.append("the first line is not '#!/usr/bin/env ...'")
    if first_line.endswith("bash") and "\nset -euo pipefail\n" not in text:
        problems.append("a bash script has the line 'set -euo pipefail'")
    return problems


def _functions(source: str) -> Iterator[_FunctionNode]:
    return (node for node in nodes_of(source) if isinstance(node, _FunctionNode))


def _span(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _docstring_span(node: _FunctionNode) -> int:
    return _span(node.body[0]) if ast.get_docstring(node, clean=False) is not None else 0


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_all_of_a_module(node: ast.stmt) -> bool:
    """Whether a package takes over what one of its modules lists; ruff says which packages may."""
    return isinstance(node, ast.ImportFrom) and [alias.name for alias in node.names] == ["*"]


def _exported_names(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.expr() as value):
                pass
            case _:
                continue
        if isinstance(value, ast.List | ast.Tuple):
            return [item.value for item in value.elts if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    return None


def _export_order(name: str) -> tuple[int, list[tuple[int, str]]]:
    """The order that ruff's RUF022 keeps: constants, classes, the rest; digits compare as numbers."""
    is_constant = len(name) > 1 and name.isupper()
    kind = 0 if is_constant else 2 - name[:1].isupper()
    parts = re.findall(r"\d+|\D+", name)
    return kind, [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def _bound_names(statements: Iterable[ast.stmt]) -> Iterator[str]:
    for node in statements:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from (alias.asname or alias.name.partition(".")[0] for alias in aliases)
            case ast.If(body=body, orelse=otherwise) | ast.Try(body=body, orelse=otherwise):
                yield from _bound_names([*body, *otherwise])
            case _:
                stored = (name for name in ast.walk(node) if isinstance(name, ast.Name))
                yield from (name.id for name in stored if isinstance(name.ctx, ast.Store))
