"""The audit log as the gate writes it: one record for every outcome, refusals included.

The record of a change is stored with the change, in one transaction (`CallRecord`). A call that changes nothing gets a
separate record, which is durable before the caller gets the answer. Equal reads that were allowed within a minute
become one record with a count, so that polling does not fill the disk. So do refusals that anybody can cause
(`refusals`). Gathered entries are written every few seconds, when the window ends and when the process stops; a crash
may lose the counts of the last minute. While the disk is full, reads are gathered until the bounded buffer is full, and
written once there is room. While records cannot be written for any other reason, no call succeeds.

What only becomes known during a call is added with `CallRecord.note`: the outcome of a held call, the policies that
decided, the ids of run, draft and approval. `Gate` copies it into the record whether the call succeeds or not.

Above it: `pipeline`, `app` (which flushes). Below it: `refusals`, the platform port, `governance.audit.chain`.
"""

from __future__ import annotations

import logging
from secrets import token_bytes
from typing import NamedTuple

from msgspec.structs import replace

from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject
from penstock.governance.audit.chain import ChainSeal
from penstock.governance.audit.leaves import SALT_BYTES
from penstock.governance.keys import hide_secrets
from penstock.operations.catalogue.capability import Capability
from penstock.operations.gate.context import Principal, Request, Services
from penstock.operations.gate.idempotency import digest_arguments
from penstock.operations.gate.refusals import GatheredRefusals
from penstock.runtime.ports.platform import AuditEntry, AuditOutcome, Seal
from penstock.runtime.tables.call_records import append_audit

__all__ = ["ANONYMOUS_TENANT", "AuditKey", "AuditLog", "audit_key", "seal_with"]


# The tenant in records of callers without a valid key. No real tenant can have this name.
ANONYMOUS_TENANT = "-"
_LOGGER = logging.getLogger("penstock.gate")
# The code of a store whose disk is full. It can be read, and is written again once there is room.
_NO_ROOM = "STORE_FULL"
# Operations whose subject is a run. Others note the run that they start.
_ABOUT_RUNS = "execution."
# Asking the operating system costs more than a salt does, and lets other threads take over the interpreter.
_SALTS_DRAWN = 64


class AuditKey(NamedTuple):
    """The fields that make two calls equal in the audit log."""

    tenant: str
    principal: str
    surface: str
    operation: str
    subject: str | None
    code: str | None


def seal_with(key: bytes) -> Seal:
    """Return the function with which a store links an entry to its chain."""
    return ChainSeal(key)


def audit_key(request: Request, principal: Principal, capability: Capability | None, code: str | None) -> AuditKey:
    """Return the key under which equal calls are gathered."""
    subject = capability.authorization(request.arguments).resource_id if capability else None
    return AuditKey(
        principal.tenant,
        principal.id,
        request.surface,
        capability.name if capability else hide_secrets(request.operation)[:100],
        _bounded(subject, limits.AUDIT_SUBJECT_CHARACTERS_MAX),
        code,
    )


def _bounded(text: str | None, characters_max: int) -> str | None:
    """Return a text that the caller chose as a record keeps it: bounded, and without the secret of a key."""
    return hide_secrets(text)[:characters_max] if text else None


class _Salts:
    """The salts of records. They come from the operating system, many at once."""

    def __init__(self) -> None:
        self._drawn = ""
        self._used = 0

    def next(self) -> str:
        """Return a salt that nobody had, in hexadecimal."""
        if self._used == len(self._drawn):
            self._drawn, self._used = token_bytes(SALT_BYTES * _SALTS_DRAWN).hex(), 0
        start, self._used = self._used, self._used + 2 * SALT_BYTES
        return self._drawn[start : self._used]


