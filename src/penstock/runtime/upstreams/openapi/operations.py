"""The operations of an OpenAPI document as tools: names, texts, one flat schema of arguments, and places in a request.

    imported = import_operations(read_document(text), overrides)
    imported.operations["get_order"].input_schema
    imported.refused  # with reasons

Parameters and the members of a body that is an object are arguments side by side; any other body is the argument
`body`. Two that have the same name are told apart by where they stand (`id`, `id_query`, `id_body`). An operation that
cannot be called as the document describes it is refused with a reason; it does not disappear.

Above it: the executor for APIs, the preview of the command line. Below it: `document`, `schemas`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias

import msgspec

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue, list_or_empty, object_or_empty
from penstock.runtime.upstreams.openapi.bodies import BodyPlan, ReadBody, read_body
from penstock.runtime.upstreams.openapi.document import ApiDocument, ReferenceProblem
from penstock.runtime.upstreams.openapi.schemas import SchemaTranslator, fitted, lenient, shortened

__all__ = ["ApiImport", "ApiOperation", "OperationOverride", "Parameter", "RefusedOperation", "import_operations"]

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
Location: TypeAlias = Literal["path", "query", "header"]
# A client's own headers, which the specification says to ignore among the parameters.
_OWN_HEADERS: Final = frozenset({"accept", "authorization", "content-type"})
_STYLES: Final[Mapping[str, frozenset[str]]] = {
    "path": frozenset({"simple"}),
    "query": frozenset({"form", "spaceDelimited", "pipeDelimited", "deepObject"}),
    "header": frozenset({"simple"}),
}
_PAGING: Final = frozenset(
    {"after", "before", "cursor", "ending_before", "limit", "marker", "next_token", "offset", "page", "page_size"}
    | {"page_token", "pagelen", "pagetoken", "pagesize", "per_page", "start", "starting_after", "maxresults"}
)
# What every client takes as the name of a tool and of an argument.
_ARGUMENT_CHARACTERS_MAX: Final = 64


class Parameter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where an argument stands in a request, and how it is written there."""

    argument: str
    name: str
    location: Location
    style: str
    explode: bool
    as_json: bool = False
    reserved: bool = False


