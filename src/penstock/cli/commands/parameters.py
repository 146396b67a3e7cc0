"""The parameters of a function as Click's: names, types, and what is required.

Defaults stay with the function: Click reports only what was given, so no default needs to be written as text.

Above it: `command`, `group`. Below it: `declaration`, Click.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import click
from click.core import ParameterSource

from penstock.base.lazy_import import lazy_import
from penstock.cli.declaration import Argument, Context, Option

if TYPE_CHECKING:
    from penstock.base import choices
else:
    choices = lazy_import("penstock.base.choices")

__all__ = ["ClickArgument", "ClickOption", "Signature", "WordType", "read_signature"]

_REQUIRED = inspect.Parameter.empty


class WordType(click.ParamType[Any]):
    """One word of an enumeration, or of a `Literal`. A mistyped one is answered with the nearest."""

    name = "word"

    def __init__(self, words: Mapping[str, Any]) -> None:
        self.words = words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the member of this name."""
        if not isinstance(value, str):
            return value
        if value not in self.words:
            self.fail(choices.refuse_choice(value, list(self.words)), param, ctx)
        return self.words[value]

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return all words."""
        return "|".join(self.words)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        """Return the words that begin with what was typed."""
        return [click.shell_completion.CompletionItem(word) for word in self.words if word.startswith(incomplete)]


class ClickOption(click.Option):
    """An option, with what help says about it."""

    panel: str | None = None
    default_note: str | None = None

    def value_name(self, ctx: click.Context) -> str:
        """Return what stands for the value; nothing for a yes or no."""
        return "" if self.is_flag else self.metavar or self.type.get_metavar(self, ctx) or self.type.name.upper()


class ClickArgument(click.Argument):
    """An argument, with what help says about it."""

    text: str = ""
    default_note: str | None = None

    def make_metavar(self, ctx: click.Context) -> str:
        """Return the name in a line of usage: in brackets if it may be left out, with dots if it may be repeated."""
        name = (self.metavar or str(self.name).upper()).removesuffix("...")
        return (name if self.required else f"[{name}]") + ("..." if self.nargs == -1 else "")


@dataclass(frozen=True, slots=True)
class Signature:
    """A function as a command: its parameters for Click, and how it is called with their values."""

    function: Callable[..., Any]
    parameters: tuple[click.Parameter, ...]
    defaults: Mapping[str, Any]
    lists: frozenset[str]
    groups: Mapping[str, tuple[type[Any], tuple[str, ...]]]
    """Parameters that stand for several options: the dataclass, and the names of its fields."""
    callbacks: Mapping[str, Callable[[Context, Any], Any]]
    contexts: tuple[str, ...]

    def call(self, ctx: Context, /, **given: Any) -> Any:
        """Call the function with the values of a command line."""
        values = {name: self._value(ctx, name, given.get(name)) for name in self.defaults}
        for name, (group, names) in self.groups.items():
            values[name] = group(**{member: values.pop(member) for member in names})
        return self.function(**values, **dict.fromkeys(self.contexts, ctx))

    def _value(self, ctx: Context, name: str, value: Any) -> Any:
        if ctx.get_parameter_source(name) in (None, ParameterSource.DEFAULT):
            value = self.defaults[name]
        elif name in self.lists:
            value = list(value or ())
        callback = self.callbacks.get(name)
        return value if callback is None else callback(ctx, value)


def read_signature(function: Callable[..., Any]) -> Signature:
    """Read how a function wants to be called."""
    hints = get_type_hints(function, include_extras=True)
    parameters: list[click.Parameter] = []
    defaults: dict[str, Any] = {}
    groups: dict[str, tuple[type[Any], tuple[str, ...]]] = {}
    callbacks: dict[str, Callable[[Context, Any], Any]] = {}
    lists: set[str] = set()
    contexts: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        annotation = hints.get(name, parameter.annotation)
        if annotation is Context:
            contexts.append(name)
            continue
        if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
            members = list(_fields_of(annotation))
            groups[name] = annotation, tuple(member for member, _, _ in members)
        else:
            members = [(name, annotation, parameter.default)]
        for member, declared, default in members:
            kind, declaration = _read_annotation(member, declared)
            parameters.append(_click_parameter(member, kind, declaration, default))
            defaults[member] = default
            if get_origin(kind) is list:
                lists.add(member)
            if isinstance(declaration, Option) and declaration.callback is not None:
                callbacks[member] = declaration.callback
    return Signature(function, tuple(parameters), defaults, frozenset(lists), groups, callbacks, tuple(contexts))


def _fields_of(group: type[Any]) -> Iterator[tuple[str, Any, Any]]:
    hints = get_type_hints(group, include_extras=True)
    for field in dataclasses.fields(group):
        yield field.name, hints[field.name], _REQUIRED if field.default is MISSING else field.default


def _read_annotation(name: str, annotation: Any) -> tuple[Any, Option | Argument]:
    """Return the type of a parameter without None, and its declaration."""
    if get_origin(annotation) is not Annotated:
        raise TypeError(f"the parameter {name!r} is not declared: annotate it with an Option or an Argument")
    kind, *notes = get_args(annotation)
    declaration = next((note for note in notes if isinstance(note, Option | Argument)), None)
    if declaration is None:
        raise TypeError(f"the parameter {name!r} has no Option or Argument")
    if get_origin(kind) in (Union, UnionType):
        [kind] = [member for member in get_args(kind) if member is not type(None)]
    return kind, declaration


def _click_parameter(name: str, kind: Any, declaration: Option | Argument, default: Any) -> click.Parameter:
    is_list = get_origin(kind) is list
    item = get_args(kind)[0] if is_list else kind
    is_required = default is _REQUIRED
    note = _default_note(default) if declaration.show_default else None
    if isinstance(declaration, Argument):
        argument = ClickArgument(
            [name],
            type=_type_of(item, None, None),
            required=is_required,
            nargs=-1 if is_list else 1,
            metavar=declaration.metavar,
        )
        argument.text, argument.default_note = declaration.help, note
        return argument
    settings: dict[str, Any] = {"required": is_required, "help": declaration.help}
    if item is bool:
        settings |= {"is_flag": True}
    else:
        settings |= {
            "type": _type_of(item, declaration.min, declaration.max),
            "multiple": is_list,
            "metavar": declaration.metavar,
        }
    option = ClickOption([name, *declaration.all_names(name)], **settings)
    option.panel, option.default_note = declaration.panel, note
    return option


def _type_of(kind: Any, least: float | None, most: float | None) -> click.ParamType[Any]:
    if get_origin(kind) is Literal:
        return WordType({str(word): word for word in get_args(kind)})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return WordType({str(member.value): member for member in kind})
    is_bounded = least is not None or most is not None
    match kind:
        case _ if kind is str:
            return click.STRING
        case _ if kind is int:
            return click.IntRange(_whole_bound(least), _whole_bound(most)) if is_bounded else click.INT
        case _ if kind is float:
            return click.FloatRange(least, most) if is_bounded else click.FLOAT
        case _ if kind is Path:
            return click.Path(path_type=Path)
        case _:
            raise TypeError(f"a command line has no values of the type {kind!r}")


def _whole_bound(bound: float | None) -> int | None:
    return None if bound is None else int(bound)


def _default_note(default: Any) -> str | None:
    """Return the default as help shows it; None if there is nothing to show."""
    if default is _REQUIRED or default is None or default is False or default in ("", [], ()):
        return None
    if default is True:
        return None
    if isinstance(default, Enum):
        return str(default.value)
    return f"{default:g}" if isinstance(default, float) else str(default)
