"""What operations work with is complete when it is made: nobody puts anything into it afterwards."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.operations.gate.context import Services
from penstock.operations.gate.notifier import Notifier
from tests.unit.operations.conftest import OpenGate

SOURCES = Path(penstock.__file__).parent
_SETTING = ("setattr", "setattr__", "delattr", "delattr__")


@pytest.mark.anyio
async def test_services_cannot_be_changed(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        for field in dataclasses.fields(Services):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(caller.gate.services, field.name, None)


def _is_services(owner: ast.expr) -> bool:
    name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
    return name.strip("_") == "services"


def _assigned(tree: ast.AST) -> Iterator[ast.expr]:
    """Attributes of something called services that are assigned, deleted, or set by a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and _is_services(node.value):
            yield node
        if not isinstance(node, ast.Call) or not node.args or not _is_services(node.args[0]):
            continue
        if ast.unparse(node.func).endswith(_SETTING):
            yield node


@pytest.mark.parametrize(
    "source",
    [
        "gate.services.clock = 1",
        "services.clock += 1",
        "del self._services.clock",
        "setattr(gate.services, 'clock', 1)",
        "object.__setattr__(services, 'clock', 1)",
    ],
)
def test_whatever_puts_something_into_services_is_found(source: str) -> None:
    assert len(list(_assigned(ast.parse(source)))) == 1


def test_nothing_is_assigned_to_services() -> None:
    found = [
        f"{path.relative_to(SOURCES)}:{node.lineno} {ast.unparse(node)}"
        for path in sorted(SOURCES.rglob("*.py"))
        if "services" in (source := path.read_text("utf-8"))
        for node in _assigned(ast.parse(source))
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
