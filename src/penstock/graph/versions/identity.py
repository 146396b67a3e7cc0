"""The identifier of a node, from its key.

A key of one property is its text; several are a JSON array of their texts. Nodes of a type without a key have generated
identifiers.

Above it: the stores. Below it: `schema.model`, `values`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from penstock.graph.schema.model import Base, NodeType, Scalar, ValueType
from penstock.graph.values import GraphValue

__all__ = ["date_time_text", "key_of"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def key_of(type_: NodeType, values: Mapping[str, GraphValue | None]) -> str | None:
    """The identifier that the key gives; None if there is no key, or a part of it is missing."""
    if type_.key is None:
        return None
    texts: list[str] = []
    for name in type_.key:
        value = values.get(name)
        if value is None:
            return None
        texts.append(_text(value, type_.by_name[name].type))
    return texts[0] if len(texts) == 1 else json.dumps(texts, ensure_ascii=False, separators=(",", ":"))


def _text(value: GraphValue, type_: ValueType) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and type_ == Scalar(Base.DATE_TIME):
        return date_time_text(value)
    return value if isinstance(value, str) else repr(value)


def date_time_text(milliseconds: int) -> str:
    """A DateTime as it is written: UTC, with milliseconds only if there are any."""
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds" if milliseconds % 1000 else "seconds")
