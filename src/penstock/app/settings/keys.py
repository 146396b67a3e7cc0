"""How a key of the settings is declared, and what its declaration says.

    port: Annotated[int, Key("The port to listen on.", flag="--port", maximum=65_535)] = 5151

A class of settings is a frozen `msgspec.Struct`; each field has a type, a default and a `Key`. This is the only place
where a key is written down: reading, checking, names of variables, the JSON Schema and the reference follow from it.

Above it: `model` declares, the other `settings_…` modules use `settings_outline`. It reads nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from keyword import iskeyword
from types import UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields as struct_fields

from penstock.app.settings.secrets import CommandReference, EnvironmentReference, FileReference

__all__ = [
    "ENVIRONMENT_PREFIX",
    "FOREIGN_SPELLINGS",
    "Anything",
    "Choice",
    "Form",
    "Key",
    "Kind",
    "Number",
    "PlainKind",
    "PrivateText",
    "Record",
    "Secret",
    "Section",
    "Setting",
    "Span",
    "Switch",
    "Table",
    "Text",
    "Texts",
    "Whole",
    "every_setting",
    "outline_of",
]

ENVIRONMENT_PREFIX = "PENSTOCK_"
# How others write the name of a setting, so that what works there can be pasted here.
FOREIGN_SPELLINGS = {"mcpServers": "mcp_servers"}
_REFERENCES = frozenset({CommandReference, EnvironmentReference, FileReference})


class Form(Struct, frozen=True, kw_only=True):
    """What a text must look like. `pattern` covers the whole text; `check` says what a pattern cannot.

    `anchor`: a path, or a module that may be a path, is found from the folder of the file that names it.
    """

    expected: str
    pattern: str | None = None
    check: Callable[[str], bool] | None = None
    anchor: Literal["path", "module"] | None = None


class Key(Struct, frozen=True):
    """What a declaration says beside type and default; `aliases` are other variables that set the key."""

    description: str
    flag: str | None = None
    aliases: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    form: Form | None = None


class Switch(Struct, frozen=True):
    """True or false."""


class Whole(Struct, frozen=True):
    """A whole number."""

    minimum: float | None = None
    maximum: float | None = None


class Number(Struct, frozen=True):
    """A number; one that counts seconds may also be written as a length of time."""

    minimum: float | None = None
    maximum: float | None = None
    counts_seconds: bool = False


class Span(Struct, frozen=True):
    """A length of time with its unit; the bounds are seconds."""

    minimum: float | None = None
    maximum: float | None = None


class Text(Struct, frozen=True):
    """A text that is not empty."""

    form: Form | None = None


class Choice(Struct, frozen=True):
    """One of a few words."""

    words: tuple[str, ...]


class Texts(Struct, frozen=True):
    """A list of texts."""

    form: Form | None = None


class Secret(Struct, frozen=True):
    """A reference to a secret."""


class PrivateText(Struct, frozen=True):
    """A text that may hold `${secret:NAME}`, or a reference to a secret that is the whole text."""


class Anything(Struct, frozen=True):
    """Any JSON value."""


class Table(Struct, frozen=True):
    """Named things of one kind; `names` is what their names must look like."""

    items: Record | Secret | PrivateText
    names: Form | None = None


class Record(Struct, frozen=True):
    """An object with members of its own; `made` is its class."""

    made: type[Struct]
    members: tuple[Setting, ...]


PlainKind: TypeAlias = Switch | Whole | Number | Span | Text | Choice | Anything
Kind: TypeAlias = PlainKind | Texts | Secret | PrivateText | Table | Record


class Setting(Struct, frozen=True, kw_only=True):
    """One key. A key without a default must be given; an optional one may be null."""

    path: str
    kind: Kind
    key: Key
    default: Any
    optional: bool

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]

    @property
    def attribute(self) -> str:
        """What Python calls it: `import` is a word of its own there."""
        return f"{self.name}_" if iskeyword(self.name) else self.name

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is NODEFAULT

    @property
    def variable(self) -> str:
        """The variable that sets it."""
        return ENVIRONMENT_PREFIX + self.path.replace(".", "_").upper()

    @property
    def variables(self) -> tuple[str, ...]:
        """Every variable that sets it; the first that is set counts."""
        return (self.variable, *self.key.aliases)


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
    inner, key = get_args(annotation)
    optional = _is_union(inner) and type(None) in get_args(inner)
    members = tuple(member for member in get_args(inner) if member is not type(None)) if _is_union(inner) else (inner,)
    return Setting(path=path, kind=_kind(members, key, path), key=key, default=default, optional=optional)


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in {Union, UnionType}


def _kind(members: tuple[Any, ...], key: Key, path: str) -> Kind:
    found = frozenset(members)
    if found == _REFERENCES:
        return Secret()
    if found == _REFERENCES | {str}:
        return PrivateText()
    [annotation] = members
    match get_origin(annotation):
        case None:
            return _plain_kind(annotation, key, path)
        case origin if origin is Literal:
            return Choice(get_args(annotation))
        case origin if origin is tuple:
            return Texts(key.form)
        case _:
            item = get_args(annotation)[1]
            kind = _kind(get_args(item) if _is_union(item) else (item,), Key(""), path)
            if not isinstance(kind, Record | Secret | PrivateText):
                raise TypeError(f"{path}: a table cannot hold {kind}")
            return Table(kind, key.form)


def _plain_kind(annotation: type, key: Key, path: str) -> Kind:
    if annotation is bool:
        return Switch()
    if annotation is int:
        return Whole(key.minimum, key.maximum)
    if annotation is float:
        return Number(key.minimum, key.maximum, counts_seconds=path.endswith("_seconds"))
    if annotation is timedelta:
        return Span(key.minimum, key.maximum)
    if annotation is str:
        return Text(key.form)
    if annotation is object:
        return Anything()
    if issubclass(annotation, Struct):
        members = outline_of(annotation).members.values()
        return Record(annotation, tuple(member for member in members if isinstance(member, Setting)))
    raise TypeError(f"{path}: no kind of setting is made of {annotation}")
