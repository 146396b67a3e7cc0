"""Compares rows with their checksums, and names of workflows with what they were taken from. Any database can do this.

Above it: the checks of drivers, which know their own indexes, and how to read tables that are larger than memory. Below
it: `checksums`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec

from penstock.definitions.claims import claimed_names
from penstock.runtime.ports.transactions import Row
from penstock.runtime.tables.checksums import CHECKED, row_checksum

__all__ = ["ROW_CHANGED", "Scan", "changed_names", "changed_rows", "other_versions"]

ROW_CHANGED = "ROW_CHANGED"
Scan: TypeAlias = Callable[[str], Iterable[Row]]
"""Runs a statement, and yields its rows one by one. Texts that are not UTF-8 are there with half surrogate pairs."""

_DOCUMENT = msgspec.json.Decoder(dict[str, Any])
# A comparison with a damaged column, which may be NULL, is not true either.
_OTHER_VERSIONS = (
    "SELECT w.tenant, w.name FROM workflows AS w LEFT JOIN definition_versions AS v ON v.number = w.number"
    " WHERE CASE WHEN v.tenant = w.tenant AND v.name = w.name AND v.hash = w.hash THEN 0 ELSE 1 END = 1"
)
_NEWEST = "SELECT w.tenant, w.name, d.document FROM workflows AS w JOIN definitions AS d ON d.hash = w.hash"
_CLAIMED = "SELECT tenant, kind, name, workflow FROM claimed_names"


def changed_rows(scan: Scan, table: str, keys: Sequence[str]) -> Iterator[tuple[str, str] | None]:
    """Yield the code and the message of each row that is not what was written, and None for one without a checksum.

    `keys` are the columns by which a message names a row.
    """
    statement = f"SELECT checksum, {', '.join((*keys, *CHECKED[table]))} FROM {table}"
    for checksum, *values in scan(statement):
        if checksum is None:
            if table != "marks":  # some marks only have to be there
                yield None
        elif not _is_unchanged(values[len(keys) :], checksum):
            place = ", ".join(f"{name} {value!r}" for name, value in zip(keys, values, strict=False))
            yield ROW_CHANGED, f"table {table}, {place}: the row is not what was written"


def _is_unchanged(values: Sequence[object], checksum: int) -> bool:
    """Whether values have a checksum."""
    try:
        return row_checksum(values) == checksum
    except UnicodeEncodeError:
        return False


def other_versions(scan: Scan) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with names that differ from their newest versions."""
    for tenant, name in scan(_OTHER_VERSIONS):
        yield "INDEX_DIFFERS", f"table workflows, tenant {tenant!r}, name {name!r}: it differs from its newest version"


def changed_names(scan: Scan) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with claimed names that the documents of their workflows do not claim."""
    claimed: set[Row] = set()
    for tenant, workflow, document in scan(_NEWEST):
        with suppress(ValueError, TypeError):  # a document that was changed is named for itself
            found = claimed_names(workflow, _DOCUMENT.decode(document))
            claimed.update((tenant, kind, name, workflow) for kind, name in found)
    for row in scan(_CLAIMED):
        if tuple(row) not in claimed:
            tenant, kind, name, _ = row
            place = f"table claimed_names, tenant {tenant!r}, {kind} {name!r}"
            yield "INDEX_DIFFERS", f"{place}: its workflow does not claim it"
