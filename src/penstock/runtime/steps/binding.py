"""Convert JSON arguments to the parameters of a Python function, and its return value to JSON.

A function's parameters become one msgspec type, built once; binding is then a single conversion. msgspec supports
dataclasses, msgspec Structs, TypedDicts, literals, unions and so on; pydantic-like classes are recognised by their
methods, so that pydantic is never imported here.

Above it: `registry` compiles a signature for every step. It neither calls functions nor knows where they come from.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ForwardRef, Literal, TypeAlias

import msgspec

from penstock.base import limits
from penstock.base.encoding import SafeEncoder
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue, exceeds_depth, json_pointer
from penstock.definitions.source.findings import suggestion

__all__ = ["Arguments", "BindingProblem", "NotJson", "Signature", "compile_signature", "to_json"]

Arguments: TypeAlias = dict[str, Any]

_ENCODER_BY_TYPE = "model_dump"
_DECODER_BY_TYPE = "model_validate"
_SCHEMA_BY_TYPE = "model_json_schema"
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_CONTAINERS = (list, dict)
# JSON that nests deeper than the limit has at least an opening and a closing character per level.
_SHALLOW_BYTES = 2 * limits.JSON_DEPTH_MAX


class NotJson(Exception):
    """A value that has no JSON form; the message says why."""


@dataclass(frozen=True, slots=True)
class BindingProblem:
    """Arguments that do not fit the function, described so that the author of a document can fix them."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The parameters of a function as one type. `converts` is False if every value passes unchanged."""

    label: str
    model: type[msgspec.Struct]
    names: tuple[str, ...]
    known: frozenset[str]
    required: frozenset[str]
    defaults: Mapping[str, Any]
    converts: bool
    takes_more: bool
    returns: Any

    def bind(self, given: JsonValue) -> Arguments | BindingProblem:
        """Return the values to call the function with. They are copies, so that a step may change them."""
        if given is None or given == {}:
            if not self.required:
                return {}
            given = {}
        if not isinstance(given, dict):
            return BindingProblem(f"the arguments of {self.label} must be an object, not {_kind(given)}")
        arguments: Arguments = dict(given)
        for value in arguments.values():
            if type(value) in _CONTAINERS:
                arguments = msgspec.to_builtins(given)
                break
        if self.converts or not (
            self.required <= arguments.keys() and (self.takes_more or arguments.keys() <= self.known)
        ):
            return self._converted(arguments)
        return arguments

    def _converted(self, given: Arguments) -> Arguments | BindingProblem:
        try:
            made = msgspec.convert(given, self.model, dec_hook=_decode)
        except msgspec.ValidationError as error:
            # JSON has one kind of number, so 3.0 is a valid integer there, but not in Python.
            try:
                made = msgspec.convert(_whole_numbers(given), self.model, dec_hook=_decode)
            except msgspec.ValidationError:
                return self._explained(given, str(error))
        arguments = {}
        for name in self.names:
            value = getattr(made, name)
            if value is not msgspec.UNSET:
                arguments[name] = value
        if self.takes_more:
            arguments.update((name, value) for name, value in given.items() if name not in arguments)
        return arguments

    def _explained(self, given: Arguments, message: str) -> BindingProblem:
        missing = [name for name in self.names if name in self.required and name not in given]
        if missing:
            return BindingProblem(f"{self.label} needs the argument {_listed(missing)}, which `with` does not give")
        unknown = [name for name in given if name not in self.names]
        if unknown and not self.takes_more:
            hint = suggestion(unknown[0], self.names)
            takes = f"it takes {_listed(self.names)}" if self.names else "it takes none"
            return BindingProblem(f"{self.label} has no parameter {_listed(unknown)}; {hint or takes}")
        complaint, _, place = message.partition(" - at `$.")
        return BindingProblem(f"the argument `{place.rstrip('`')}` of {self.label} does not fit: {complaint}")

    def input_schema(self) -> JsonObject:
        """Return the JSON Schema of the arguments."""
        schema = _schema(self.model)
        definitions = schema.pop("$defs", {})
        top = definitions.pop(str(schema["$ref"]).rpartition("/")[2]) if "$ref" in schema else schema
        top.pop("title", None)
        for name, default in self.defaults.items():
            try:
                top["properties"][name].setdefault("default", to_json(default))
            except NotJson:
                continue  # a default that is not JSON does not matter outside the function
        return {**top, "$defs": definitions} if definitions else top

    def output_schema(self) -> JsonObject | None:
        """Return the JSON Schema of the return value, if the function declares one."""
        return None if self.returns is inspect.Parameter.empty else _schema(self.returns)


def compile_signature(function: Callable[..., Any], label: str, *, without: str | None = None) -> Signature:
    """Read a function's parameters; `without` names the one that is not an argument."""
    hints = type_hints(function, label)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    required, defaults, takes_more, converts = set(), {}, False, False
    for name, parameter in inspect.signature(function).parameters.items():
        if name == without or parameter.kind in _VARIADIC:
            takes_more = takes_more or parameter.kind is inspect.Parameter.VAR_KEYWORD
            continue
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise _invalid(label, f"its parameter `{name}` is positional-only, and arguments are given by name")
        annotation = _known(hints.get(name, Any))
        converts = converts or annotation is not Any
        if parameter.default is inspect.Parameter.empty:
            required.add(name)
            fields.append((name, annotation))
        else:
            defaults[name] = parameter.default
            fields.append((name, annotation | msgspec.UnsetType if annotation is not Any else Any, msgspec.UNSET))
    model = _model(fields, label, forbid_unknown_fields=not takes_more)
    return Signature(
        label=label,
        model=model,
        names=tuple(field[0] for field in fields),
        known=frozenset(field[0] for field in fields),
        required=frozenset(required),
        defaults=defaults,
        converts=converts,
        takes_more=takes_more,
        returns=_known(hints["return"]) if "return" in hints else inspect.Parameter.empty,
    )


