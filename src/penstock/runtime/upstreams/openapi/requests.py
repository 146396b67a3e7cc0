"""A call of an operation as a request: address, headers, body.

Arguments were checked against the schema of the tool before. A value that still cannot be written into a request is
refused with the name of its argument. A value never leaves its place: in a path its slashes are escaped, and no part of
it is dots alone, however often the API decodes it.

Above it: the executor for APIs. Below it: `operations` says where arguments stand.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from penstock.base.addresses import stays_in_place
from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject, JsonValue
from penstock.runtime.upstreams.openapi.bodies import BodyPlan, MemberEncoding
from penstock.runtime.upstreams.openapi.operations import ApiOperation, Parameter

__all__ = ["ApiRequest", "RequestProblem", "build_request"]

_RESERVED: Final = ":/?#[]@!$&'()*+,;="
_SHOWN_CHARACTERS: Final = 100
_SEPARATORS: Final = {"spaceDelimited": "%20", "pipeDelimited": "|"}


class RequestProblem(Exception):
    """Why the arguments cannot be written into a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """A request, without the credentials of the API."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes | None


def build_request(operation: ApiOperation, base_url: str, arguments: JsonObject, *, boundary: str) -> ApiRequest:
    """Make the request of a call. Raises `RequestProblem`; `boundary` separates the parts of a form with files."""
    given = {**arguments, **operation.fixed}
    path, query, headers = operation.path, list[str](), dict[str, str]()
    for parameter in operation.parameters:
        value = given.get(parameter.argument)
        if value is None and parameter.location != "path":
            continue
        match parameter.location:
            case "path":
                path = path.replace(f"{{{parameter.name}}}", _path_value(parameter, value))
            case "query":
                query.extend(_query(parameter, value))
            case "header":
                headers[parameter.name] = _header_value(parameter, value)
    content = None if operation.body is None else _body(operation.body, given, headers, boundary)
    url = f"{base_url.rstrip('/')}{path}"
    if query:
        url += ("&" if "?" in url else "?") + "&".join(query)
    return ApiRequest(method=operation.method, url=url, headers=headers, content=content)


def _path_value(parameter: Parameter, value: JsonValue) -> str:
    if value is None:
        raise RequestProblem(f"`{parameter.argument}` is missing")
    text = ",".join(_plain_items(parameter.argument, value, explode=parameter.explode))
    if not text or not stays_in_place(text):
        shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
        raise RequestProblem(f"`{parameter.argument}` cannot be {shown!r}: it is a part of the address")
    return quote(text, safe=",~")


def _header_value(parameter: Parameter, value: JsonValue) -> str:
    if parameter.as_json:
        return encode_bytes(value).decode()
    text = ",".join(_plain_items(parameter.argument, value, explode=parameter.explode))
    if not text.isprintable() or not text.isascii():
        raise RequestProblem(f"`{parameter.argument}` has characters that a header cannot carry")
    return text


def _plain_items(argument: str, value: JsonValue, *, explode: bool) -> Iterator[str]:
    """Yield the parts of a value in the style `simple`."""
    if isinstance(value, list):
        yield from (_scalar(argument, item) for item in value)
    elif isinstance(value, dict):
        for name, member in value.items():
            text = _scalar(argument, member)
            yield from (f"{name}={text}",) if explode else (name, text)
    else:
        yield _scalar(argument, value)


def _query(parameter: Parameter, value: JsonValue) -> Iterator[str]:
    safe = _RESERVED if parameter.reserved else ""
    name = parameter.name
    if parameter.as_json:
        yield _pair(name, encode_bytes(value).decode(), safe)
    elif parameter.style == "deepObject":
        yield from (_pair(key, text, safe) for key, text in _deep(parameter.argument, name, value))
    else:
        yield from _form_pairs(parameter.argument, name, value, parameter.style, parameter.explode, safe)


def _form_pairs(argument: str, name: str, value: JsonValue, style: str, explode: bool, safe: str) -> Iterator[str]:
    if isinstance(value, dict):
        pairs = [(key, _scalar(argument, item)) for key, item in value.items() if item is not None]
        if explode:
            yield from (_pair(key, text, safe) for key, text in pairs)
        else:
            flat = [part for pair in pairs for part in pair]
            yield f"{_quoted(name)}={','.join(_quoted(part, safe) for part in flat)}"
    elif isinstance(value, list):
        texts = [_scalar(argument, item) for item in value]
        if explode and style == "form":
            yield from (_pair(name, text, safe) for text in texts)
        elif texts:
            yield f"{_quoted(name)}={_SEPARATORS.get(style, ',').join(_quoted(text, safe) for text in texts)}"
    else:
        yield _pair(name, _scalar(argument, value), safe)


def _deep(argument: str, prefix: str, value: JsonValue) -> Iterator[tuple[str, str]]:
    """Yield the leaves of a value with their places: `filter[status]`, `items[0][price]`."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _deep(argument, f"{prefix}[{name}]", member)
    elif isinstance(value, list):
        for number, member in enumerate(value):
            yield from _deep(argument, f"{prefix}[{number}]", member)
    elif value is not None:
        yield prefix, _scalar(argument, value)


