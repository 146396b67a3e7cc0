"""Every code of an error in the source is declared, with its meaning and what to do; none is declared for nothing."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from penstock.base.errors import PenstockError
from penstock.client.errors import CLIENT_REASONS
from penstock.operations.catalogue.reasons import LOCAL_REASONS, REASONS

SOURCE = Path("src/penstock")
TABLES = SOURCE / "operations" / "catalogue" / "reasons"
CODE = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*")
REFUSING = frozenset({"Refused", "CallProblem", "SimulationRefused"})
DECLARED = {**REASONS, **LOCAL_REASONS, **CLIENT_REASONS}
# `registry.py` makes these of the name of the resource.
MADE = frozenset(f"{name}_EXISTS" for name in ("SCHEMA", "MODEL", "TOOL", "AGENT")) | {"MODEL_NOT_FOUND"}


def error_classes(trees: dict[Path, ast.Module]) -> frozenset[str]:
    """The names of every class of errors, those of the packages too."""
    known = {"PenstockError", *REFUSING}
    for _ in range(4):  # as deep as they derive from each other
        known |= {
            node.name
            for tree in trees.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef) and known & {name_of(base) for base in node.bases}
        }
    return frozenset(known)


def name_of(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def codes_in(tree: ast.Module, classes: frozenset[str]) -> Iterator[str]:
    """The codes that errors of a module are made with, where they are written out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and name_of(node.func) in classes:
            code = node.args[0]
            if isinstance(code, ast.Constant) and isinstance(code.value, str) and CODE.fullmatch(code.value):
                yield code.value


def test_every_code_is_declared_and_none_for_nothing() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}
    classes = error_classes(trees)
    assert PenstockError.__name__ in classes
    assert "CallTimedOut" in classes
    used = {code for tree in trees.values() for code in codes_in(tree, classes)}
    assert len(used) > 250
    assert sorted(used - DECLARED.keys()) == []
    texts = {
        node.value
        for path, tree in trees.items()
        if not path.is_relative_to(TABLES)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert sorted(DECLARED.keys() - texts - MADE) == []
