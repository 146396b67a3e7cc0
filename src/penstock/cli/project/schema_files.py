"""Schemas of a project that workflow files refer to by name (`$ref: "schema:order@1"`), from the folder `schemas`.

    schemas/order@1.yaml       the first version of `order`, as JSON Schema in YAML or JSON
    flows/refund.yaml          input: {$ref: "schema:order@1"}

The folder stands beside the workflow file, or beside the folder that the file is in. `schema:order` means the highest
version. Without such a folder nothing can be looked up, and the check of the document says so.

Above it: the commands that read workflow files. Below it: the readers of YAML and JSON. Files are read when a document
refers to them.
"""

from __future__ import annotations

import re
from pathlib import Path

from penstock.base.json import JsonObject
from penstock.cli.terminal.files import SourceText, read_path
from penstock.definitions.schemas.references import NamedSchema, SchemaReference, embed, references_in
from penstock.definitions.source.document import SourceDocument, read_source
from penstock.definitions.validate import FindSchema

__all__ = ["list_schemas", "schemas_beside"]

_FOLDER = "schemas"
_FILE = re.compile(r"(?P<name>.+)@(?P<version>[1-9][0-9]{0,8})\.(?:json|ya?ml)")
# Schemas that refer to each other in a circle would be read forever.
_NESTED_MAX = 16


def schemas_beside(file: str | None) -> FindSchema | None:
    """Return what finds the schemas for a workflow file; None if there is no folder with any."""
    place = Path(file).parent if file is not None and Path(file).is_file() else Path()
    for folder in (place / _FOLDER, place.resolve().parent / _FOLDER):
        if folder.is_dir():
            return lambda reference: _found(folder, reference, 0)
    return None


def list_schemas(folder: Path) -> list[Path]:
    """Return the files with schemas that workflow files in a folder may refer to."""
    for place in (folder / _FOLDER, folder.resolve().parent / _FOLDER):
        if place.is_dir():
            return [path for path in sorted(place.iterdir()) if _FILE.fullmatch(path.name)]
    return []


def _found(folder: Path, reference: SchemaReference, depth: int) -> NamedSchema | None:
    versions: dict[int, Path] = {}
    for path in folder.iterdir():
        named = _FILE.fullmatch(path.name)
        if named is not None and named["name"] == reference.name:
            versions[int(named["version"])] = path
    wanted = max(versions, default=0) if reference.version is None else reference.version
    content = _content(versions[wanted]) if wanted in versions and depth < _NESTED_MAX else None
    if content is None or reference.name is None:
        return None
    inner = {item.text: found for item in references_in(content) if (found := _found(folder, item, depth + 1))}
    return NamedSchema(name=reference.name, version=wanted, schema=embed(content, inner))


def _content(path: Path) -> JsonObject | None:
    text = read_path(str(path))
    source = read_source(text.text, file=str(path)) if isinstance(text, SourceText) else None
    return source.value if isinstance(source, SourceDocument) and isinstance(source.value, dict) else None