class AuditLog:
    """Writes entries, and gathers those of equal reads."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.seal = seal_with(services.pepper)
        self._salts = _Salts()
        self._gathered: dict[AuditKey, AuditEntry] = {}
        self._repeats: dict[AuditKey, int] = {}
        """How many more times each gathered entry has occurred."""
        self._gathered_since = 0
        self._refusals = GatheredRefusals()
        self._failure: str | None = None
        """The code of the error of the last write; None if it succeeded."""
        self._writing = 0
        """How many gathered entries are being written."""

    def entry(
        self, call_key: AuditKey, request: Request, outcome: AuditOutcome, *, reads: bool, replayed: bool = False
    ) -> AuditEntry:
        """Return the entry for a call. A read has no digest of its arguments, so that equal reads can be gathered."""
        principal, origin = request.principal, request.origin
        details: JsonObject = {}
        if request.approval is not None:
            details["digest"] = request.approval.digest
            details["approved_by"] = [vote.principal for vote in request.approval.votes]
        elif request.idempotency_key is not None:
            details["idempotency_key"] = hide_secrets(request.idempotency_key)
        if replayed:
            details["replayed"] = True
        return AuditEntry(
            at=self._services.clock.now_ms(),
            tenant=call_key.tenant,
            principal=call_key.principal,
            surface=call_key.surface,
            operation=call_key.operation,
            outcome=outcome,
            code=call_key.code,
            subject=call_key.subject,
            request_id=request.request_id,
            arguments_digest=None if reads else digest_arguments(self._services.pepper, request.arguments),
            details=details,
            principal_kind=principal.kind,
            principal_name=_bounded(principal.name, limits.AUDIT_NAME_CHARACTERS_MAX),
            acting_for=principal.acting_for or None,
            credential=principal.credential_id,
            client=_bounded(origin.client, limits.AUDIT_CLIENT_CHARACTERS_MAX) if origin is not None else None,
            remote=_bounded(request.remote, limits.AUDIT_REMOTE_CHARACTERS_MAX),
            trace_id=origin.trace_id if origin is not None else None,
            salt=self._salts.next(),
            run_id=call_key.subject if call_key.operation.startswith(_ABOUT_RUNS) else None,
        )

    def refused(self, call_key: AuditKey, request: Request, *, outcome: AuditOutcome = "refused") -> None:
        """Count a refusal that anybody can cause. It is written later, together with equal ones."""
        if not self._services.audited:
            return
        key = (*call_key[1:], request.remote)
        if not self._refusals.counted(call_key.tenant, key, self._services.clock.now_ms()):
            self._refusals.add(key, self.entry(call_key, request, outcome, reads=True))

    def refused_entry(self, entry: AuditEntry) -> None:
        """Do the same as `refused` for an entry that already exists."""
        key = (entry.principal, entry.surface, entry.operation, entry.subject, entry.code, entry.remote)
        if self._services.audited and not self._refusals.counted(entry.tenant, key, entry.at):
            self._refusals.add(key, entry)

    async def write(self, entry: AuditEntry, *, gather: bool) -> None:
        """Write an entry. It is durable on return, unless it is gathered."""
        if not self._services.audited:
            return
        if not gather:
            await self._append([entry])
            return
        call_key = AuditKey(entry.tenant, entry.principal, entry.surface, entry.operation, entry.subject, entry.code)
        if not self.counted(call_key):
            if self._failure is not None and self._is_buffer_full():
                await self._flush_reads()  # raises if the records still cannot be written: this one is not kept
            self._gathered[call_key] = entry
            if len(self._gathered) == 1:
                self._gathered_since = entry.at
        if self._flush_is_due(entry.at) or (self._failure is None and self._is_buffer_full()):
            await self._flush_or_keep()

    def _is_buffer_full(self) -> bool:
        return len(self._gathered) + self._writing >= limits.AUDIT_READS_GATHERED_MAX

    async def _flush_or_keep(self) -> None:
        """Write the gathered entries; if the disk is full, keep them, and let their callers have their answers."""
        try:
            await self._flush_reads()
        except PenstockError as error:
            if error.code != _NO_ROOM:
                raise
            _LOGGER.exception("records of reads are kept in memory until there is room")

    def counted(self, call_key: AuditKey) -> bool:
        """Count one more occurrence of a gathered entry; return False if the entry is not gathered yet."""
        if call_key not in self._gathered:
            return False
        self._repeats[call_key] = self._repeats.get(call_key, 0) + 1
        return True

    def counted_in_time(self, call_key: AuditKey, now_ms: int) -> bool:
        """Count as `counted` does, unless a flush is due; return False, and count nothing, if it is."""
        return not self._flush_is_due(now_ms) and self.counted(call_key)

    def _flush_is_due(self, now_ms: int) -> bool:
        """Whether a call has to write the gathered entries. On a full disk, only the regular flush tries again."""
        if self._failure is not None:
            return self._failure != _NO_ROOM
        return now_ms - self._gathered_since >= limits.AUDIT_READS_GATHER_MS

    async def flush(self, *, final: bool = False) -> None:
        """Write the gathered entries; keep those that cannot be written for the next flush.

        The counts of repeated refusals wait for the end of their minute, unless this is the final flush.
        """
        try:
            await self._flush_reads()
        except PenstockError:
            if final:
                reads = sum(entry.count for entry in self._gathered.values()) + sum(self._repeats.values())
                _LOGGER.exception("the audit records of %d reads could not be written, and are lost", reads)
            raise
        refused = self._refusals.take(self._services.clock.now_ms(), final=final)
        if not refused:
            return
        try:
            await self._append(refused)
        except PenstockError:
            self._refusals.give_back(refused)
            raise

    async def _flush_reads(self) -> None:
        gathered, self._gathered = self._gathered, {}
        repeats, self._repeats = self._repeats, {}
        if not gathered:
            return
        counted = {
            call_key: replace(entry, count=entry.count + repeats.get(call_key, 0))
            for call_key, entry in gathered.items()
        }
        self._writing += len(counted)
        try:
            await self._append(list(counted.values()))
        except PenstockError:
            for call_key, entry in counted.items():
                if call_key in self._gathered:
                    self._repeats[call_key] = self._repeats.get(call_key, 0) + entry.count
                else:
                    self._gathered[call_key] = entry
            raise
        finally:
            self._writing -= len(counted)

    async def _append(self, entries: list[AuditEntry]) -> None:
        salted = [entry if entry.salt is not None else replace(entry, salt=self._salts.next()) for entry in entries]
        try:
            await append_audit(self._services.platform, salted, seal=self.seal)
        except PenstockError as error:
            self._failure = error.code
            raise
        self._failure = None