def type_hints(function: Callable[..., Any], label: str) -> dict[str, Any]:
    """Return the evaluated annotations of a function."""
    while isinstance(function, functools.partial):
        function = function.func
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        return typing.get_type_hints(target, include_extras=True)
    except NameError as error:
        raise _invalid(label, f"the type `{error.name}` in its annotations is not known in its module") from None


def _model(fields: list[Any], label: str, *, forbid_unknown_fields: bool) -> type[msgspec.Struct]:
    model = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=forbid_unknown_fields)
    try:
        msgspec.convert({}, model, dec_hook=_decode)
    except msgspec.ValidationError:
        return model  # only the values are missing: the types themselves are fine
    except TypeError as error:
        raise _invalid(label, f"its parameters cannot be made from JSON: {error}") from None
    return model


def _invalid(label: str, message: str) -> Rejected:
    return Rejected("STEP_INVALID", f"{label} cannot be a step: {message}", "change the function's parameters")


def _known(annotation: Any) -> Any:
    """Return the annotation with recursive references (as in `JsonValue`) replaced by `Any`."""
    if isinstance(annotation, ForwardRef):
        return Any
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal or not inner:
        return annotation
    if origin is typing.Annotated:
        return annotation if (known := _known(inner[0])) is inner[0] else known
    new = tuple(_known(item) if not isinstance(item, list) else item for item in inner)
    if all(one is other for one, other in zip(new, inner, strict=True)):
        return annotation
    if origin in (types.UnionType, typing.Union):
        return Any if Any in new else functools.reduce(operator.or_, new)
    return origin[new]


def to_json(value: Any) -> JsonValue:
    """Return a value as JSON would decode it, so that a replay reads exactly what the run saw."""
    try:
        text = _ENCODER.encode(value)
        result: JsonValue = _DECODER.decode(text)
    except (TypeError, ValueError, NotImplementedError) as error:
        raise NotJson(str(error)) from None
    except RecursionError:
        raise NotJson("it contains itself, or nests too deep") from None
    # The encoder writes null for a number that is not finite, so a text without null had none.
    if b"null" in text and (message := _not_finite(msgspec.to_builtins(value, enc_hook=_encode, str_keys=True))):
        raise NotJson(message)
    if len(text) > limits.STATE_BYTES_MAX:
        raise NotJson(f"it has {len(text)} bytes, more than the {limits.STATE_BYTES_MAX} that a run can keep")
    if len(text) > _SHALLOW_BYTES and exceeds_depth(result, limits.JSON_DEPTH_MAX):
        raise NotJson(f"it nests deeper than {limits.JSON_DEPTH_MAX} levels")
    return result


def _not_finite(value: Any) -> str | None:
    """Return where a value has a number that JSON does not allow, or None."""
    waiting: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while waiting:
        path, item = waiting.pop()
        if isinstance(item, float) and not math.isfinite(item):
            place = json_pointer(path)
            return f"{item!r}{f' at {place}' if place else ''} is not a number in JSON"
        if isinstance(item, dict):
            waiting += [((*path, str(name)), child) for name, child in item.items()]
        elif isinstance(item, list | tuple):
            waiting += [((*path, index), child) for index, child in enumerate(item)]
    return None


def _encode(value: Any) -> Any:
    if hasattr(type(value), _ENCODER_BY_TYPE):
        return value.model_dump(mode="json")
    raise NotImplementedError(f"a value of type {type(value).__name__} has no JSON form")


_ENCODER = SafeEncoder(enc_hook=_encode)
_DECODER = msgspec.json.Decoder()


def _decode(wanted: Any, value: Any) -> Any:
    if not hasattr(wanted, _DECODER_BY_TYPE):
        raise ValueError(f"a {wanted.__name__} cannot be made from JSON")
    try:
        return wanted.model_validate(value)
    except ValueError as error:
        raise ValueError(_foreign_problems(error)) from None


def _foreign_problems(error: ValueError) -> str:
    """Return the problems of a pydantic error, one per line, without links and without the values."""
    listed = getattr(error, "errors", None)
    if not callable(listed):
        return str(error)
    return "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in listed())


def _schema(wanted: Any) -> dict[str, Any]:
    return msgspec.json.schema(wanted, schema_hook=_foreign_schema)


def _foreign_schema(wanted: Any) -> dict[str, Any]:
    if hasattr(wanted, _SCHEMA_BY_TYPE):
        schema: dict[str, Any] = wanted.model_json_schema()
        return schema
    raise NotImplementedError(f"there is no JSON Schema for {wanted.__name__}")


def _whole_numbers(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, dict):
        return {name: _whole_numbers(item) for name, item in value.items()}
    return [_whole_numbers(item) for item in value] if isinstance(value, list) else value


def _listed(names: typing.Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _kind(value: JsonValue) -> str:
    names = {str: "a text", list: "a list", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(value), "null")
