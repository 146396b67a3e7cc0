"""Converts between rows, with the JSON in them, and the values of the ports. It does no I/O."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

from penstock.base.encoding import SafeEncoder, encode_bytes
from penstock.base.errors import CorruptHistory
from penstock.engine.records import Record
from penstock.governance.authorship import Author
from penstock.runtime.ports.runs import DefinitionRow, RunRow
from penstock.runtime.tables.checksums import CHECKED, row_checksum
from penstock.runtime.tables.outcomes import text_not_unicode

__all__ = [
    "RUN_COLUMNS",
    "Columns",
    "RowCodec",
    "columns_of",
    "decode_json",
    "definition_of",
    "encode_json",
    "json_column",
    "labels_of",
    "part_of",
    "records_of",
    "run_of",
]

T = TypeVar("T")
R = TypeVar("R", bound=msgspec.Struct)
Columns: TypeAlias = tuple[int, Any, str, dict[str, Any], int]

RUN_COLUMNS = (
    "run_id, workflow_name, workflow_version, definition_hash, status, seq, created_at, updated_at, parent_run_id,"
    " labels, wake_at, has_work, owner, terminal, tenant, epoch, started_by"
)

_RECORDS = msgspec.json.Decoder(list[Columns])
# The payload stays raw JSON until it is needed, and is then decoded as the requested type.
_UNREAD_COLUMNS: TypeAlias = tuple[int, Literal["command", "event"], str, msgspec.Raw, int]
_UNREAD_RECORDS = msgspec.json.Decoder(list[_UNREAD_COLUMNS])
_UNREAD_RECORD = msgspec.json.Decoder(_UNREAD_COLUMNS)
_RECORD = msgspec.json.Decoder(Columns)
_LONE_SURROGATE = b"\\ud"  # the start of the escape of half a surrogate pair; nothing else is escaped this way
_UNREAD = msgspec.json.Decoder(list[msgspec.Raw])
_LABELS = msgspec.json.Decoder(dict[str, str])
_OBJECT = msgspec.json.Decoder(dict[str, Any])
_AUTHOR = msgspec.json.Decoder(Author)
_ENCODER = SafeEncoder()


def encode_json(value: object) -> bytes:
    """Encode a value as JSON that `records_of` and the other decoders read back exactly."""
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        # Half of a surrogate pair is not text, but JSON can hold it as an escape, and a tool may have sent it.
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode("ascii")


def decode_json(decoder: msgspec.json.Decoder[T], text: bytes | str) -> T:
    """Decode what `encode_json` wrote. Anything else means that the store is corrupt."""
    try:
        return decoder.decode(text)
    except msgspec.DecodeError as error:
        try:
            return msgspec.convert(json.loads(text), type=decoder.type)
        except (ValueError, msgspec.ValidationError):
            message = f"a stored value cannot be read ({error})"
            raise CorruptHistory("STORE_CORRUPT", message, "restore a backup with `penstock server restore`") from None


def part_of(first: int, last: int, first_wanted: int, last_wanted: int) -> slice | None:
    """The slice of a page with records `first` to `last` that holds the wanted records; None for all of them."""
    if first >= first_wanted and last <= last_wanted:
        return None
    return slice(max(first_wanted - first, 0), max(last_wanted - first + 1, 0))


def records_of(page: bytes | str, part: slice | None = None) -> list[Record]:
    """The records of a page, or of a slice of it."""
    if (
        isinstance(page, bytes) and _LONE_SURROGATE not in page
    ):  # text instead of bytes is damage too, or a manual repair
        with suppress(msgspec.DecodeError):  # damage: the slow path raises the error
            if part is not None:
                return [Record(*_UNREAD_RECORD.decode(item)) for item in _UNREAD.decode(page)[part]]
            return [Record(*columns) for columns in _UNREAD_RECORDS.decode(page)]
    found = [Record(*columns) for columns in decode_json(_RECORDS, page)]
    return found if part is None else found[part]


def columns_of(unread: Iterable[msgspec.Raw]) -> list[Columns]:
    """Decode records that were only split out of a page. Splitting costs a fraction of decoding."""
    return [_RECORD.decode(item) for item in unread]


def labels_of(text: str | None) -> dict[str, str]:
    """The labels of a run."""
    return decode_json(_LABELS, text) if text else {}


def run_of(found: Sequence[Any]) -> RunRow:
    """A run from the columns of `RUN_COLUMNS`."""
    return RunRow(
        run_id=found[0],
        workflow_name=found[1],
        workflow_version=found[2],
        definition_hash=found[3],
        status=found[4],
        seq=found[5],
        created_at=found[6],
        updated_at=found[7],
        parent_run_id=found[8],
        labels=labels_of(found[9]),
        wake_at=found[10],
        has_work=bool(found[11]),
        owner=found[12],
        terminal=bool(found[13]),
        tenant=found[14],
        epoch=found[15],
        started_by=found[16] or None,
    )


def definition_of(found: Sequence[Any]) -> DefinitionRow:
    """A definition from its columns: hash, name, version, document, when, in which tenant, by whom, and its author."""
    return DefinitionRow(
        hash=found[0],
        name=found[1],
        version=found[2],
        document=decode_json(_OBJECT, found[3]),
        created_at=found[4],
        tenant=found[5],
        created_by=found[6],
        author=author_of_column(found[7]),
    )


def author_column(author: Author | None) -> bytes | None:
    """The column of an author."""
    return None if author is None else encode_bytes(author)


def author_of_column(column: bytes | str | None) -> Author | None:
    """An author from its column."""
    return None if column is None else decode_json(_AUTHOR, column)


def json_column(value_type: Any) -> Callable[[bytes | str], Any]:
    """The reader for a column that holds JSON of a type."""
    return partial(decode_json, msgspec.json.Decoder(value_type))


class RowCodec(Generic[R]):
    """Reads and writes rows of a table whose columns are named like the fields of a struct.

    `read` maps the columns that are not stored as they are to their readers: `bool`, or the result of `json_column`.
    The table is in `CHECKED`: every row is written with its checksum.
    """

    def __init__(self, table: str, row_type: type[R], **read: Callable[[Any], Any]) -> None:
        names = row_type.__struct_fields__
        self.columns = ", ".join(names)
        """The columns, in the order of the fields."""
        self.insert = f"({self.columns}, checksum) VALUES ({','.join('?' * (len(names) + 1))})"
        self._names = names
        self._checked = [names.index(name) for name in CHECKED[table]]
        # Generated as one call, as dataclasses do it: every request reads an API key, and `dict(zip(...))` would take
        # several times as long. The names are those of our own structs.
        given = ", ".join(
            f"{name}={f'{name}_' if name in read else ''}(c[{index}])" for index, name in enumerate(names)
        )
        readers = {f"{name}_": reader for name, reader in read.items()}
        self.row: Callable[[Sequence[Any]], R] = eval(f"lambda c: row_type({given})", {"row_type": row_type, **readers})
        """Builds a row from its columns; further columns are ignored."""

    def values(self, row: R, **encoded: str | bytes | None) -> list[object]:
        """The column values of a row. `encoded` holds the JSON columns, which callers encode before the transaction."""
        values = [int(value) if isinstance(value, bool) else value for value in msgspec.structs.astuple(row)]
        for name, value in encoded.items():
            values[self._names.index(name)] = value
        try:
            values.append(row_checksum([values[place] for place in self._checked]))
        except UnicodeEncodeError:
            raise text_not_unicode() from None
        return values
