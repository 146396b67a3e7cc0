"""The amounts that policies add up: which arguments can be, what a call adds, and a sum as policies see it.

Amounts are kept as whole ten-thousandths, the precision of Cedar's decimals, so that sums are exact. An amount below
zero adds nothing: otherwise anybody could make room for a large one with it. A sum that does not fit is the largest
decimal, which is above every limit.

Above it: `validation`, the gate. Below it: `shapes`.
"""

from __future__ import annotations

from decimal import Decimal

from penstock.base.json import JsonObject, JsonValue
from penstock.governance.policy.shapes import Field, RecordShape, ScalarShape, Unfit, decimal_text, exact_decimal

__all__ = ["AMOUNT_MAX", "UNITS", "amount_of", "count_value", "sum_value", "why_not_summed"]

UNITS = 10_000
"""Kept units in one: as many as a Cedar decimal has."""
AMOUNT_MAX = 2**63 - 1
_NUMBERS = ("long", "decimal")


def why_not_summed(shape: RecordShape, path: tuple[str, ...]) -> str | None:
    """Return why an argument cannot be added up; None if it can."""
    found = _field(shape, path)
    name = ".".join(path)
    if found is None:
        return f"{name} is not a declared argument"
    if not isinstance(found.shape, ScalarShape) or found.shape.kind not in _NUMBERS:
        return f"{name} is not a number"
    return f"{name} is a secret, and its values would be kept" if found.secret else None


def _field(shape: RecordShape, path: tuple[str, ...]) -> Field | None:
    found: Field | None = None
    for name in path:
        within = shape if found is None else found.shape
        found = within.fields.get(name) if isinstance(within, RecordShape) else None
        if found is None or found.secret:
            return found
    return found


def amount_of(shape: RecordShape, arguments: JsonObject, path: tuple[str, ...]) -> int:
    """Return what a call adds, in units: 0 if the argument is left out; raise `Unfit` if it cannot be added up."""
    problem = why_not_summed(shape, path)
    if problem is not None:
        raise Unfit(problem)
    value: JsonValue = arguments
    within: RecordShape | None = shape
    for name in path:
        if within is None or not isinstance(value, dict):
            raise Unfit(f"/{'/'.join(path)} has not the declared type")
        field = within.fields[name]
        value = value.get(name, field.default)
        if value is None:
            return 0
        within = field.shape if isinstance(field.shape, RecordShape) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Unfit(f"/{'/'.join(path)} is not a number")
    if isinstance(value, int) and value > AMOUNT_MAX // UNITS:
        return AMOUNT_MAX
    exact = exact_decimal(value, f"/{'/'.join(path)}") if value > 0 else Decimal(0)
    return min(int(exact * UNITS), AMOUNT_MAX)


def sum_value(units: int) -> JsonValue:
    """Return a sum as Cedar's JSON."""
    number = Decimal(min(units, AMOUNT_MAX)) / UNITS
    return {"__extn": {"fn": "decimal", "arg": decimal_text(number)}}


def count_value(units: int) -> int:
    """Return a count that was kept as a sum: each call adds one."""
    return units // UNITS