def _pair(name: str, text: str, safe: str = "") -> str:
    return f"{_quoted(name)}={_quoted(text, safe)}"


def _quoted(text: str, safe: str = "") -> str:
    return quote(text, safe=safe)


def _scalar(argument: str, value: JsonValue) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case None:
            return ""
        case _:
            raise RequestProblem(f"`{argument}` has a part that cannot be written into an address or a form")


def _body(plan: BodyPlan, given: JsonObject, headers: dict[str, str], boundary: str) -> bytes | None:
    body = _body_value(plan, given)
    if body is None:
        return None
    headers["content-type"] = plan.media_type if plan.media_type != "*/*" else "application/json"
    match plan.kind:
        case "json":
            return encode_bytes(body)
        case "form":
            return "&".join(_form(plan, body)).encode()
        case "multipart":
            headers["content-type"] = f"multipart/form-data; boundary={boundary}"
            return _multipart(plan, body, boundary)
        case "text":
            return _scalar(plan.argument or "body", body).encode()
        case "binary":
            return _bytes(plan.argument or "body", body)


def _body_value(plan: BodyPlan, given: JsonObject) -> JsonValue:
    if plan.argument is not None:
        return given.get(plan.argument)
    members: JsonObject = {name: given[argument] for argument, name in plan.members.items() if argument in given}
    return members if members or (plan.required and plan.kind == "json") else None


def _form(plan: BodyPlan, body: JsonValue) -> Iterator[str]:
    if not isinstance(body, dict):
        raise RequestProblem("the body of a form is an object")
    for name, value in body.items():
        encoding = plan.encodings.get(name, MemberEncoding())
        if encoding.style == "deepObject":
            yield from (_pair(key, text) for key, text in _deep(name, name, value))
        elif isinstance(value, dict):
            # The specification's own choice for objects without a style: their JSON text.
            yield _pair(name, encode_bytes(value).decode())
        elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
            yield from (_pair(name, encode_bytes(item).decode()) for item in value)
        elif value is not None:
            yield from _form_pairs(name, name, value, encoding.style, encoding.explode, "")


def _multipart(plan: BodyPlan, body: JsonValue, boundary: str) -> bytes:
    if not isinstance(body, dict):
        raise RequestProblem("the body of a form is an object")
    parts: list[bytes] = []
    for name, value in body.items():
        for item in value if isinstance(value, list) else [value]:
            if item is None:
                continue
            content_type = plan.encodings.get(name, MemberEncoding()).content_type
            disposition = f'form-data; name="{_field_name(name)}"'
            if name in plan.files:
                disposition += f'; filename="{_field_name(name)}"'
                content, content_type = _bytes(name, item), content_type or "application/octet-stream"
            elif isinstance(item, dict):
                content, content_type = encode_bytes(item), content_type or "application/json"
            else:
                content = _scalar(name, item).encode()
            kind = f"Content-Type: {content_type.partition(',')[0]}\r\n" if content_type else ""
            head = f"--{boundary}\r\nContent-Disposition: {disposition}\r\n{kind}\r\n"
            parts.append(head.encode() + content + b"\r\n")
    return b"".join(parts) + f"--{boundary}--\r\n".encode()


def _field_name(name: str) -> str:
    """Return the name of a field as it stands in a header."""
    return re.sub(r'[\r\n"\\]', "_", name)


def _bytes(argument: str, value: JsonValue) -> bytes:
    if not isinstance(value, str):
        raise RequestProblem(f"`{argument}` is not a text of base64")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise RequestProblem(f"`{argument}` is not base64") from None
