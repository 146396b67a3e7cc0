"""`penstock audit verify|export|checkpoint|key`: the audit trail as evidence.

`verify` asks the server, or the file of which the user has the secret; with a public key it verifies a file by itself,
offline. `export` writes a trail line by line, and can go on where it stopped.

Above it: `tree.commands`, by name. Below it: the operations on the audit log, `app.audit_files`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import IO, Annotated, Any, Final

import msgspec

from penstock.app.audit_files import read_anchors, read_public_keys, verify_file
from penstock.app.timestamps import read_authorities
from penstock.base.encoding import encode_bytes
from penstock.base.errors import PenstockError, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.base.text import clean
from penstock.cli.declaration import Argument, Option, echo
from penstock.cli.targets.clients import OperationClient, open_client
from penstock.cli.targets.selection import (
    IdempotencyOption,
    ProfileOption,
    ServerOption,
    Target,
    TargetFileOption,
    choose_target,
)
from penstock.cli.terminal.console import count_words
from penstock.cli.terminal.exits import JsonOption, exit_with, print_json
from penstock.cli.terminal.values import UsageError
from penstock.client.operations import find_operation
from penstock.governance.audit.trail_lines import line_in, to_event
from penstock.governance.audit.trails import Allowances, RemovedPart, TrailReport
from penstock.operations.audit.records import Export, export_lines

__all__ = ["checkpoint_command", "export_command", "key_command", "verify_command"]

_PAGE: Final = 1_000


class ExportFormat(StrEnum):
    """The forms of an export."""

    JSONL = "jsonl"
    CLOUDEVENTS = "cloudevents"


def verify_command(  # noqa: PLR0913  # every option is one the user can give
    trail: Annotated[
        Path | None,
        Argument(metavar="FILE", help="With --public-key: an exported trail, or a database.", show_default=False),
    ] = None,
    *,
    against: Annotated[
        list[Path] | None,
        Option("--against", metavar="FILE", help="Checkpoints that were kept elsewhere. Repeatable."),
    ] = None,
    public_key: Annotated[
        Path | None,
        Option("--public-key", metavar="FILE", help="Verify FILE offline, with the key in this file alone."),
    ] = None,
    certificate: Annotated[
        Path | None,
        Option(
            "--timestamp-certificate",
            metavar="FILE",
            help="With --public-key: verify stamps with these certificates of their authority (PEM).",
        ),
    ] = None,
    seq: Annotated[int | None, Option("--seq", help="The number of a record that you kept.")] = None,
    record_hash: Annotated[str | None, Option("--hash", help="The hash of that record.")] = None,
    all_tenants: Annotated[
        bool | None,
        Option("--all-tenants/--own", help="The trails of all tenants, as the owner gets them by default."),
    ] = None,
    allow_uncovered: Annotated[
        bool,
        Option("--allow-uncovered", help="Accept trails without a checkpoint, and checkpoints that are missing."),
    ] = False,
    allow_unrecorded_redactions: Annotated[
        bool,
        Option(
            "--allow-unrecorded-redactions",
            help="Accept erased fields that no record names, as earlier releases left them.",
        ),
    ] = False,
    target_server: ServerOption = None,
    target_profile: ProfileOption = None,
    target_file: TargetFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Verify the audit trail.

    Without --public-key the server verifies its own trail, or that of a file whose secret is at hand: every seal, both
    ends and every checkpoint. With --public-key this command verifies an exported trail or a database by itself: all
    that a checkpoint covers was neither edited, removed, inserted nor moved, and every trail has a checkpoint. Fields
    count as erased only if a later record says so. Exit codes: 0 intact, 1 not.
    """

    def work() -> int:
        anchors = read_anchors(against or ())
        if public_key is not None:
            if trail is None:
                raise UsageError("name the file to verify: an exported trail, or a database")
            authorities = None if certificate is None else read_authorities(certificate)
            allowed = Allowances(uncovered=allow_uncovered, unrecorded_redactions=allow_unrecorded_redactions)
            reports = verify_file(trail, read_public_keys(public_key), anchors, authorities, allowed=allowed)
            return _show_reports(reports, has_anchor=bool(anchors), as_json=as_json)
        if certificate is not None:
            raise UsageError("stamps are verified offline: name a FILE and a --public-key")
        if trail is not None:
            raise UsageError("a FILE is verified with --public-key; the file of --db is verified with its secret")
        given: JsonObject = {"seq": seq, "hash": record_hash, "against": anchors, "all_tenants": all_tenants}
        # Left out if not given, so that an older server takes the call.
        given |= {"allow_uncovered": allow_uncovered or None}
        given |= {"allow_unrecorded_redactions": allow_unrecorded_redactions or None}
        target = choose_target(target_server, target_profile, target_file)
        return _ask_owner(target, {name: value for name, value in given.items() if value is not None}, as_json=as_json)

    exit_with(work, as_json=as_json)


