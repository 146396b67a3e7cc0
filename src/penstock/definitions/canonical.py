"""Canonical JSON and the hash that gives a definition its identity.

The published format hashes JSON as JavaScript writes it: keys sorted by UTF-16 code units at every level, no white
space, raw UTF-8, numbers as `JSON.stringify` prints them. `definitions.signature` signs the same bytes.
"""

import hashlib
import json
import re

import rfc8785

from penstock.base.json import JsonObject, JsonValue

__all__ = ["canonical_json", "definition_hash", "is_newly_signed", "signature_of", "without_signature"]

# Beyond this, JavaScript holds only the nearest double.
SAFE_INTEGER_MAX = 2**53
SURROGATE = re.compile("[\ud800-\udfff]")
_TEXT = json.JSONEncoder(ensure_ascii=False)


def canonical_json(value: JsonValue, *, exact_integers: bool = False) -> bytes:
    """Write a JSON value in canonical form.

    Integers beyond 2^53 are written as the double that JavaScript would hold, or with all their digits if
    `exact_integers` is set, which keeps any two of them distinct. Lone surrogates are escaped. A number that no double
    can hold, NaN and infinities raise ValueError, because two documents that differ there must not look the same.
    """
    chunks: list[str] = []
    _write(value, chunks, exact_integers)
    return "".join(chunks).encode("utf-8")


def definition_hash(document: JsonValue) -> str:
    """Return the hex SHA-256 of the canonical JSON of a definition, without its signature.

    A signature covers the canonical JSON without itself. The hash covers the same bytes, so signing a definition, or
    signing it again with another key, does not change its identity.
    """
    content = without_signature(document) if isinstance(document, dict) else document
    return hashlib.sha256(canonical_json(content)).hexdigest()


def without_signature(document: JsonObject) -> JsonObject:
    """Return the part of a document that is signed: everything but its signature, in either format."""
    block = document.get("document")
    if isinstance(block, dict):
        if "signature" not in block:
            return document
        return {**document, "document": {name: value for name, value in block.items() if name != "signature"}}
    return {name: value for name, value in document.items() if name != "signature"}


def signature_of(document: JsonObject) -> JsonValue:
    """Return the signature block of a document, in either format; None if it has none."""
    block = document.get("document")
    return block.get("signature") if isinstance(block, dict) else document.get("signature")


def is_newly_signed(before: JsonObject, now: JsonObject) -> bool:
    """Whether a document that is otherwise the same has a signature that the earlier one does not have."""
    signature = signature_of(now)
    return signature is not None and signature != signature_of(before)


def _write(value: JsonValue, chunks: list[str], exact_integers: bool) -> None:
    if isinstance(value, dict):
        separator = "{"
        for name in sorted(value, key=_code_units):
            chunks.append(f"{separator}{_text(name)}:")
            _write(value[name], chunks, exact_integers)
            separator = ","
        chunks.append("}" if value else "{}")
    elif isinstance(value, list):
        separator = "["
        for item in value:
            chunks.append(separator)
            _write(item, chunks, exact_integers)
            separator = ","
        chunks.append("]" if value else "[]")
    else:
        chunks.append(_scalar(value, exact_integers))


def _scalar(value: bool | float | str | None, exact_integers: bool) -> str:
    if isinstance(value, str):
        return _text(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and (exact_integers or abs(value) <= SAFE_INTEGER_MAX):
        return str(value)
    try:
        return rfc8785.dumps(float(value)).decode("ascii")
    except OverflowError as error:
        raise ValueError("an integer of this size is not a JSON number that JavaScript can hold") from error


def _code_units(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")


def _text(text: str) -> str:
    encoded = _TEXT.encode(text)
    if encoded.isascii() or SURROGATE.search(encoded) is None:
        return encoded
    # JavaScript strings are UTF-16: two surrogates that form a pair are one character, a lone one is escaped.
    paired = encoded.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
    return SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", paired)
