"""`penstock workflow sign` and `penstock workflow verify-signature`: sign workflow files, and check who signed them.

A signature is written into the file, beside everything else in it; comments and layout stay. What is written is read
again and verified first, so that no file is left with a signature that does not hold.

Above it: `main`. Below it: `app.signatures`, `signature_text`, `definitions.signature`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from penstock.app.signatures import (
    SigningKey,
    make_key,
    public_path,
    read_private_key,
    read_trusted_keys,
)
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject
from penstock.cli.declaration import Argument, Option, echo
from penstock.cli.documents.signature_text import with_signature
from penstock.cli.targets.settings import ConfigOption, command_settings
from penstock.cli.terminal.exits import JsonOption, exit_with, print_json
from penstock.cli.terminal.files import SourceText, read_path
from penstock.cli.terminal.values import UsageError
from penstock.definitions.canonical import definition_hash, signature_of
from penstock.definitions.signature import public_key_spki, sign_definition
from penstock.definitions.source.findings import Severity
from penstock.definitions.validate import check_source
from penstock.runtime.signatures import SignatureTrust, SignatureVerdict

__all__ = ["sign_command", "verify_signature_command"]

FilesArgument = Annotated[list[Path] | None, Argument(metavar="FILE", help="Workflow files, YAML or JSON.")]


def sign_command(
    files: FilesArgument = None,
    *,
    key: Annotated[Path | None, Option("--key", metavar="KEYFILE", help="The private key to sign with.")] = None,
    new_key: Annotated[
        Path | None,
        Option("--new-key", metavar="KEYFILE", help="Make a key, here and in KEYFILE.pub, and sign with it."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Sign workflow files, in place.

    The signature covers everything in the document but itself; spelling, comments and the order of members may change
    later. Documents with mistakes are not signed. Exit codes: 0 when all files are signed, otherwise the refusal.
    """

    def work() -> int:
        if (key is None) == (new_key is None):
            raise UsageError("name a key with --key, or make one with --new-key")
        if key is not None and not files:
            raise UsageError("name the files to sign")
        signer = make_key(new_key) if new_key is not None else read_private_key(key or Path())
        signed = [_sign(path, signer) for path in files or ()]
        if as_json:
            told: JsonObject = {"key_id": signer.key_id, "signed": list(signed)}
            print_json({**told, "public_key_file": str(public_path(new_key))} if new_key is not None else told)
            return 0
        if new_key is not None:
            echo(f"{new_key}: made the key {signer.key_id}; trust it with {public_path(new_key)}")
        for item in signed:
            echo(f"{item['file']}: signed by {signer.key_id} ({str(item['hash'])[:12]})")
        return 0

    exit_with(work, as_json=as_json)


def verify_signature_command(
    files: FilesArgument = None,
    *,
    trusted: Annotated[
        list[str] | None,
        Option("--trusted", metavar="FILE", help="A public key to trust instead of those in the settings."),
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check that workflow files are signed with trusted keys.

    Trusted are the keys in workflows.signatures.trusted_keys, or those given. Exit codes: 0 when every file is signed
    by one of them, 1 when one is not.
    """

    def work() -> int:
        if not files:
            raise UsageError("name the files to check")
        named = trusted or command_settings(config, {}, as_json=as_json).settings.workflows.signatures.trusted_keys
        trust = SignatureTrust(mode="require", trusted_keys=read_trusted_keys(named))
        found = {str(path): _verdict(path, trust) for path in files}
        ok = all(verdict.is_good for verdict in found.values())
        if as_json:
            print_json({"ok": ok, "files": [_told(path, verdict) for path, verdict in found.items()]})
            return 0 if ok else 1
        for path, verdict in found.items():
            if verdict.is_good:
                echo(f"{path}: signed by {verdict.key_id}")
            else:
                echo(f"{path}: {verdict.code}: {verdict.message}\n  hint: {verdict.hint}", err=True)
        return 0 if ok else 1

    exit_with(work, as_json=as_json)


def _told(path: str, verdict: SignatureVerdict) -> JsonObject:
    if verdict.is_good:
        return {"file": path, "verified": True, "key_id": verdict.key_id}
    return {"file": path, "verified": False, "code": verdict.code, "message": verdict.message}


def _sign(path: Path, signer: SigningKey) -> JsonObject:
    text, document = _document(path, sound=True)
    block = signature_of(sign_definition(document, key_id=signer.key_id, private_key=signer.private_key))
    if not isinstance(block, dict):
        raise TypeError("a signed document has a signature")
    written = with_signature(text, document, {name: str(value) for name, value in block.items()})
    trust = SignatureTrust(mode="require", trusted_keys={signer.key_id: public_key_spki(signer.private_key)})
    again = None if written is None else check_source(written, file=str(path)).document
    if written is None or not isinstance(again, dict) or not trust.verdict(again, definition_hash(again)).is_good:
        message = f"{path}: there is no place for a signature in the way that the file is written"
        raise UsageError(f"{message}: write the document in block style, or as JSON")
    _replace(path, written)
    return {"file": str(path), "hash": definition_hash(again), "key_id": signer.key_id}


def _verdict(path: Path, trust: SignatureTrust) -> SignatureVerdict:
    _, document = _document(path, sound=False)
    return trust.verdict(document, definition_hash(document))


def _document(path: Path, *, sound: bool) -> tuple[str, JsonObject]:
    """The text of a file and the document in it; with `sound`, only one without mistakes."""
    source = read_path(str(path))
    if not isinstance(source, SourceText):
        raise UsageError(f"{path}: {source.message}")
    checked = check_source(source.text, file=str(path))
    has_errors = any(finding.severity is Severity.ERROR for finding in checked.findings)
    if not isinstance(checked.document, dict) or (sound and has_errors):
        worst = next((finding.message for finding in checked.findings), "it cannot be read")
        message = f"{path} is not a workflow without mistakes: {worst}"
        raise Rejected("INVALID_DOCUMENT", message, f"see all of them: penstock validate {path}")
    return source.text, checked.document


def _replace(path: Path, text: str) -> None:
    """Write the whole file under another name first: a crash must not leave half of it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8", newline="")
    draft.chmod(path.stat().st_mode & 0o777)
    draft.replace(path)