def _ask_owner(target: Target, given: JsonObject, *, as_json: bool) -> int:
    """Let a server, or a file with its secret, verify its own trails; print what it found and return the exit code."""
    operation = find_operation("audit.verify")
    with open_client(target, operation) as surface:
        answer = surface.call(operation.name, given)
        assert isinstance(answer, dict)
        # Inside: a damaged file may not take the record of this call, and then closing it fails.
        if as_json:
            print_json(answer)
        else:
            echo(_sentence(answer))
    return 0 if answer["intact"] is True else 1


def _sentence(found: JsonObject) -> str:
    """What the owner's verification found, in one line."""
    if found["intact"] is not True:
        where = f" at record {found['broken_at']:,}" if isinstance(found["broken_at"], int) else ""
        tenant = clean(str(found.get("broken_tenant")))
        return f"BROKEN: the trail of {tenant}{where}: {clean(str(found['reason'])).replace('_', ' ')}"
    return _intact(
        records=_number(found["records"]),
        tenants=_number(found["tenants"]),
        checkpoints=_number(found["checkpoints"]),
        removed=_number(found["removed"]),
        redacted=_number(found["redacted"]),
        unrecorded=_number(found.get("unrecorded_redactions")),
        anchor=found["anchor_at"] if isinstance(found["anchor_at"], str) else None,
    )


def _number(value: JsonValue) -> int:
    return value if isinstance(value, int) else 0


def _intact(  # noqa: PLR0913  # one for each part of the line
    *,
    records: int,
    tenants: int,
    checkpoints: int,
    removed: int,
    redacted: int,
    unrecorded: int,
    anchor: str | None,
) -> str:
    parts = [
        f"{records:,} {'record' if records == 1 else 'records'}",
        count_words(tenants, "tenant"),
        "chain intact" if tenants == 1 else "chains intact",
        f"{checkpoints:,} {'checkpoint' if checkpoints == 1 else 'checkpoints'} signed",
    ]
    if removed:
        parts.append(f"{removed:,} removed by retention")
    if redacted:
        parts.append(f"{redacted:,} redacted{f', of which {unrecorded:,} not on record' if unrecorded else ''}")
    if anchor is not None:
        parts.append(f"anchor {anchor} matches")
    return ", ".join(parts)


def _show_reports(reports: Sequence[TrailReport], *, has_anchor: bool, as_json: bool) -> int:
    """Print what a verification with a public key found, and return the exit code."""
    is_signed = any(report.checkpoints for report in reports)
    intact = bool(reports) and all(report.intact for report in reports)
    if as_json:
        shown: Any = msgspec.to_builtins(list(reports))
        print_json({"intact": intact, "signed": is_signed, "trails": shown})
        return 0 if intact else 1
    for report in reports:
        for problem in report.problems:
            verdict = "NOT SIGNED" if problem.kind == "unsigned" else "BROKEN"
            echo(f"{verdict}: the trail of {clean(report.tenant)}: {clean(problem.message)}")
    if not reports:
        echo("NOT SIGNED: there are no records in this file")
    if intact:
        newest = max((report.covered_at for report in reports if report.covered_at is not None), default=None)
        line = _intact(
            records=sum(report.records for report in reports),
            tenants=len(reports),
            checkpoints=sum(report.checkpoints for report in reports),
            removed=sum(report.removed for report in reports),
            redacted=sum(report.redacted for report in reports),
            unrecorded=sum(report.unrecorded_redactions for report in reports),
            anchor=newest if has_anchor else None,
        )
        after = sum(report.last_seq - report.covered for report in reports)
        line = f"{line}{_stamps(reports)}"
        echo(line if not after else f"{line}; {after:,} after the last checkpoint are not covered")
    return 0 if intact else 1


def _stamps(reports: Sequence[TrailReport]) -> str:
    """What was found about stamps, as a part of the line."""
    verified, unverified = (
        sum(getattr(report, name) for report in reports) for name in ("stamps", "unverified_stamps")
    )
    newest = max((report.stamped_at for report in reports if report.stamped_at is not None), default=None)
    if verified:
        return f", {verified:,} stamped, the last {newest}"
    return f", {unverified:,} stamps not verified (--timestamp-certificate)" if unverified else ""


