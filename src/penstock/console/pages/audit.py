"""The audit log: search, one record with its proof, verification of the whole trail, and export.

Lists continue from the number of the last record, so a long log is as fast as a short one. `audit.verify` verifies a
trail page by page, in threads, without blocking the server.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import msgspec

from penstock.asgi.forms import Fields
from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.errors import NotFound, PenstockError, Rejected
from penstock.console.pages.reading import no_such_button
from penstock.console.rendering import cut_value
from penstock.console.visits import Page, Shown, Text, Visit
from penstock.operations.audit.records import Export, export_lines

__all__ = ["entry", "export", "listing", "proof", "shadow", "verify"]

_FILTERS = ("operation", "principal", "subject", "outcome", "since", "until")
_OUTCOMES = ("allowed", "refused", "failed", "held", "approved", "rejected", "executed")
_FORMS = ("records", "cloudevents")
# What `audit.verify` says about a trail that is not intact, for people.
_REASONS = {
    "altered": "a record was altered",
    "missing": "records are missing",
    "rolled_back": "the trail ends before the record that you kept",
    "head_missing": "the end of the trail is no longer sealed",
    "head_altered": "the seal of the end of the trail was altered",
    "beginning_missing": "the beginning of the trail is missing",
    "end_missing": "the end of the trail is missing",
    "chain_missing": "a whole trail is missing",
}
_SHADOW = "shadow "


async def listing(visit: Visit) -> Shown:
    """Show records, newest first."""
    given = {name: visit.query.text(name) for name in _FILTERS}
    strangers = visit.query.text("strangers") == "yes"
    page = await visit.call(
        "audit.list",
        **{name: _instant(text) if name in ("since", "until") else text for name, text in given.items() if text},
        strangers=strangers or None,
        limit=limits.CONSOLE_ROWS,
        cursor=visit.query.text("cursor") or None,
    )
    chosen = {name: text for name, text in given.items() if text} | ({"strangers": "yes"} if strangers else {})
    more = urlencode({**chosen, "cursor": page["next_cursor"]}) if page["next_cursor"] else None
    return Page(
        "audit/list.html",
        {
            "section": "audit",
            "records": page["items"],
            "more": more,
            "filters": given,
            "strangers": strangers,
            "is_filtered": bool(chosen),
            "is_later": bool(visit.query.text("cursor")),
            "outcomes": _OUTCOMES,
        },
    )


def _instant(text: str) -> str:
    """Return a time as operations take it. Browsers leave out the zone; the pages say that it is UTC."""
    whole = f"{text}:00" if len(text) == len("2026-01-31T09:00") else text
    return whole if "Z" in whole or "+" in whole else f"{whole}Z"


async def entry(visit: Visit) -> Shown:
    """Show one record."""
    record = await _record(visit, visit.path["seq"])
    given = {"section": "audit", "record": record, "details": cut_value(record["details"])}
    return Page("audit/record.html", given)


async def _record(visit: Visit, seq: str) -> dict[str, Any]:
    """Return a record by its number: the newest of those that come before the next one."""
    number = _number(seq)
    page = await visit.call("audit.list", cursor=str(number + 1), limit=1)
    found: dict[str, Any] | None = page["items"][0] if page["items"] else None
    if found is None or found["seq"] != number:
        message = f"there is no audit record {number}"
        raise NotFound("AUDIT_RECORD_NOT_FOUND", message, "retention may have removed it; go back to the list")
    return found


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < len(text) <= len(str(2**53))):
        raise NotFound("AUDIT_RECORD_NOT_FOUND", "there is no such audit record", "go back to the list")
    return int(text)


async def proof(visit: Visit) -> Shown:
    """Show the proof that a record is in the signed trail, or give it as a file."""
    number = _number(visit.path["seq"])
    try:
        shown = await visit.call("audit.proof", seq=number)
    except PenstockError as error:
        if error.code != "AUDIT_CHECKPOINT_NOT_FOUND":
            raise
        given = {"section": "audit", "seq": number, "proof": None, "missing": error}
        return Page("audit/proof.html", given, 404)
    if visit.query.text("file"):
        return Text(msgspec.json.format(encode_bytes(shown)).decode(), f"audit-proof-{number}.json")
    return Page("audit/proof.html", {"section": "audit", "seq": number, "proof": shown, "missing": None})


async def verify(visit: Visit) -> Shown:
    """Verify the trail, or sign it."""
    form = visit.form or Fields({})
    kept = {name: form.text(name) for name in ("seq", "hash", "against")}
    verified, signed, mistake = None, None, None
    if visit.form is not None:
        try:
            if form.text("action") == "sign":
                signed = await visit.call("audit.checkpoint")
            elif form.text("action") == "verify":
                number = _number(kept["seq"]) if kept["seq"] else None
                verified = await visit.call(
                    "audit.verify", seq=number, hash=kept["hash"] or None, against=kept["against"] or None
                )
            else:
                raise no_such_button()
        except PenstockError as error:
            mistake = error
    reason = None if verified is None else _REASONS.get(verified["reason"] or "", verified["reason"])
    given = {"verified": verified, "reason": reason, "signed": signed, "mistake": mistake, "kept": kept}
    return Page("audit/verify.html", {"section": "audit", **given}, 200 if mistake is None else 422)


async def export(visit: Visit) -> Shown:
    """Show a part of the trail that can be taken elsewhere, or give it as a file of JSON lines."""
    after, form = visit.query.text("after_seq"), visit.query.text("format") or _FORMS[0]
    if form not in _FORMS:
        raise Rejected("FORMAT_UNKNOWN", f"{form[:40]} is not one of the choices", f"choose one of {', '.join(_FORMS)}")
    first = _number(after) if after and after != "0" else 0
    file = bool(visit.query.text("file"))
    wanted = form if file else _FORMS[0]
    page = await visit.call("audit.export", after_seq=first, format=wanted, limit=limits.CONSOLE_AUDIT_FILE_RECORDS)
    if not file:
        return Page("audit/export.html", {"section": "audit", "page": page, "after_seq": first, "forms": _FORMS})
    lines = page["events"] if form == "cloudevents" else export_lines(msgspec.convert(page, Export))
    text = "".join(f"{encode_bytes(line).decode()}\n" for line in lines)
    return Text(text, f"audit-after-{first}.jsonl")


async def shadow(visit: Visit) -> Shown:
    """Show recorded calls that policies in shadow mode would have decided differently."""
    page = await visit.call("audit.list", limit=limits.PAGE_LIMIT_MAX, cursor=visit.query.text("cursor") or None)
    found = [
        {**record, "shadow": [reason for reason in record["reasons"] or () if reason.startswith(_SHADOW)]}
        for record in page["items"]
    ]
    records = [record for record in found if record["shadow"]]
    given = {"records": records, "looked_at": len(found), "more": page["next_cursor"]}
    return Page("policies/shadow.html", {"section": "policies", **given})
