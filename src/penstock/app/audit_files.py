"""Verifies audit trails in files with a public key: exports in JSONL, and databases. Nothing else is needed.

An export is read twice, line by line: first its checkpoints and statements about keys, then its records. So files of
any size are verified with little memory.

Above it: `penstock audit verify`. Below it: `governance.audit`, `stamped_trails`, the SQLite adapter, which only `app`
may name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from penstock.app.stamped_trails import StampedTrails
from penstock.app.timestamps import Authorities
from penstock.base.errors import Rejected
from penstock.base.ids import DEFAULT_TENANT
from penstock.governance.audit.checkpoints import Note, VerifierKey, parse_key_file, parse_notes, trusted_keys
from penstock.governance.audit.leaves import entry_fields
from penstock.governance.audit.trail_lines import add_line, line_in, notes_in
from penstock.governance.audit.trails import RemovedPart, TrailReport, TrailVerifier, checkpoints_by_tenant
from penstock.operations.audit.checkpoints import CHECKPOINT_KIND, STATEMENT_KIND
from penstock.operations.audit.stamps import STAMP_KIND
from penstock.runtime.stores.sqlite.maintenance.trails import open_trails

__all__ = ["TrustedKeys", "read_anchors", "read_public_keys", "stamp_ages", "verify_file"]

_SQLITE = b"SQLite format 3\0"


class TrustedKeys(msgspec.Struct, frozen=True):
    """Public keys that a person trusts, and statements that lead from them to others."""

    keys: tuple[VerifierKey, ...]
    statements: tuple[Note, ...] = ()

    def with_statements(self, more: Sequence[Note]) -> frozenset[VerifierKey]:
        """Every key that is trusted, given what else is known."""
        return trusted_keys(self.keys, [*self.statements, *more])


def read_public_keys(path: Path) -> TrustedKeys:
    """Read a file as `penstock audit key` prints it."""
    try:
        keys, statements = parse_key_file(_text(path))
    except ValueError as error:
        hint = "write into it what `penstock audit key` prints"
        raise Rejected("AUDIT_PUBLIC_KEY_INVALID", f"{path}: {error}", hint) from error
    return TrustedKeys(tuple(keys), tuple(statements))


def read_anchors(paths: Sequence[Path]) -> str:
    """Read files with signed checkpoints, and return all of them."""
    found = []
    for path in paths:
        text = _text(path)
        try:
            checkpoints_by_tenant(parse_notes(text))
        except ValueError as error:
            hint = "name a file to which checkpoints were written"
            raise Rejected("AUDIT_CHECKPOINT_INVALID", f"{path}: {error}", hint) from error
        found.append(text)
    return "\n".join(found)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Rejected("FILE_UNREADABLE", f"{path} cannot be read ({type(error).__name__})", "name another") from error


def verify_file(
    path: Path, keys: TrustedKeys, anchors: str = "", authorities: Authorities | None = None
) -> list[TrailReport]:
    """Verify every trail in a file against its checkpoints and against those that were kept elsewhere.

    Stamps on checkpoints are verified with the certificates of time-stamping authorities, if there are any.
    """
    kept = parse_notes(anchors)
    try:
        with path.open("rb") as file:
            is_database = file.read(len(_SQLITE)) == _SQLITE
    except OSError as error:
        raise Rejected("FILE_UNREADABLE", f"{path} cannot be read ({type(error).__name__})", "name another") from error
    stamps = StampedTrails()
    reports = (_verify_database if is_database else _verify_export)(path, keys, kept, stamps)
    return [stamps.verified(report, authorities) for report in reports]


def _verify_database(path: Path, keys: TrustedKeys, kept: Sequence[Note], stamps: StampedTrails) -> list[TrailReport]:
    with open_trails(path) as trails:
        statements = [note for text in trails.notes(STATEMENT_KIND, DEFAULT_TENANT) for note in parse_notes(text)]
        tenants = trails.tenants()
        stored = [
            note for tenant in tenants for text in trails.notes(CHECKPOINT_KIND, tenant) for note in parse_notes(text)
        ]
        verifiers = _Verifiers(keys.with_statements(statements), [*kept, *stored])
        for tenant in tenants:
            for text in trails.notes(CHECKPOINT_KIND, tenant):
                stamps.add_checkpoint(tenant, text)
            for body in trails.bodies(STAMP_KIND, tenant):
                stamps.add_stamp(tenant, body)
            verifier = verifiers(tenant)
            for part in trails.parts(tenant):
                if isinstance(part, RemovedPart):
                    verifier.add_removed(part)
                else:
                    verifier.add_record(part.seq, entry_fields(part.entry), part.previous_hash, part.hash)
        return verifiers.reports()


def stamp_ages(path: Path) -> dict[str, tuple[int, int]]:
    """Return how far each trail of a database is signed, and how far it is stamped."""
    with open_trails(path) as trails:
        found = {
            tenant: [
                max((int(body["size"]) for body in trails.bodies(kind, tenant)), default=0)
                for kind in (CHECKPOINT_KIND, STAMP_KIND)
            ]
            for tenant in trails.tenants()
        }
    return {tenant: (signed, stamped) for tenant, (signed, stamped) in found.items() if signed}


def _verify_export(path: Path, keys: TrustedKeys, kept: Sequence[Note], stamps: StampedTrails) -> list[TrailReport]:
    notes, statements = [*kept], list[Note]()

    def gather(line: Mapping[str, Any]) -> None:
        found = notes_in(line)
        notes.extend(found[0])
        statements.extend(found[1])
        if isinstance(line.get("checkpoint"), str):
            stamps.add_checkpoint(line["tenant"], line["checkpoint"])
        if "stamp" in line:
            stamps.add_stamp(line["tenant"], line["stamp"])

    _each_line(path, gather)
    verifiers = _Verifiers(keys.with_statements(statements), notes)
    _each_line(path, lambda line: add_line(verifiers(line["tenant"]), line))
    return verifiers.reports()


def _each_line(path: Path, use: Callable[[Mapping[str, Any]], None]) -> None:
    for number, line in enumerate(_lines(path), 1):
        try:
            use(line_in(msgspec.json.decode(line)))
        except (ValueError, RecursionError) as error:  # what msgspec raises is a ValueError
            hint = "name a file that `penstock audit export` wrote"
            raise Rejected("AUDIT_EXPORT_INVALID", f"{path}, line {number}: {error}", hint) from error


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        for line in file:
            if line.strip():
                yield line


class _Verifiers:
    """A verifier for each tenant."""

    def __init__(self, keys: frozenset[VerifierKey], notes: Sequence[Note]) -> None:
        self._keys = keys
        self._checkpoints = checkpoints_by_tenant(notes)
        self._made = {tenant: TrailVerifier(tenant, keys, found) for tenant, found in self._checkpoints.items()}

    def __call__(self, tenant: str) -> TrailVerifier:
        if tenant not in self._made:
            self._made[tenant] = TrailVerifier(tenant, self._keys, ())
        return self._made[tenant]

    def reports(self) -> list[TrailReport]:
        """What was found, by tenant."""
        return [self._made[tenant].report() for tenant in sorted(self._made)]
