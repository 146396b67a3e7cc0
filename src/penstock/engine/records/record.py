"""History records: one row of a run's history, with its body, its payload and its row form.

One record is one row ``{executionId, seq, kind, name, payload, createdAt, recordSchemaVersion}``; every payload names
its run. A record created by this engine holds a body, and its payload is derived from it. A record that was read holds
the payload as found, including keys that another engine added, and its body is decoded from it.

Above it: everything in the engine creates or folds records; stores keep rows. Below it: `commands`, `events`. It does
not define what a record means: `transitions` and `evolve` do.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast

import msgspec
from msgspec import UNSET
from msgspec.structs import FieldInfo, fields, force_setattr, replace

from penstock.base.errors import CorruptHistory
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.durations import format_instant, parse_instant_ms
from penstock.engine.records import commands, events
from penstock.engine.records.body import Body, Kind, is_always_written

__all__ = [
    "COMMANDS",
    "EVENTS",
    "RECORD_SCHEMA_VERSION",
    "TYPES",
    "Record",
    "changed",
    "identity",
    "keys_of",
    "made",
    "made_with",
    "payload_of",
    "record_of",
    "row_of",
]

RECORD_SCHEMA_VERSION: Final = 1

B = TypeVar("B", bound=Body)

TYPES: Final[Mapping[str, type[Body]]] = MappingProxyType(
    {name: kind for module in (commands, events) for name, kind in vars(module).items() if name in module.__all__}
)
COMMANDS: Final = frozenset(commands.__all__)
EVENTS: Final = frozenset(events.__all__)


# `gc=False`: it holds plain JSON and cannot be part of a reference cycle, so the garbage collector can skip it.
class Record(msgspec.Struct, frozen=True, array_like=True, gc=False, eq=False):
    """One row of a run's history; `at` is epoch milliseconds, taken from the input that caused it."""

    seq: int
    kind: Kind
    name: str
    content: Body | JsonObject | msgspec.Raw
    """The body as created, or the payload as read: as a value, or as JSON."""
    at: int

    @property
    def body_type(self) -> type[Body] | None:
        """The type of its body, or None if the name is unknown."""
        return TYPES.get(self.name)

    def body_as(self, kind: type[B]) -> B | None:
        """Return the body if it has this type; records of other types are not decoded."""
        if self.name != kind.__name__:
            return None
        return cast("B", self.body)

    @property
    def body(self) -> Body | None:
        """The decoded body, or None if the name is unknown."""
        content = self.content
        if isinstance(content, msgspec.Raw):
            decoder = _DECODERS.get(self.name)
            if decoder is None:
                return None
            try:
                return decoder.decode(content)
            except (msgspec.DecodeError, UnicodeDecodeError):
                content = self.payload
        elif not isinstance(content, dict):
            return content
        kind = TYPES.get(self.name)
        return None if kind is None else _read(kind, content, self.seq)

    @property
    def payload(self) -> JsonObject:
        """The payload as published."""
        content = self.content
        if isinstance(content, dict):
            return content
        return _decoded(self.seq, content) if isinstance(content, msgspec.Raw) else payload_of(content)

    def __eq__(self, other: object) -> bool:
        """Compare the wire form, whether created or read."""
        if not isinstance(other, Record):
            return NotImplemented
        return (
            self.seq == other.seq
            and self.name == other.name
            and self.kind == other.kind
            and self.at == other.at
            and self.payload == other.payload
        )

    __hash__ = None  # type: ignore[assignment]  # it holds JSON


def made(seq: int, body: Body, at: int, run_id: str) -> Record:
    """Create a record of a run. A body belongs to one record; its run id is set here."""
    force_setattr(body, "execution_id", run_id)
    kind = type(body)
    return Record(seq, kind.record_kind, kind.__name__, body, at)


def made_with(record: Record, beside: JsonObject, behind: str) -> Record:
    """Add keys to a record, placed after the key `behind`; existing keys are not changed."""
    payload: JsonObject = {}
    own = record.payload
    for key, value in own.items():
        payload[key] = value
        if key == behind:
            payload.update((name, added) for name, added in beside.items() if name not in own)
    return replace(record, content=payload)


def changed(record: Record, **values: Any) -> Record:
    """Return a record with some fields of its body changed; additional keys that it was read with stay."""
    content = record.content
    if not isinstance(content, dict | msgspec.Raw):
        return replace(record, content=replace(content, **values))
    payload = dict(record.payload)
    for name, key, left_out in _MEMBERS[TYPES[record.name]]:
        if name in values:
            payload[key] = values[name]
            if values[name] is left_out:
                del payload[key]
    return replace(record, content=payload)


