"""The stamps in a file with audit trails, verified against the checkpoints in it.

A stamp counts only if it is of a checkpoint that is in the file, word for word, and if a given certificate verifies it.
Without certificates stamps are counted, and not verified.

Above it: `audit_files`. Below it: `timestamps`, `governance.audit`.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import Any

import msgspec

from penstock.app.timestamps import Authorities, StampInvalid, verify_stamp
from penstock.governance.audit.checkpoints import Checkpoint, parse_notes
from penstock.governance.audit.trails import TrailProblem, TrailReport
from penstock.operations.audit.stamps import StoredStamp
from penstock.operations.catalogue.fields import instant

__all__ = ["StampedTrails"]


@dataclass(slots=True)
class StampedTrails:
    """The checkpoints and stamps of a file, gathered while it is read."""

    _checkpoints: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    _stamps: dict[str, list[StoredStamp]] = field(default_factory=dict)

    def add_checkpoint(self, tenant: str, text: str) -> None:
        """Add a checkpoint as it is in the file; raise ValueError if it is not a checkpoint."""
        for note in parse_notes(text):
            size = Checkpoint.parse(note.text).size
            self._checkpoints.setdefault((tenant, size), []).append(text)

    def add_stamp(self, tenant: str, body: Any) -> None:
        """Add a stamp; raise ValueError if it is not a stamp."""
        try:
            stamp = msgspec.convert(body, StoredStamp)
        except msgspec.ValidationError as error:
            raise ValueError(f"this is not a stamp: {error}") from error
        self._stamps.setdefault(tenant, []).append(stamp)

    def verified(self, report: TrailReport, authorities: Authorities | None) -> TrailReport:
        """Return a report with what was found about the stamps of its trail."""
        stamps = self._stamps.get(report.tenant, [])
        if authorities is None or not stamps:
            return msgspec.structs.replace(report, unverified_stamps=len(stamps))
        problems, valid = list(report.problems), list[tuple[int, int]]()
        for stamp in stamps:
            outcome = self._verify(report.tenant, stamp, authorities)
            if isinstance(outcome, StampInvalid):
                message = f"the stamp on the checkpoint of {stamp.size:,} records is not valid: {outcome.reason}"
                problems.append(TrailProblem(kind="stamp", message=message, seq=stamp.size))
            else:
                valid.append((stamp.size, outcome))
        newest = max(valid, default=None)
        return msgspec.structs.replace(
            report,
            problems=tuple(problems),
            stamps=len(valid),
            stamped=0 if newest is None else newest[0],
            stamped_at=None if newest is None else instant(newest[1]),
        )

    def _verify(self, tenant: str, stamp: StoredStamp, authorities: Authorities) -> int | StampInvalid:
        """Return the time of a stamp, in milliseconds: the one that is signed, not the one beside it."""
        try:
            token = base64.b64decode(stamp.token, validate=True)
        except (binascii.Error, ValueError):
            return StampInvalid("it is not Base64")
        found: StampInvalid = StampInvalid("there is no such checkpoint")
        for text in self._checkpoints.get((tenant, stamp.size), []):
            outcome = verify_stamp(token, text, authorities)
            if not isinstance(outcome, StampInvalid):
                return outcome.at
            found = outcome
        return found
