"""Operations on audit, typed. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from penstock.client.caller import Caller
from penstock.client.generated.views.audit import (
    AuditKeyView,
    AuditPageView,
    AuditRecordView,
    CheckpointPage,
    CheckpointView,
    ConsistencyProof,
    Export,
    HoldPage,
    HoldView,
    InclusionProof,
    Redacted,
    Verified,
)
from penstock.client.generated.views.shared import Deleted

__all__ = ["Audit"]


class Audit:
    """Operations on audit."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def list(
        self,
        *,
        operation: str | None = None,
        principal: str | None = None,
        subject: str | None = None,
        outcome: str | None = None,
        since: str | None = None,
        until: str | None = None,
        strangers: bool | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> AuditPageView:
        """List audit records.

        Says who did what, when, from where, and with what result; newest first, for your tenant. With `strangers`,
        it returns the calls without a valid key, and requests to addresses and webhooks that do not exist.
        """
        return self._caller.invoke(
            "audit.list",
            {
                "operation": operation,
                "principal": principal,
                "subject": subject,
                "outcome": outcome,
                "since": since,
                "until": until,
                "strangers": strangers,
                "limit": limit,
                "cursor": cursor,
            },
            AuditPageView,
        )

    def list_all(
        self,
        *,
        operation: str | None = None,
        principal: str | None = None,
        subject: str | None = None,
        outcome: str | None = None,
        since: str | None = None,
        until: str | None = None,
        strangers: bool | None = None,
        limit: int | None = None,
    ) -> Iterator[AuditRecordView]:
        """List audit records: all of them; `limit` is the size of a page."""
        for page in self._caller.pages(
            "audit.list",
            {
                "operation": operation,
                "principal": principal,
                "subject": subject,
                "outcome": outcome,
                "since": since,
                "until": until,
                "strangers": strangers,
                "limit": limit,
            },
            AuditPageView,
        ):
            yield from page.items

    def export(
        self,
        *,
        after_seq: int | None = None,
        strangers: bool | None = None,
        format: Literal["cloudevents", "records"] | None = None,
        limit: int | None = None,
    ) -> Export:
        """Export audit records.

        Oldest first and unfiltered, with the signed checkpoints and the hashes of removed records, so that the
        trail can be verified elsewhere. While there is more, continue after `last_seq`.
        """
        return self._caller.invoke(
            "audit.export", {"after_seq": after_seq, "strangers": strangers, "format": format, "limit": limit}, Export
        )

    def verify(
        self,
        *,
        seq: int | None = None,
        hash: str | None = None,
        against: str | None = None,
        all_tenants: bool | None = None,
        allow_uncovered: bool | None = None,
        allow_unrecorded_redactions: bool | None = None,
    ) -> Verified:
        """Verify the audit trail.

        Recomputes the whole chain of your tenant, or of all tenants if you own the server, and says where it was
        altered, cut or reordered. Both ends are sealed, so missing records there are found too. Personal data
        counts as erased only if a later record says so, and every signed checkpoint must exist. With checkpoints
        that you kept elsewhere, or with `seq` and `hash` of an earlier answer, it also finds out whether the whole
        trail was reset to an older state.
        """
        return self._caller.invoke(
            "audit.verify",
            {
                "seq": seq,
                "hash": hash,
                "against": against,
                "all_tenants": all_tenants,
                "allow_uncovered": allow_uncovered,
                "allow_unrecorded_redactions": allow_unrecorded_redactions,
            },
            Verified,
        )

    def checkpoint(self, *, idempotency_key: str | None = None) -> CheckpointView:
        """Sign the audit trail as it is now.

        Keep the checkpoint where nobody who can change the server's file can change it. Later, it shows whether any
        record that it covers was altered, removed or inserted.
        """
        return self._caller.invoke("audit.checkpoint", {}, CheckpointView, idempotency_key=idempotency_key)

    def checkpoints(self, *, limit: int | None = None, cursor: str | None = None) -> CheckpointPage:
        """List signed checkpoints of the audit trail.

        Newest first. Each checkpoint proves the records that it covers to anyone who has the public key.
        """
        return self._caller.invoke("audit.checkpoints", {"limit": limit, "cursor": cursor}, CheckpointPage)

    def checkpoints_all(self, *, limit: int | None = None) -> Iterator[CheckpointView]:
        """List signed checkpoints of the audit trail: all of them; `limit` is the size of a page."""
        for page in self._caller.pages("audit.checkpoints", {"limit": limit}, CheckpointPage):
            yield from page.items

    def key(self) -> AuditKeyView:
        """Show the public key that verifies checkpoints.

        Give it to the people who verify the trail, over a channel that they trust.
        """
        return self._caller.invoke("audit.key", {}, AuditKeyView)

    def rotate_key(self, *, idempotency_key: str | None = None) -> AuditKeyView:
        """Sign with a new key from now on.

        The old and the new key sign a statement about each other, so that people who trust the old key can trust
        the new one. The old private key is deleted.
        """
        return self._caller.invoke("audit.rotate_key", {}, AuditKeyView, idempotency_key=idempotency_key)

    def proof(self, seq: int, *, size: int | None = None) -> InclusionProof:
        """Prove that a record is in the signed trail.

        The answer has the record, the checkpoint and the hashes that connect them. They convince anyone who has the
        public key, without showing any other record.
        """
        return self._caller.invoke("audit.proof", {"seq": seq, "size": size}, InclusionProof)

    def consistency(self, *, from_size: int, size: int | None = None) -> ConsistencyProof:
        """Prove that a checkpoint continues an earlier one.

        The proof shows that no record that the earlier checkpoint covers was changed or removed since: the trail
        only grew.
        """
        return self._caller.invoke("audit.consistency", {"from_size": from_size, "size": size}, ConsistencyProof)

    def hold(
        self,
        *,
        reason: str,
        subject: str | None = None,
        principal: str | None = None,
        since: str | None = None,
        until: str | None = None,
        idempotency_key: str | None = None,
    ) -> HoldView:
        """Hold audit records.

        Until the hold is released, retention does not remove these records, and nobody can erase data in them.
        """
        return self._caller.invoke(
            "audit.hold",
            {"reason": reason, "subject": subject, "principal": principal, "since": since, "until": until},
            HoldView,
            idempotency_key=idempotency_key,
        )

    def holds(self, *, limit: int | None = None, cursor: str | None = None) -> HoldPage:
        """List legal holds."""
        return self._caller.invoke("audit.holds", {"limit": limit, "cursor": cursor}, HoldPage)

    def holds_all(self, *, limit: int | None = None) -> Iterator[HoldView]:
        """List legal holds: all of them; `limit` is the size of a page."""
        for page in self._caller.pages("audit.holds", {"limit": limit}, HoldPage):
            yield from page.items

    def release(self, hold_id: str, *, idempotency_key: str | None = None) -> Deleted:
        """Release a legal hold.

        Retention and erasure apply to the records again.
        """
        return self._caller.invoke("audit.release", {"hold_id": hold_id}, Deleted, idempotency_key=idempotency_key)

    def redact(
        self,
        *,
        principal: str | None = None,
        subject: str | None = None,
        seq: int | None = None,
        since: str | None = None,
        until: str | None = None,
        fields: str | Sequence[str] | None = None,
        limit: int | None = None,
        after_seq: int | None = None,
        idempotency_key: str | None = None,
    ) -> Redacted:
        """Erase personal data in audit records.

        The records and their hashes stay: the trail still verifies, and says that something was erased. The record
        of this call names the erased values by their hashes. This cannot be undone.
        """
        return self._caller.invoke(
            "audit.redact",
            {
                "principal": principal,
                "subject": subject,
                "seq": seq,
                "since": since,
                "until": until,
                "fields": fields,
                "limit": limit,
                "after_seq": after_seq,
            },
            Redacted,
            idempotency_key=idempotency_key,
        )
