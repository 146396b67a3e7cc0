"""What operations work with is complete when it is made: nobody puts anything into it afterwards."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.operations.context import Services
from penstock.operations.notifier import Notifier
from tests.unit.operations.conftest import OpenGate

SOURCES = Path(penstock.__file__).parent


@pytest.mark.anyio
async def test_services_cannot_be_changed(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        for field in dataclasses.fields(Services):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(caller.gate.services, field.name, None)


def _assigned(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Attributes of something called services that are assigned."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            owner = node.value
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            if name.strip("_") == "services":
                yield node


def test_nothing_is_assigned_to_services() -> None:
    assert list(_assigned(ast.parse("gate.services.clock = 1"))), "the search finds what it is for"
    found = [
        f"{path.relative_to(SOURCES)}:{node.lineno} {node.attr}"
        for path in sorted(SOURCES.rglob("*.py"))
        for node in _assigned(ast.parse(path.read_text("utf-8")))
    ]
    assert found == []


def test_a_notifier_tells_those_who_listen_until_they_leave() -> None:
    heard: list[str] = []
    notifier = Notifier[[str]]()
    notifier("nobody listens")
    notifier.listen(heard.append)
    notifier("one")
    notifier.leave(heard.append)
    notifier("two")
    assert heard == ["one"]
