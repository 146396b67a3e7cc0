"""Declaring built-in operations: a typed function becomes a capability.

    @operation("workflow.get", route=Route(method="GET", path="/workflows/{workflow_id}"), scopes=("workflow:read",))
    async def workflow_get(context: Context, given: GetWorkflow) -> Reply[WorkflowView]:
        '''Get a workflow with its document.'''

Input and output are msgspec structs. Their JSON Schemas and the conversion come from the annotations, the texts from
the docstring (its first line is the title). Arguments that do not fit are refused with every violation at once.

Above it: the modules with operations. Below it: `capability`, `definitions.schemas`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import cache, partial
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from penstock.base import limits
from penstock.base.errors import PenstockError, Rejected
from penstock.base.json import JsonObject, JsonValue, exceeds_depth
from penstock.definitions.schemas.compiled import CompiledSchema, SchemaProblem, compile_schema, violations
from penstock.definitions.schemas.misfits import tell_violations, unfit_message
from penstock.governance.holds import Approval
from penstock.operations.catalogue.capability import (
    Annotations,
    Authorization,
    Capability,
    DefinitionKind,
    EventStream,
    Example,
    Governance,
    Handler,
    Reply,
    Revealed,
    Route,
)
from penstock.operations.catalogue.reaching import Reaches

__all__ = ["check_arguments", "operation", "schema_of"]


def schema_of(kind: Any) -> JsonObject:
    """Return the self-contained JSON Schema of a type; the definitions that it refers to are under `$defs`."""
    (schema,), definitions = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    reference = schema.get("$ref")
    if isinstance(reference, str):
        name = reference.rpartition("/")[2]
        # A type that refers to itself keeps its definition.
        body = definitions[name] if _refers(definitions, name) else definitions.pop(name)
        schema = dict(body)
    return {**schema, "$defs": definitions} if definitions else schema


def _refers(value: Any, name: str) -> bool:
    if isinstance(value, dict):
        return value.get("$ref") == f"#/$defs/{name}" or any(_refers(item, name) for item in value.values())
    return isinstance(value, list) and any(_refers(item, name) for item in value)


def operation(  # noqa: PLR0913  # everything that there is to say about an operation
    name: str,
    *,
    route: Route | None,
    scopes: Sequence[str],
    reads: bool = False,
    destructive: bool = False,
    idempotent: bool = False,
    open_world: bool = False,
    risk: Literal["low", "medium", "high", "critical"] = "low",
    bucket: Literal["read", "write", "admin"] | None = None,
    subject: str | Callable[[JsonObject], str | None] | None = None,
    resource_kind: str | None = None,
    groups: Sequence[str] = (),
    stands_for: Callable[[JsonObject], tuple[str, JsonObject, PenstockError] | None] | None = None,
    errors: Sequence[str] = (),
    examples: Sequence[Example] = (),
    repeat: Callable[[Any, JsonObject], JsonValue] | None = None,
    follow: Callable[[Any, Any, JsonObject], Awaitable[JsonValue]] | None = None,
    holdable: bool = True,
    stores: DefinitionKind | None = None,
    witness: Callable[[Any, Any], Awaitable[JsonValue]] | None = None,
    impact: Callable[[Any, Any], Awaitable[JsonObject]] | None = None,
    find: Callable[[Any, Any], Awaitable[object]] | None = None,
    reaches: Reaches | None = None,
    secrets: Callable[[Any, JsonObject], Awaitable[dict[str, JsonValue]]] | None = None,
    reveals: Revealed | Callable[[JsonObject], Revealed] = None,
    approvals: Callable[[Any, Any], Awaitable[tuple[Approval, ...]]] | None = None,
    takes: Any = None,
    gives: Any = None,
    words: str | None = None,
) -> Callable[[Handler], Capability]:
    """Turn a handler function into a capability.

    `subject` is the member of the input that names what the call is about, or a function that finds it in the input. If
    only the handler knows it, such as the id of something new, the handler reports it (`CallRecord.about`). Its kind is
    the first part of the name, unless `resource_kind` says otherwise. `groups` are further groups of actions in
    policies. `stores` is the kind of definition that a call stores, which takes effect later (see `Governance`).
    `holdable`, `witness`, `impact`, `find`, `reaches`, `secrets` and `approvals` are about calls that wait:
    see `Governance` and `Capability`, which also has `stands_for`. `reveals` says that the answer has contents of runs
    beside their output.

    A handler's signature and docstring normally give the types and the texts. Code that declares operations in bulk
    passes them instead: the type of the input (`takes`), of the answer (`gives`), and the `words`.
    """

    def declare(handler: Handler) -> Capability:
        hints = get_type_hints(handler) if takes is None else {"given": takes, "return": gives}
        input_type = hints["given"]
        usual_bucket: Literal["read", "write"] = "read" if reads else "write"
        title, _, description = (words or inspect.getdoc(handler) or name).partition("\n")
        return Capability(
            name=name,
            title=title.strip().removesuffix("."),
            description=" ".join(f"{title}\n{description}".split()),
            make_input_schema=partial(schema_of, input_type),
            make_output_schema=partial(_output_schema, hints["return"]),
            annotations=Annotations(
                read_only=reads, destructive=destructive, idempotent=idempotent or reads, open_world=open_world
            ),
            governance=Governance(
                risk=risk, scopes=tuple(scopes), holdable=holdable, bucket=bucket or usual_bucket, stores=stores
            ),
            handler=handler,
            convert=partial(check_arguments, input_type),
            authorization=partial(_authorization, name, resource_kind or name.partition(".")[0], subject),
            policy_groups=tuple(groups),
            stands_for=stands_for,
            route=route,
            errors=tuple(errors),
            examples=tuple(examples),
            repeat=repeat,
            follow=follow,
            witness=witness,
            impact=impact,
            find=find,
            reaches=reaches,
            secrets=secrets,
            reveals=reveals if reveals is None or callable(reveals) else lambda arguments: reveals,
            approvals=approvals,
        )

    return declare


@cache
def _compiled(input_type: Any) -> CompiledSchema:
    compiled = compile_schema(schema_of(input_type))
    if isinstance(compiled, SchemaProblem):
        raise TypeError(f"{input_type.__name__}: {compiled.message} at {compiled.path}")
    return compiled


def check_arguments(input_type: Any, arguments: JsonObject) -> Any:
    """Convert arguments to the handler's input; raise `Rejected` with every violation if they do not fit."""
    plain = _are_plain(arguments)
    if not plain and exceeds_depth(arguments, limits.JSON_DEPTH_MAX):
        message = f"the arguments are nested deeper than {limits.JSON_DEPTH_MAX} levels"
        raise Rejected("ARGUMENTS_TOO_DEEP", message, "send a value with fewer levels")
    try:
        given = msgspec.convert(arguments, input_type)
    except msgspec.ValidationError as error:
        listed = _listed(input_type, arguments) or [{"pointer": "", "keyword": "type", "message": str(error)}]
    else:
        # In Python, `$` also matches before a line feed at the end; in JSON Schema it does not.
        if plain or not any(map(_ends_a_line, arguments.values())):
            return given
        listed = _listed(input_type, arguments)
        if not listed:
            return given
    message = unfit_message("the arguments do not fit:", listed)
    raise Rejected("INVALID_ARGUMENTS", message, "correct the fields that `errors` lists", {"errors": listed})