# --- bodies and payloads -------------------------------------------------------------------------


def _members(kind: type[Body]) -> tuple[tuple[str, str, Any], ...]:
    """Return for every field: its name, its key, and the value for which the key is omitted."""
    return tuple((field.name, field.encode_name, _left_out(field)) for field in fields(kind))


def _left_out(field: FieldInfo) -> object:
    return UNSET if is_always_written(field) else field.default


_MEMBERS: Final = {kind: _members(kind) for kind in TYPES.values()}


def keys_of(kind: type[Body]) -> tuple[str, ...]:
    """Return the keys of a payload, in their order."""
    return kind.__struct_encode_fields__


def payload_of(body: Body) -> JsonObject:
    """Return a body as a published payload; the values in it are not copied."""
    payload: JsonObject = {}
    for name, key, left_out in _MEMBERS[type(body)]:
        value = getattr(body, name)
        if value is not left_out and value is not UNSET:
            payload[key] = value
    return payload


_DECODERS: Final = {name: msgspec.json.Decoder(kind) for name, kind in TYPES.items()}
_PAYLOAD: Final = msgspec.json.Decoder(dict[str, Any])


def _decoded(seq: int, content: msgspec.Raw) -> JsonObject:
    try:
        return _PAYLOAD.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptHistory("RECORD_MALFORMED", f"the payload of row {seq} cannot be read: {error}") from None


def _read(kind: type[Body], payload: JsonObject, seq: int) -> Body:
    try:
        return msgspec.convert(payload, kind)
    except msgspec.ValidationError:
        pass
    # Another engine may use one of our keys for something else: a value of the wrong type counts as missing.
    fitting = {field.encode_name for field in fields(kind) if _fits(payload.get(field.encode_name), field.type)}
    try:
        return msgspec.convert({key: value for key, value in payload.items() if key in fitting}, kind)
    except msgspec.ValidationError as error:
        raise CorruptHistory("RECORD_MALFORMED", f"row {seq} ({kind.__name__}) cannot be read: {error}") from None


def _fits(value: JsonValue, wanted: Any) -> bool:
    try:
        msgspec.convert(value, wanted)
    except msgspec.ValidationError:
        return False
    return True


# --- rows ----------------------------------------------------------------------------------------


def identity(record: Record) -> JsonObject:
    """Return what replay compares: the command's name and its node."""
    content = record.content
    made_here = not isinstance(content, dict | msgspec.Raw)
    node = getattr(content, "node_id", None) if made_here else record.payload.get("nodeId")
    return {"name": record.name, "nodeId": node} if isinstance(node, str) else {"name": record.name}


def row_of(run_id: str, record: Record) -> JsonObject:
    """Return the published row form of a record."""
    return {
        "executionId": run_id,
        "seq": record.seq,
        "kind": record.kind,
        "name": record.name,
        "payload": record.payload,
        "createdAt": format_instant(record.at),
        "recordSchemaVersion": RECORD_SCHEMA_VERSION,
    }


def record_of(row: JsonObject, *, seq: int = 0, at: int = 0) -> Record:
    """Build a record from its row; `seq` and `at` fill in what foreign rows lack. Newer versions are refused."""
    version = row.get("recordSchemaVersion", RECORD_SCHEMA_VERSION)
    if not isinstance(version, int) or version > RECORD_SCHEMA_VERSION:
        raise CorruptHistory(
            "RECORD_VERSION_UNSUPPORTED",
            f"a history row has schema version {version}; this engine reads up to {RECORD_SCHEMA_VERSION}",
            hint="open the store with the release that wrote it, or a newer one",
        )
    kind, name, payload = row.get("kind"), row.get("name"), row.get("payload")
    if kind not in ("command", "event") or not isinstance(name, str) or not isinstance(payload, dict):
        raise CorruptHistory("RECORD_MALFORMED", f"history row {row.get('seq', seq)} has no kind, name or payload")
    return Record(
        _whole(row.get("seq"), seq),
        "command" if kind == "command" else "event",
        name,
        payload,
        _instant(row.get("createdAt"), at),
    )


def _whole(value: JsonValue, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _instant(value: JsonValue, default: int) -> int:
    parsed = parse_instant_ms(value) if isinstance(value, str) else None
    return default if parsed is None else parsed
