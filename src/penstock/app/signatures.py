"""Keys that sign workflows, as files: the private one in PEM, readable by its owner only, and the public one beside it.

    release.key        PEM, PKCS 8
    release.key.pub    penstock-ed25519 KEY_ID PUBLIC_KEY

The public file is what operators list under `workflows.signatures.trusted_keys`.

Above it: the commands `sign` and `verify-signature`, and those that open a store. Below it: `definitions.signature`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from penstock.app.settings.governance import SignatureSettings
from penstock.base.errors import Rejected, Unavailable
from penstock.base.lazy_import import lazy_import
from penstock.runtime.file_trust import find_file_risk
from penstock.runtime.signatures import SignatureTrust

if TYPE_CHECKING:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519

    from penstock.definitions import signature
else:
    serialization = lazy_import("cryptography.hazmat.primitives.serialization")
    ed25519 = lazy_import("cryptography.hazmat.primitives.asymmetric.ed25519")
    signature = lazy_import("penstock.definitions.signature")

__all__ = ["SigningKey", "make_key", "public_path", "read_private_key", "read_trusted_keys", "signature_trust"]

_KIND = "penstock-ed25519"
_WORDS = 3
_FINGERPRINT_CHARACTERS = 12
_KEY_BYTES_MAX = 65_536


class SigningKey(NamedTuple):
    """A key that signs, and the id under which others know it."""

    key_id: str
    private_key: ed25519.Ed25519PrivateKey


def public_path(path: Path) -> Path:
    """Where the public half of a key is."""
    return path.with_name(f"{path.name}.pub")


def signature_trust(settings: SignatureSettings) -> SignatureTrust:
    """Whom the settings trust. Raises if a key cannot be read: nobody is trusted by mistake, or forgotten."""
    if settings.mode == "off":
        return SignatureTrust()
    return SignatureTrust(mode=settings.mode, trusted_keys=read_trusted_keys(settings.trusted_keys))


def make_key(path: Path) -> SigningKey:
    """Make a key, and write both files. Raises `Rejected` if one of them exists."""
    key = ed25519.Ed25519PrivateKey.generate()
    public = signature.public_key_spki(key)
    made = SigningKey(_key_id(path, public), key)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    for target, content, mode in (
        (path, pem, stat.S_IRUSR | stat.S_IWUSR),
        (public_path(path), f"{_KIND} {made.key_id} {public}\n".encode(), 0o644),
    ):
        try:
            handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:
            raise Rejected(
                "KEY_FILE_EXISTS", f"{target} exists", "choose another name; no key is overwritten"
            ) from None
        except OSError as error:
            raise _unreadable(target, error) from None
        with os.fdopen(handle, "wb") as file:
            file.write(content)
    return made


def read_private_key(path: Path) -> SigningKey:
    """Read a key that signs. Its public file says how it is called."""
    content = _read(path)
    if os.name == "posix" and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise Rejected("KEY_FILE_EXPOSED", f"{path} can be read by others", f"run: chmod 600 {path}")
    try:
        key = serialization.load_pem_private_key(content, None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        message = f"{path} does not hold an Ed25519 key without a passphrase"
        raise Rejected("KEY_FILE_INVALID", message, "make one with: penstock workflow sign --new-key FILE")
    public = signature.public_key_spki(key)
    found = read_trusted_keys([str(public_path(path))]) if public_path(path).exists() else {}
    key_id = next((name for name, text in found.items() if text == public), None)
    return SigningKey(key_id or _key_id(path, public), key)


def read_trusted_keys(paths: Iterable[str]) -> dict[str, str]:
    """Read public keys, by id. A file may hold several, one on each line; lines that begin with # are comments."""
    found: dict[str, str] = {}
    for path in paths:
        lines = _read(Path(path)).decode("utf-8", "replace").splitlines()
        keys = [line.split() for line in lines if line.strip() and not line.startswith("#")]
        for words in keys:
            if len(words) < _WORDS or words[0] != _KIND or not signature.is_public_key(words[2]):
                message = f"{path} does not hold public keys of workflows"
                raise Rejected("KEY_FILE_INVALID", message, f"each line is: {_KIND} KEY_ID PUBLIC_KEY")
            if found.get(words[1], words[2]) != words[2]:
                message = f"two different keys are called {words[1]}"
                raise Rejected("KEY_FILE_INVALID", message, "leave one of them out, or make one with another name")
            found[words[1]] = words[2]
        if not keys:
            raise Rejected("KEY_FILE_INVALID", f"there is no key in {path}", "name a file that has one")
    return found


def _key_id(path: Path, public: str) -> str:
    # The name is for people; the other part keeps two keys of one name apart.
    return f"{path.stem}-{signature.fingerprint(public)[:_FINGERPRINT_CHARACTERS]}"


def _read(path: Path) -> bytes:
    if (risk := find_file_risk(path, secret=True)) is not None:
        raise Rejected("KEY_FILE_EXPOSED", risk.problem, risk.advice)
    try:
        with path.open("rb") as file:
            return file.read(_KEY_BYTES_MAX)
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> Unavailable:
    return Unavailable("KEY_FILE_UNREADABLE", f"{path}: {error.strerror or 'cannot be used'}", "check the path")
