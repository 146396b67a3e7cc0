"""Verifies audit trails in files with a public key: exports in JSONL, and databases. Nothing else is needed.

It reads an export twice, line by line: first the checkpoints and statements about keys, then the records. So files of
any size need little memory.

Above it: `penstock audit verify`. Below it: `governance.audit`, `stamped_trails`, `drivers`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from penstock.app.drivers import is_database_file, maintenance_of
from penstock.app.stamped_trails import StampedTrails
from penstock.app.timestamps import Authorities
from penstock.base.encoding import encode_bytes
from penstock.base.errors import Rejected
from penstock.base.ids import DEFAULT_TENANT
from penstock.governance.audit.checkpoints import Note, VerifierKey, parse_key_file, parse_notes, trusted_keys
from penstock.governance.audit.leaves import entry_fields
from penstock.governance.audit.trail_lines import add_line, line_in, notes_in
from penstock.governance.audit.trails import (
    Allowances,
    Checkpoints,
    RemovedPart,
    TrailReport,
    TrailVerifier,
    checkpoints_by_tenant,
)
from penstock.operations.audit.checkpoints import CHECKPOINT_KIND, STATEMENT_KIND
from penstock.operations.audit.stamps import STAMP_KIND
from penstock.runtime.ports.audit import AuditRecordUnreadable

__all__ = ["TrustedKeys", "read_anchors", "read_public_keys", "stamp_ages", "verify_file"]


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
        hint = "save the output of `penstock audit key` in it"
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
            hint = "name a file of checkpoints"
            raise Rejected("AUDIT_CHECKPOINT_INVALID", f"{path}: {error}", hint) from error
        found.append(text)
    return "\n".join(found)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Rejected(
            "FILE_UNREADABLE", f"{path} cannot be read ({type(error).__name__})", "choose another file"
        ) from error


def verify_file(
    path: Path,
    keys: TrustedKeys,
    anchors: str = "",
    authorities: Authorities | None = None,
    *,
    allowed: Allowances | None = None,
) -> list[TrailReport]:
    """Verify every trail in a file against its checkpoints and against copies kept elsewhere.

    With certificates of time-stamping authorities, this also verifies stamps on checkpoints. `allowed` lists what
    counts as intact without proof.
    """
    kept = parse_notes(anchors)
    try:
        is_database = is_database_file(path)
    except OSError as error:
        raise Rejected(
            "FILE_UNREADABLE", f"{path} cannot be read ({type(error).__name__})", "choose another file"
        ) from error
    stamps = StampedTrails()
    made = _Verifiers(keys, kept, allowed)
    reports = (_verify_database if is_database else _verify_export)(path, made, stamps)
    return [stamps.verified(report, authorities) for report in reports]


def _verify_database(path: Path, verifiers: _Verifiers, stamps: StampedTrails) -> list[TrailReport]:
    with maintenance_of(path).trails() as trails:
        verifiers.learn(
            [], [note for text in trails.notes(STATEMENT_KIND, DEFAULT_TENANT) for note in parse_notes(text)]
        )
        tenants = trails.tenants()
        for tenant in tenants:
            texts = trails.notes(CHECKPOINT_KIND, tenant)
            verifiers.learn([note for text in texts for note in parse_notes(text)], [])
            for text in texts:
                stamps.add_checkpoint(tenant, text)
            for body in trails.bodies(STAMP_KIND, tenant):
                stamps.add_stamp(tenant, body)
        for tenant in tenants:
            verifier = verifiers(tenant)
            try:
                for part in trails.parts(tenant):
                    if isinstance(part, RemovedPart):
                        verifier.add_removed(part)
                    else:
                        verifier.add_record(part.seq, entry_fields(part.entry), part.previous_hash, part.hash)
            except AuditRecordUnreadable as error:
                verifier.add_unreadable(error.seq, error.reason)
        return verifiers.reports()


def stamp_ages(path: Path) -> dict[str, tuple[int, int]]:
    """Return how many records of each trail of a database are signed, and how many are stamped."""
    with maintenance_of(path).trails() as trails:
        found = {
            tenant: [
                max((int(body["size"]) for body in trails.bodies(kind, tenant)), default=0)
                for kind in (CHECKPOINT_KIND, STAMP_KIND)
            ]
            for tenant in trails.tenants()
        }
    return {tenant: (signed, stamped) for tenant, (signed, stamped) in found.items() if signed}


def _verify_export(path: Path, verifiers: _Verifiers, stamps: StampedTrails) -> list[TrailReport]:
    def gather(line: Mapping[str, Any]) -> None:
        verifiers.learn(*notes_in(line))
        if isinstance(line.get("checkpoint"), str):
            stamps.add_checkpoint(line["tenant"], line["checkpoint"])
        if "stamp" in line:
            stamps.add_stamp(line["tenant"], line["stamp"])

    _each_line(path, gather)
    _each_line(path, lambda line: add_line(verifiers(line["tenant"]), line))
    return verifiers.reports()


def _each_line(path: Path, use: Callable[[Mapping[str, Any]], None]) -> None:
    for number, line in enumerate(_lines(path), 1):
        try:
            use(line_in(_decoded(line)))
        except (ValueError, RecursionError) as error:  # what msgspec raises is a ValueError
            hint = "name a file that `penstock audit export` wrote"
            raise Rejected("AUDIT_EXPORT_INVALID", f"{path}, line {number}: {error}", hint) from error


def _decoded(line: bytes) -> Any:
    """Decode a line; raise ValueError if an object in it has a member twice, of which readers take this or that."""
    found = msgspec.json.decode(line)
    if encode_bytes(found) != line.strip():  # not as it was written, so look closer
        json.loads(line, object_pairs_hook=_with_single_members)
    return found


def _with_single_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has a member twice")
    return found


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        for line in file:
            if line.strip():
                yield line


class _Verifiers:
    """A verifier for each tenant. Learn all checkpoints and statements before the first record."""

    def __init__(self, trusted: TrustedKeys, kept: Sequence[Note], allowed: Allowances | None) -> None:
        self._trusted = trusted
        self._allowed = allowed
        self._notes, self._statements = [*kept], list[Note]()
        self._checkpoints: Checkpoints | None = None
        self._keys: frozenset[VerifierKey] = frozenset()
        self._made: dict[str, TrailVerifier] = {}

    def learn(self, checkpoints: Sequence[Note], statements: Sequence[Note]) -> None:
        """Add checkpoints, and statements about keys."""
        self._notes += checkpoints
        self._statements += statements

    def __call__(self, tenant: str) -> TrailVerifier:
        if self._checkpoints is None:
            self._keys = self._trusted.with_statements(self._statements)
            self._checkpoints = checkpoints_by_tenant(self._notes)
        if tenant not in self._made:
            found = self._checkpoints.get(tenant, ())
            self._made[tenant] = TrailVerifier(tenant, self._keys, found, allowed=self._allowed)
        return self._made[tenant]

    def reports(self) -> list[TrailReport]:
        """What was found, by tenant; trails of which there are only checkpoints too."""
        for tenant in checkpoints_by_tenant(self._notes):
            self(tenant)
        return [self._made[tenant].report() for tenant in sorted(self._made)]
