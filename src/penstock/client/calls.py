"""Turn an operation and its arguments into an HTTP request, and a response into a value. No I/O.

Above it: the clients. Below it: the table of operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import msgspec

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.client.errors import answer_unreadable
from penstock.client.operations import Operation, Parameter

__all__ = ["PreparedCall", "decoded", "prepare", "text_of"]

_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCall:
    """A request that is ready to be sent, more than once if necessary."""

    operation: Operation
    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes | None = None
    wait_seconds: float = 0.0
    """How much longer than usual the response may take, because the call asks the server to wait."""

    @property
    def repeatable(self) -> bool:
        """Whether sending it twice does no harm."""
        return self.operation.read_only or "Idempotency-Key" in self.headers


def prepare(operation: Operation, arguments: Mapping[str, Any], *, idempotency_key: str | None = None) -> PreparedCall:
    """Build the request of a call; unknown and missing arguments are refused here."""
    _check_names(operation, arguments)
    path, query, headers, body = operation.path, {}, {}, {}
    for parameter, value in _present_arguments(operation, arguments):
        match parameter.place:
            case "path":
                path = path.replace(f"{{{parameter.name}}}", quote(text_of(value), safe=""))
            case "query":
                query[parameter.name] = text_of(value)
            case "header":
                headers[parameter.header or parameter.name] = text_of(value)
            case "body":
                body[parameter.name] = value
    content = None
    if operation.method in _WITH_BODY:
        content = msgspec.json.encode(body[operation.whole_body] if operation.whole_body else body)
        headers["Content-Type"] = "application/json"
    if not operation.read_only and idempotency_key is not None:
        headers["Idempotency-Key"] = idempotency_key
    return PreparedCall(
        operation=operation,
        method=operation.method,
        path=path,
        query=query,
        headers=headers,
        content=content,
        wait_seconds=_wait_seconds(operation, arguments),
    )


def _check_names(operation: Operation, arguments: Mapping[str, Any]) -> None:
    known = {parameter.name for parameter in operation.parameters}
    unknown = sorted(set(arguments) - known)
    missing = [item.name for item in operation.parameters if item.required and item.name not in arguments]
    if unknown:
        message = f"{operation.name} has no argument {unknown[0]}"
        raise Rejected("INVALID_ARGUMENTS", message, f"known are: {', '.join(sorted(known)) or 'none'}")
    if missing:
        raise Rejected("INVALID_ARGUMENTS", f"{operation.name} needs {missing[0]}", "give it")


def _present_arguments(operation: Operation, arguments: Mapping[str, Any]) -> Iterator[tuple[Parameter, Any]]:
    for parameter in operation.parameters:
        value = arguments.get(parameter.name, msgspec.UNSET)
        if value is msgspec.UNSET or (value is None and not parameter.required and not parameter.nullable):
            continue
        if parameter.place == "path" and not text_of(value):
            # An empty segment would address another path.
            raise Rejected("INVALID_ARGUMENTS", f"{operation.name}: {parameter.name} is empty", "name what you mean")
        yield parameter, [value] if parameter.kind == "list" and isinstance(value, str | Mapping) else value


def text_of(value: Any) -> str:
    """Return a value as text for a path, a query or a header."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(text_of, value))
    return str(value)


def _wait_seconds(operation: Operation, arguments: Mapping[str, Any]) -> float:
    if not operation.waits:
        return 0.0
    asked = arguments.get("wait_seconds")
    if isinstance(asked, int | float):
        return min(float(asked), limits.SYNC_WAIT_SECONDS_MAX)
    return limits.SYNC_WAIT_SECONDS_MAX if arguments.get("sync") else limits.SYNC_WAIT_SECONDS


def decoded(operation: Operation, body: bytes, results: Sequence[Any]) -> Any:
    """Decode the response as the first of some types that fits; so the fullest type comes first."""
    for result in results[:-1]:
        try:
            return msgspec.json.decode(body, type=result)
        except msgspec.ValidationError:
            continue
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise answer_unreadable(operation.name, error) from None
    try:
        return msgspec.json.decode(body, type=results[-1])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise answer_unreadable(operation.name, error) from None
