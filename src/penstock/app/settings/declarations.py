"""How a key of the settings is declared.

    port: Annotated[int, Field("The port to listen on.", flag="--port", maximum=65_535)] = 5151

A class of settings is a frozen `msgspec.Struct`; each member has a type, a default and a `Field`. A key is declared
nowhere else: parsing, checks, names of variables, the JSON Schema and the reference are derived from it.

Above it: `model` declares, the others use `settings_outline`. Below it: the types of settings. It does no I/O.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from datetime import timedelta
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields as struct_fields

from penstock.app.settings.composite_types import (
    Field,
    ListOrTable,
    Record,
    SecretString,
    SecretValue,
    Setting,
    StringList,
    Table,
)
from penstock.app.settings.secrets import CommandReference, EnvironmentReference, FileReference
from penstock.app.settings.types import AnyJson, Boolean, Choice, Duration, Integer, Number, String, ValueType

__all__ = ["FOREIGN_SPELLINGS", "Section", "every_setting", "outline_of"]

# Spellings of other programs, so that their configuration can be pasted here.
FOREIGN_SPELLINGS = {"mcpServers": "mcp_servers"}
_REFERENCES = frozenset({CommandReference, EnvironmentReference, FileReference})


class Section(Struct, frozen=True, kw_only=True):
    """Keys that belong together, and the class that holds their values."""

    path: str
    made: type[Struct]
    description: str
    members: Mapping[str, Section | Setting]


def outline_of(made: type[Struct], path: str = "") -> Section:
    """The declarations of a class of settings, with those of the classes inside it."""
    members: dict[str, Section | Setting] = {}
    hints = get_type_hints(made, include_extras=True)
    for member in struct_fields(made):
        called = member.name.removesuffix("_")
        place = f"{path}.{called}" if path else called
        annotation = hints[member.name]
        if inspect.isclass(annotation) and issubclass(annotation, Struct):
            members[member.name] = outline_of(annotation, place)
        else:
            members[member.name] = _setting(place, annotation, _default(member))
    return Section(path=path, made=made, description=inspect.getdoc(made) or "", members=members)


def every_setting(section: Section) -> Iterator[Setting]:
    """All keys in the order of their declaration."""
    for member in section.members.values():
        if isinstance(member, Section):
            yield from every_setting(member)
        else:
            yield member


def _default(member: Any) -> Any:
    return member.default_factory() if member.default_factory is not NODEFAULT else member.default


def _setting(path: str, annotation: Any, default: Any) -> Setting:
    inner, field = get_args(annotation)
    optional = _is_union(inner) and type(None) in get_args(inner)
    members = tuple(member for member in get_args(inner) if member is not type(None)) if _is_union(inner) else (inner,)
    return Setting(path=path, type=_type(members, field, path), field=field, default=default, optional=optional)


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in {Union, UnionType}


def _type(members: tuple[Any, ...], field: Field, path: str) -> ValueType:
    found = frozenset(members)
    if found == _REFERENCES:
        return SecretValue()
    if found == _REFERENCES | {str}:
        return SecretString()
    if len(members) == 2:  # noqa: PLR2004  # a list of texts, or a table
        short, table = (
            _type((member,), field if place == 0 else Field(""), path) for place, member in enumerate(members)
        )
        if isinstance(short, StringList) and isinstance(table, Table):
            return ListOrTable(short, table)
    [annotation] = members
    match get_origin(annotation):
        case None:
            return _plain_type(annotation, field, path)
        case origin if origin is Literal:
            return Choice(get_args(annotation))
        case origin if origin is tuple:
            return StringList(field.format)
        case _:
            item = get_args(annotation)[1]
            items = _type(get_args(item) if _is_union(item) else (item,), Field(""), path)
            if not isinstance(items, Record | SecretValue | String | StringList):
                raise TypeError(f"{path}: a table cannot hold {items}")
            return Table(items, field.format)


def _plain_type(annotation: type, field: Field, path: str) -> ValueType:
    if annotation is bool:
        return Boolean()
    if annotation is int:
        return Integer(field.minimum, field.maximum)
    if annotation is float:
        return Number(field.minimum, field.maximum, counts_seconds=path.endswith("_seconds"))
    if annotation is timedelta:
        return Duration(field.minimum, field.maximum)
    if annotation is str:
        return String(field.format)
    if annotation is object:
        return AnyJson()
    if issubclass(annotation, Struct):
        members = outline_of(annotation).members.values()
        return Record(annotation, tuple(member for member in members if isinstance(member, Setting)))
    raise TypeError(f"{path}: no setting can have the type {annotation}")
