"""The values of a graph in memory: which Python type stands for which value type.

| Type | In memory | Order |
| --- | --- | --- |
| `String`, enums | `str` | by code points |
| `Bool` | `bool` | false before true |
| `I32` `I64` `U32` `U64` | `int` | numeric |
| `F32` `F64` | `float`, finite; `F32` rounded to 32 bits | numeric |
| `Date` | `str`, `YYYY-MM-DD`, years 0001 to 9999 | as text, which is the order of days |
| `DateTime` | `int`, milliseconds since 1970-01-01T00:00:00Z | numeric |
| `Blob` | `bytes` | none |
| `[T]` | `tuple` of the above, without None | none |
| `Vector(n)` | `tuple` of n `float`, each rounded to 32 bits | none |

None stands for a missing value. Constants of checked queries, coerced parameters, the properties of NDJSON records and
the rows of stores all have these forms, so nothing between them converts.

Above it: everything in `graph`, and the stores. Below it: `schema.model`. It does not check values: `parameters` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from penstock.graph.schema.model import Base

__all__ = ["F32_MAX", "INTEGER_RANGES", "GraphItem", "GraphValue"]

GraphItem: TypeAlias = str | bool | int | float | bytes
GraphValue: TypeAlias = GraphItem | tuple[GraphItem, ...]

INTEGER_RANGES: Mapping[Base, tuple[int, int]] = {
    Base.I32: (-(2**31), 2**31 - 1),
    Base.I64: (-(2**63), 2**63 - 1),
    Base.U32: (0, 2**32 - 1),
    Base.U64: (0, 2**64 - 1),
}
"""The smallest and the largest value of every integer type."""

F32_MAX = (2.0 - 2.0**-23) * 2.0**127
"""The largest finite number of 32 bits."""