class OperationOverride(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the side file says about an operation, in place of the document."""

    name: str | None = None
    title: str | None = None
    description: str | None = None
    hide: tuple[str, ...] = ()
    """Arguments that callers do not have; with `fixed`, they are sent anyway."""
    fixed: dict[str, Any] = {}
    """Values of arguments that are always sent, and that callers do not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiOperation:
    """An operation as a tool."""

    name: str
    key: str
    """`GET /orders/{id}`: what it is in the document, whatever it is called."""
    method: str
    path: str
    title: str | None
    description: str
    input_schema: JsonObject
    output_schema: JsonObject | None
    parameters: tuple[Parameter, ...] = ()
    body: BodyPlan | None = None
    fixed: Mapping[str, JsonValue] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    cut: bool = False
    """Whether deep levels of its schema were left out, because it is too large for a model."""

    def request(self) -> JsonObject:
        """Return what decides about the request of a call, as data: who accepts the tool accepts this too."""
        request: JsonObject = msgspec.json.decode(
            encode_bytes(
                {
                    "method": self.method,
                    "path": self.path,
                    "parameters": self.parameters,
                    "body": self.body,
                    "fixed": self.fixed,
                }
            )
        )
        return request


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedOperation:
    """An operation that cannot be offered, and why."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiImport:
    """The outcome of an import."""

    title: str
    server_url: str | None
    operations: Mapping[str, ApiOperation]
    refused: tuple[RefusedOperation, ...]
    security: Mapping[str, JsonObject]
    """The security schemes that the document names."""


def import_operations(
    document: ApiDocument, overrides: Mapping[str, OperationOverride] | None = None, *, output_schemas: bool = False
) -> ApiImport:
    """Make tools of all operations. Raises `Rejected` if an override names none, or two tools have one name."""
    overrides = overrides or {}
    reader = _Reader(document, SchemaTranslator(document), output_schemas)
    found: dict[str, ApiOperation] = {}
    refused: list[RefusedOperation] = []
    known: set[str] = set()
    for key, item, operation in _raw_operations(document):
        identifier = operation.get("operationId")
        override = overrides.get(key) or (overrides.get(identifier) if isinstance(identifier, str) else None)
        known.update(name for name in (key, identifier) if isinstance(name, str))
        try:
            made = reader.operation(key, item, operation, override or OperationOverride())
        except (ReferenceProblem, _Unusable) as problem:
            refused.append(RefusedOperation(key=key, reason=str(problem)))
            continue
        if made.name in found and override is not None and override.name is not None:
            message = f"{key} and {found[made.name].key} would both be called {made.name}"
            raise Rejected("OPENAPI_NAMES", message, "choose another `name` in the overrides")
        if made.name in found:
            made = _renamed(made)
        found[made.name] = made
    unknown = sorted(set(overrides) - known)
    if unknown:
        message = f"the overrides name {unknown[0]}, which the document does not have"
        raise Rejected("OPENAPI_OVERRIDE_UNKNOWN", message, "name an operationId, or a method and path: GET /orders")
    components = object_or_empty(document.root.get("components"))
    schemes = object_or_empty(components.get("securitySchemes"))
    return ApiImport(
        title=document.title,
        server_url=document.server_url(),
        operations={name: found[name] for name in sorted(found)},
        refused=tuple(refused),
        security={name: scheme for name, scheme in schemes.items() if isinstance(scheme, dict)},
    )


class _Unusable(Exception):
    """Why an operation cannot be called as it is described."""


def _raw_operations(document: ApiDocument) -> Iterator[tuple[str, JsonObject, JsonObject]]:
    paths = object_or_empty(document.root.get("paths"))
    number = 0
    for path, item in paths.items():
        if not path.startswith("/"):
            continue  # an extension (x-…)
        try:
            resolved = document.resolved(item)
        except ReferenceProblem:
            resolved = object_or_empty(item)
        for method in METHODS:
            operation = resolved.get(method)
            if isinstance(operation, dict):
                number += 1
                if number > limits.OPENAPI_OPERATIONS_MAX:
                    message = f"the document has more than {limits.OPENAPI_OPERATIONS_MAX} operations"
                    raise Rejected("OPENAPI_TOO_LARGE", message, "import a part of the API")
                yield f"{method.upper()} {path}", resolved, operation


def _renamed(made: ApiOperation) -> ApiOperation:
    """Return an operation whose name is taken, with a name that does not depend on the order in the document."""
    mark = sha256(made.key.encode()).hexdigest()[:6]
    name = f"{made.name[: limits.OPENAPI_TOOL_NAME_CHARACTERS_MAX - 7]}_{mark}"
    return replace(made, name=name)


@dataclass(slots=True)
class _Reader:
    """Reads operations of one document."""

    document: ApiDocument
    schemas: SchemaTranslator
    output_schemas: bool

    def operation(self, key: str, item: JsonObject, operation: JsonObject, override: OperationOverride) -> ApiOperation:
        method, _, path = key.partition(" ")
        if method == "TRACE":
            raise _Unusable("TRACE is never sent")
        arguments = _Arguments()
        parameters = self._parameters(item, operation, path, arguments)
        body = read_body(self.document, self.schemas, operation.get("requestBody"))
        plan = self._body(body, arguments) if body is not None else None
        for name in {*override.hide, *override.fixed}:
            arguments.hide(name, fixed=name in override.fixed)
        schema, cut = fitted(arguments.schema(), limits.OPENAPI_SCHEMA_BYTES_MAX)
        return ApiOperation(
            name=_tool_name(override.name, operation.get("operationId"), method, path),
            key=key,
            method=method,
            path=path,
            title=override.title or _text(operation.get("summary"), limits.OPENAPI_PROPERTY_CHARACTERS_MAX),
            description=override.description or _description(key, operation, parameters, cut),
            input_schema=schema,
            output_schema=self._output(operation) if self.output_schemas else None,
            parameters=parameters,
            body=plan,
            fixed=override.fixed,
            tags=tuple(tag for tag in list_or_empty(operation.get("tags")) if isinstance(tag, str)),
            cut=cut,
        )

    def _parameters(
        self, item: JsonObject, operation: JsonObject, path: str, arguments: _Arguments
    ) -> tuple[Parameter, ...]:
        declared: dict[tuple[str, str], JsonObject] = {}
        for given in (*list_or_empty(item.get("parameters")), *list_or_empty(operation.get("parameters"))):
            parameter = self.document.resolved(given)
            name, location = parameter.get("name"), parameter.get("in")
            if isinstance(name, str) and isinstance(location, str):
                declared[name, location] = parameter
        made = [
            self._parameter(name, location, parameter, arguments)
            for (name, location), parameter in declared.items()
            if not _is_left_out(name, location, parameter)
        ]
        places = {parameter.name for parameter in made if parameter.location == "path"}
        for name in re.findall(r"\{([^{}]+)\}", path):
            if name not in places:
                # Documents forget them; without a value there is no address.
                argument = arguments.add(name, "path", {"type": "string"}, required=True)
                made.append(Parameter(argument=argument, name=name, location="path", style="simple", explode=False))
        return tuple(made)

    def _parameter(self, name: str, location: str, parameter: JsonObject, arguments: _Arguments) -> Parameter:
        content = parameter.get("content")
        as_json = isinstance(content, dict) and bool(content)
        written: JsonValue = parameter.get("schema")
        if isinstance(content, dict) and content:
            first = next(iter(content.values()))
            written = first.get("schema") if isinstance(first, dict) else None
        place: Location
        match location:
            case "path" | "query" | "header":
                place = location
            case "querystring":
                raise _Unusable("it takes the whole query string as one parameter")
            case _:
                raise _Unusable(f"it needs the {location} {name}")
        style = parameter.get("style") or ("form" if place == "query" else "simple")
        if style not in _STYLES[place]:
            raise _Unusable(f"its parameter {name} is written in the style {style}")
        schema = self.schemas.translated(written, "input")
        text = parameter.get("description")
        if isinstance(text, str) and text.strip():
            schema = {**schema, "description": shortened(text, limits.OPENAPI_PROPERTY_CHARACTERS_MAX)}
        argument = arguments.add(name, place, schema, required=parameter.get("required") is True or place == "path")
        explode = parameter.get("explode")
        return Parameter(
            argument=argument,
            name=name,
            location=place,
            style=str(style),
            explode=explode if isinstance(explode, bool) else style in ("form", "deepObject"),
            as_json=as_json,
            reserved=parameter.get("allowReserved") is True,
        )

    def _body(self, body: ReadBody, arguments: _Arguments) -> BodyPlan:
        definitions = object_or_empty(body.schema.get("$defs"))
        if body.members is None:
            argument = arguments.add("body", "body", body.schema, required=body.required)
            return msgspec.structs.replace(body.plan, argument=argument)
        members: dict[str, str] = {}
        for name, schema in body.members.items():
            whole = {**schema, "$defs": definitions} if definitions else schema
            argument = arguments.add(name, "body", whole, required=body.required and name in body.required_members)
            members[argument] = name
        return msgspec.structs.replace(body.plan, members=members)

    def _output(self, operation: JsonObject) -> JsonObject | None:
        responses = object_or_empty(operation.get("responses"))
        status = next((code for code in sorted(responses) if code.startswith("2")), "default")
        response = self.document.resolved(responses.get(status))
        for media_type, media in object_or_empty(response.get("content")).items():
            if "json" in media_type and isinstance(media, dict):
                schema, _ = fitted(
                    self.schemas.translated(media.get("schema"), "output"), limits.OPENAPI_SCHEMA_BYTES_MAX
                )
                definitions = schema.pop("$defs", None)
                body: JsonObject = {"type": "object", "properties": {"status": {"type": "integer"}, "body": schema}}
                whole: JsonObject = {**body, "$defs": definitions} if definitions else body
                relaxed = lenient(whole)
                return {**relaxed, "type": "object"} if isinstance(relaxed, dict) else None
        return None


@dataclass(slots=True)
class _Arguments:
    """The arguments of a tool while they are gathered."""

    _schemas: dict[str, JsonObject] = field(default_factory=dict)
    _required: list[str] = field(default_factory=list)
    _definitions: dict[str, JsonValue] = field(default_factory=dict)

    def add(self, name: str, place: str, schema: JsonObject, *, required: bool) -> str:
        """Add an argument, and return what it is called."""
        cleaned = re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_") or "value"
        argument, number = cleaned[:_ARGUMENT_CHARACTERS_MAX], 1
        while argument in self._schemas:
            mark = f"_{place}" if number == 1 else f"_{place}{number}"
            argument, number = f"{cleaned[: _ARGUMENT_CHARACTERS_MAX - len(mark)]}{mark}", number + 1
        definitions = object_or_empty(schema.get("$defs"))
        self._definitions.update(definitions)  # names are unique in a document
        self._schemas[argument] = {key: value for key, value in schema.items() if key != "$defs"}
        if required:
            self._required.append(argument)
        return argument

    def hide(self, argument: str, *, fixed: bool) -> None:
        """Hide an argument from callers. Raises `_Unusable` if it does not exist or the request needs it."""
        if argument not in self._schemas:
            raise _Unusable(f"the overrides name its argument {argument}, which it does not have")
        if argument in self._required and not fixed:
            raise _Unusable(f"the overrides hide its argument {argument}, which it needs")
        del self._schemas[argument]
        self._required = [name for name in self._required if name != argument]

    def schema(self) -> JsonObject:
        """Return the schema of all arguments together."""
        properties: JsonObject = dict(self._schemas)
        made: JsonObject = {"type": "object", "properties": properties, "additionalProperties": False}
        if self._required:
            required: list[JsonValue] = list(self._required)
            made["required"] = required
        text = encode_bytes(properties).decode()
        used = _used(self._definitions, text)
        return {**made, "$defs": {name: self._definitions[name] for name in sorted(used)}} if used else made


def _used(definitions: Mapping[str, JsonValue], text: str) -> set[str]:
    """Return the definitions that a schema needs; some belong to arguments that were hidden."""
    found: set[str] = set()
    waiting = [text]
    while waiting:
        for name in re.findall(r'"\$ref":"#/\$defs/([^"]+)"', waiting.pop()):
            if name not in found and name in definitions:
                found.add(name)
                waiting.append(encode_bytes(definitions[name]).decode())
    return found


def _is_left_out(name: str, location: str, parameter: JsonObject) -> bool:
    """Whether a parameter is not for callers: headers of the client itself, and cookies that may be missing."""
    if location == "header":
        return name.lower() in _OWN_HEADERS
    return location == "cookie" and parameter.get("required") is not True


def _tool_name(chosen: str | None, identifier: JsonValue, method: str, path: str) -> str:
    if chosen is not None:
        if not re.fullmatch(r"[A-Za-z0-9_-]+", chosen) or len(chosen) > limits.OPENAPI_TOOL_NAME_CHARACTERS_MAX:
            hint = f"use at most {limits.OPENAPI_TOOL_NAME_CHARACTERS_MAX} letters, digits, `_` and `-`"
            raise Rejected("OPENAPI_NAMES", f"{chosen} in the overrides is not a tool name", hint)
        return chosen
    text = identifier if isinstance(identifier, str) and identifier.strip() else _path_name(method, path)
    name = re.sub(r"[^A-Za-z0-9-]+", "_", text).strip("_") or _path_name(method, path)
    if len(name) <= limits.OPENAPI_TOOL_NAME_CHARACTERS_MAX:
        return name
    mark = sha256(name.encode()).hexdigest()[:6]
    return f"{name[: limits.OPENAPI_TOOL_NAME_CHARACTERS_MAX - 7].rstrip('_')}_{mark}"


def _path_name(method: str, path: str) -> str:
    words = [re.sub(r"[{}]", "", part) for part in path.split("/") if part]
    joined = re.sub(r"[^A-Za-z0-9-]+", "_", "_".join([method.lower(), *words])).strip("_")
    return joined or method.lower()


def _description(key: str, operation: JsonObject, parameters: tuple[Parameter, ...], cut: bool) -> str:
    summary, text = operation.get("summary"), operation.get("description")
    said = _text(text, limits.OPENAPI_DESCRIPTION_CHARACTERS_MAX) or _text(
        summary, limits.OPENAPI_DESCRIPTION_CHARACTERS_MAX
    )
    said = said or key
    parts = [said if said.endswith((".", "!", "?", "…")) else f"{said}."]
    if operation.get("deprecated") is True:
        parts.append("Deprecated.")
    paging = [item.argument for item in parameters if item.location == "query" and _is_paging(item.name)]
    if paging:
        parts.append(
            f"Paged: {', '.join(paging)}; `next` in the answer has the arguments for the following page, if known."
        )
    if cut:
        parts.append("Deep parts of the arguments are not described here.")
    return " ".join(parts)


def _is_paging(name: str) -> bool:
    return name.lower().replace("-", "_") in _PAGING


def _text(value: JsonValue, characters_max: int) -> str | None:
    return shortened(value, characters_max) if isinstance(value, str) and value.strip() else None