def export_command(  # noqa: PLR0913  # every option is one the user can give
    *,
    out: Annotated[
        Path | None, Option(("--out", "-o"), metavar="FILE", help="Write into this file, not to the screen.")
    ] = None,
    resume: Annotated[bool, Option("--resume", help="Continue after the last record in that file.")] = False,
    export_format: Annotated[
        ExportFormat, Option("--format", help="Plain records, or CloudEvents 1.0; one in a line.")
    ] = ExportFormat.JSONL,
    after_seq: Annotated[int, Option("--after-seq", min=0, help="Only records after this number.")] = 0,
    strangers: Annotated[
        bool, Option("--strangers", help="What was tried without a valid key; for the owner of the server.")
    ] = False,
    limit: Annotated[int, Option("--limit", min=1, max=10_000, help="How many records to read at a time.")] = _PAGE,
    target_server: ServerOption = None,
    target_profile: ProfileOption = None,
    target_file: TargetFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Export audit records.

    Writes the whole trail of your tenant, a line for each record, checkpoint and stretch of removed records: what
    `penstock audit verify --public-key` needs. Only a page of it is in memory. With --json and --out: records and
    last_seq.
    """

    def work() -> int:
        if resume and out is None:
            raise UsageError("--resume continues a file: name it with --out")
        operation = find_operation("audit.export")
        after = _last_seq(out) if resume and out is not None and out.exists() else after_seq
        with (
            open_client(choose_target(target_server, target_profile, target_file), operation) as surface,
            _opened(out, append=resume) as file,
        ):
            _write(file, _statement_lines(surface), export_format)
            count, last, signed = 0, after, set[str]()
            while True:
                arguments: JsonObject = {"after_seq": last, "limit": limit, "strangers": strangers}
                page = msgspec.convert(surface.call(operation.name, arguments), Export)
                # Pages repeat the checkpoint at their border.
                fresh = msgspec.structs.replace(
                    page, checkpoints=[note for note in page.checkpoints if note not in signed]
                )
                signed = {*page.checkpoints}
                _write(file, export_lines(fresh), export_format)
                count += len(page.items)
                last = page.last_seq or last
                if not page.has_more:
                    break
        if out is not None:
            if as_json:
                print_json({"records": count, "last_seq": last, "file": str(out)})
            else:
                echo(f"{clean(str(out))}: {count:,} {'record' if count == 1 else 'records'}, the last is {last:,}")
        return 0

    exit_with(work, as_json=as_json)


@contextmanager
def _opened(out: Path | None, *, append: bool) -> Iterator[IO[bytes]]:
    try:
        with nullcontext(sys.stdout.buffer) if out is None else out.open("ab" if append else "wb") as file:
            yield file
    except OSError as error:
        raise Rejected("FILE_UNWRITABLE", f"{out} cannot be written: {error}", "name another file") from error


def _write(file: IO[bytes], lines: Sequence[JsonObject], export_format: ExportFormat) -> None:
    for line in lines:
        written = to_event(line, source="penstock/audit") if export_format is ExportFormat.CLOUDEVENTS else line
        file.write(encode_bytes(written) + b"\n")
    file.flush()


def _statement_lines(surface: OperationClient) -> list[JsonObject]:
    """The statements about keys, which lead a verifier from a key to the next; none if the key is unavailable."""
    try:
        answer = surface.call("audit.key", {})
    except PenstockError:
        return []
    statements = answer.get("statements") if isinstance(answer, dict) else None
    return [{"tenant": "default", "key_statement": text} for text in statements] if isinstance(statements, list) else []


def _last_seq(path: Path) -> int:
    """The number of the last record in an exported file."""
    last = 0
    try:
        with path.open("rb") as file:
            for line in file:
                found = line_in(msgspec.json.decode(line))
                if "removed" in found:
                    last = msgspec.convert(found["removed"], RemovedPart).last_seq
                elif isinstance(found.get("seq"), int):
                    last = found["seq"]
    except (OSError, ValueError) as error:
        hint = "export the trail again, into another file"
        raise Rejected("AUDIT_EXPORT_INVALID", f"{path} is not a whole export: {error}", hint) from error
    return last


def checkpoint_command(
    *,
    idempotency_key: IdempotencyOption = None,
    target_server: ServerOption = None,
    target_profile: ProfileOption = None,
    target_file: TargetFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Sign the audit trail as it is now.

    Prints the signed checkpoint. Keep it where nobody who can change the server's file can change it, and name it later
    with `penstock audit verify --against`.
    """

    def work() -> int:
        operation = find_operation("audit.checkpoint")
        with open_client(choose_target(target_server, target_profile, target_file), operation) as surface:
            answer = surface.call(operation.name, {}, idempotency_key=idempotency_key)
        assert isinstance(answer, dict)
        if as_json:
            print_json(answer)
        else:
            echo(answer["note"], nl=False)
        return 0

    exit_with(work, as_json=as_json)


def key_command(
    *,
    target_server: ServerOption = None,
    target_profile: ProfileOption = None,
    target_file: TargetFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the public key that verifies checkpoints.

    Keep the output in a file for `penstock audit verify --public-key`, and give it to the people who verify the trail,
    in a way that they trust. If the key was changed, it has the statements that lead from the old key to the new one.
    """

    def work() -> int:
        operation = find_operation("audit.key")
        with open_client(choose_target(target_server, target_profile, target_file), operation) as surface:
            answer = surface.call(operation.name, {})
        assert isinstance(answer, dict)
        if as_json:
            print_json(answer)
        else:
            statements = answer["statements"]
            echo(answer["public_key"])
            for text in statements if isinstance(statements, list) else []:
                echo(f"\n{text}", nl=False)
        return 0

    exit_with(work, as_json=as_json)