def _listed(input_type: Any, arguments: JsonObject) -> list[JsonValue]:
    compiled = _compiled(input_type)
    return tell_violations(compiled.schema, violations(compiled, arguments))


def _are_plain(arguments: JsonObject) -> bool:
    """Whether all are scalars and no string ends with a line feed.

    Nearly every call is so, and needs no other check.
    """
    for value in arguments.values():
        if isinstance(value, str):
            if value.endswith("\n"):
                return False
        elif isinstance(value, (list, dict)):
            return False
    return True


def _ends_a_line(value: JsonValue) -> bool:
    if isinstance(value, list):
        return any(isinstance(item, str) and item.endswith("\n") for item in value)
    return isinstance(value, str) and value.endswith("\n")


def _authorization(
    name: str, kind: str, subject: str | Callable[[JsonObject], str | None] | None, arguments: JsonObject
) -> Authorization:
    identity = subject(arguments) if callable(subject) else arguments.get(subject) if subject else None
    return Authorization(action=name, resource_kind=kind, resource_id=identity if isinstance(identity, str) else None)


def _output_schema(kind: Any) -> JsonObject | None:
    if get_origin(kind) is Reply:
        (kind,) = get_args(kind)
    if kind is EventStream or kind is type(None):
        return None
    if get_origin(kind) is UnionType:
        found, definitions = msgspec.json.schema_components(get_args(kind), ref_template="#/$defs/{name}")
        return {"type": "object", "anyOf": list(found), "$defs": definitions}
    return schema_of(kind)
