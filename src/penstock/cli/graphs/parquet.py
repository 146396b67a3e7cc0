"""A version of a graph as Parquet: one file for each node type and edge type, with columns of its types.

Every file has the column `@id`, and files of edges `@src` and `@dst`, as queries call them; then the properties, in the
order of the schema. A file is complete when it has its name: until everything is written, names end in `.partial`.

Above it: `exporting`. Below it: `pyarrow` (the extra `parquet`), `graph.records`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.base import limits
from penstock.base.errors import Rejected, Unavailable
from penstock.base.lazy_import import lazy_import
from penstock.graph.records import EdgeRecord, GraphRecord
from penstock.graph.schema.model import Base, EntityType, Enum, ListOf, NodeType, Schema, ValueType, Vector
from penstock.graph.versions.identity import key_of
from penstock.runtime.extras import install_hint

if TYPE_CHECKING:
    import pyarrow
    from pyarrow import parquet
else:
    pyarrow = lazy_import("pyarrow")
    parquet = lazy_import("pyarrow.parquet")

__all__ = ["ParquetFiles", "parquet_files", "require_parquet"]

_PARTIAL = ".partial"


def require_parquet() -> None:
    """Check that the library is installed; the error says what to install."""
    if find_spec("pyarrow") is None:
        message = "Parquet needs a library that is not installed"
        raise Unavailable("EXTRA_NOT_INSTALLED", message, install_hint("parquet"))


class ParquetFiles:
    """The files of one export. Rows are collected and written many at a time."""

    def __init__(self, folder: Path, schema: Schema, about: dict[str, str]) -> None:
        self._folder = folder
        self._types: dict[str, EntityType] = {**schema.node_types, **schema.edge_types}
        self._schemas = {name: _arrow_schema(each, about) for name, each in self._types.items()}
        self._rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in self._types}
        self._counts = dict.fromkeys(self._types, 0)
        self._writers = {
            name: parquet.ParquetWriter(self._path(name, _PARTIAL), schema) for name, schema in self._schemas.items()
        }

    def _path(self, name: str, suffix: str = "") -> Path:
        return self._folder / f"{name}.parquet{suffix}"

    def add(self, record: GraphRecord) -> None:
        """Add a node or an edge."""
        name = record.type.name
        rows = self._rows[name]
        rows.append(_row(record))
        if len(rows) >= limits.GRAPH_EXPORT_ROWS_TOGETHER:
            self._write(name)

    def _write(self, name: str) -> None:
        rows, self._rows[name] = self._rows[name], []
        types = _columns(self._types[name])
        arrays = [pyarrow.array([row[place] for row in rows], type_) for place, (_, type_, _) in enumerate(types)]
        self._writers[name].write_table(pyarrow.Table.from_arrays(arrays, schema=self._schemas[name]))
        self._counts[name] += len(rows)

    def finish(self) -> dict[str, int]:
        """Write what is left and give the files their names; return how many rows each has."""
        for name, rows in list(self._rows.items()):
            if rows:
                self._write(name)
        self.close()
        for name in self._types:
            self._path(name, _PARTIAL).rename(self._path(name))
        return self._counts

    def close(self) -> None:
        """Close all files, complete or not."""
        for writer in self._writers.values():
            writer.close()

    def remove(self) -> None:
        """Remove what is not complete."""
        self.close()
        for name in self._types:
            self._path(name, _PARTIAL).unlink(missing_ok=True)


@contextmanager
def parquet_files(folder: Path, schema: Schema, about: dict[str, str]) -> Iterator[ParquetFiles]:
    """Files in a folder that is new or empty. If something goes wrong, none of them stays."""
    require_parquet()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_empty = next(folder.iterdir(), None) is None
    except OSError as error:
        message = f"{folder} cannot be used ({type(error).__name__})"
        raise Rejected("FOLDER_UNUSABLE", message, "name another folder") from error
    if not is_empty:
        raise Rejected("FOLDER_NOT_EMPTY", f"{folder} is not empty", "choose a new folder")
    files = ParquetFiles(folder, schema, about)
    try:
        yield files
    except BaseException:
        files.remove()
        raise


def _arrow_schema(entity: EntityType, about: dict[str, str]) -> pyarrow.Schema:
    fields = [pyarrow.field(name, type_, nullable=nullable) for name, type_, nullable in _columns(entity)]
    kind = "node" if isinstance(entity, NodeType) else "edge"
    return pyarrow.schema(fields).with_metadata({**about, "penstock.type": entity.name, "penstock.kind": kind})


def _columns(entity: EntityType) -> list[tuple[str, pyarrow.DataType, bool]]:
    """The name and type of each column, and whether values may be missing."""
    identity = ("@id",) if isinstance(entity, NodeType) else ("@id", "@src", "@dst")
    own = [(name, pyarrow.string(), False) for name in identity]
    return own + [(each.name, _arrow_type(each.type), each.nullable) for each in entity.properties]


def _arrow_type(type_: ValueType) -> pyarrow.DataType:
    match type_:
        case Vector(dimension):
            return pyarrow.list_(pyarrow.field("element", pyarrow.float32(), nullable=False), dimension)
        case ListOf(base):
            return pyarrow.list_(pyarrow.field("element", _base_type(base), nullable=False))
        case Enum():
            return pyarrow.string()
        case _:
            return _base_type(type_.base)


def _base_type(base: Base) -> pyarrow.DataType:
    if base is Base.DATE_TIME:
        return pyarrow.timestamp("ms", "UTC")
    return {
        Base.STRING: pyarrow.string,
        Base.BOOL: pyarrow.bool_,
        Base.I32: pyarrow.int32,
        Base.I64: pyarrow.int64,
        Base.U32: pyarrow.uint32,
        Base.U64: pyarrow.uint64,
        Base.F32: pyarrow.float32,
        Base.F64: pyarrow.float64,
        Base.DATE: pyarrow.date32,
        Base.BLOB: pyarrow.large_binary,
    }[base]()


def _row(record: GraphRecord) -> tuple[Any, ...]:
    """The cells of a record. Identifiers of exported records are never generated."""
    if isinstance(record, EdgeRecord):
        own: tuple[Any, ...] = (record.id, record.source, record.target)
    else:
        own = (key_of(record.type, record.properties) or record.id,)
    return own + tuple(_cell(record.properties.get(each.name), each.type) for each in record.type.properties)


def _cell(value: Any, type_: ValueType) -> Any:
    if value is None or isinstance(type_, Vector | Enum):
        return value
    if type_.base is not Base.DATE:
        return value
    return [date.fromisoformat(each) for each in value] if isinstance(type_, ListOf) else date.fromisoformat(value)
