"""Workflow documents as text: JSON or YAML, read into one value with the position of every part.

Both syntaxes give the same value for the same document; no module above knows which one it was. The readers are
`json_reader` and `yaml_reader`. This module only decides whether a document can be read; the checks decide whether it
is correct.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.base import limits
from penstock.base.json import JsonValue
from penstock.base.lazy_import import lazy_import
from penstock.definitions.source.findings import Finding, Position
from penstock.definitions.source.json_reader import read_json
from penstock.definitions.source.tree import SourceNode, assemble

if TYPE_CHECKING:
    from penstock.definitions.source import yaml_reader
else:
    yaml_reader = lazy_import("penstock.definitions.source.yaml_reader")

__all__ = ["SourceDocument", "read_source"]

BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDocument:
    """A document's value, and the position in the file for every JSON pointer into it.

    The position of an object member is that of its key; the position of anything else is that of the value.
    """

    value: JsonValue
    positions: Mapping[str, Position]
    file: str | None


def read_source(text: str, *, file: str | None = None) -> SourceDocument | tuple[Finding, ...]:
    """Read a document, or return the findings that explain why it cannot be used.

    Text that begins with `{` and files named `*.json` are JSON; everything else is YAML.
    """
    node, findings = _read(text.removeprefix(BYTE_ORDER_MARK), file)
    if findings or node is None:
        return tuple(replace(finding, file=file) for finding in findings)
    value, positions = assemble(node)
    return SourceDocument(value=value, positions=positions, file=file)


def _read(text: str, file: str | None) -> tuple[SourceNode | None, tuple[Finding, ...]]:
    try:
        size_bytes = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        return None, (_not_unicode(text, error.start),)
    if size_bytes > limits.DOCUMENT_BYTES_MAX:
        return None, (_too_large(size_bytes),)
    is_json = text.lstrip().startswith("{") or (file is not None and file.lower().endswith(".json"))
    return read_json(text) if is_json else yaml_reader.read_yaml(text)


def _too_large(size_bytes: int) -> Finding:
    return Finding(
        code="DOCUMENT_TOO_LARGE",
        message=f"the document has {size_bytes:,} bytes; {limits.DOCUMENT_BYTES_MAX:,} are allowed",
        hint="move large constants out of the document, or split it into subworkflows",
        position=Position(1, 1),
    )


def _not_unicode(text: str, index: int) -> Finding:
    before = text[:index]
    return Finding(
        code="TEXT_NOT_UNICODE",
        message="a character here is one half of a surrogate pair, which no Unicode text can contain",
        hint="save the file as UTF-8",
        position=Position(before.count("\n") + 1, len(before) - before.rfind("\n")),
    )
