"""Moves templates to another root: every expression is prefixed with one that computes the root.

Above it: documents that the server writes around a node of somebody's workflow. Below it: `templates`. It compiles
nothing. A text that is not a valid template stays unchanged, and compiling it reports the mistake.
"""

from __future__ import annotations

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.jq.templates import SECRET_REFERENCE, split_text

__all__ = ["rooted"]


def rooted(value: JsonValue, root: str) -> JsonValue:
    """Return a template whose expressions run on the result of the expression `root`."""
    if isinstance(value, str):
        return _text(value, root)
    if isinstance(value, list):
        return [rooted(item, root) for item in value]
    if not isinstance(value, dict) or set(value) == {"literal"}:
        return value
    query = value.get("jq")
    if set(value) == {"jq"} and isinstance(query, str):
        return {"jq": f"{root} | ({query})"}
    members: JsonObject = {name: rooted(member, root) for name, member in value.items()}
    return members


def _text(text: str, root: str) -> str:
    if "${" not in text or SECRET_REFERENCE.search(text) is not None:
        return text
    made = ""
    for piece in split_text(text):
        if piece is None:
            return text
        is_query, content = piece
        made += f"${{ {root} | ({content}) }}" if is_query else content.replace("${", "$${")
    return made
