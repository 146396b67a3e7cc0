"""Files that other users can change: secrets and keys are refused, and everything else of the operator is warned of."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from penstock.app.audit_keys import AuditKeyFile
from penstock.app.executors.secret_sources import resolve_secret
from penstock.app.pepper import read_pepper
from penstock.app.settings.secrets import FileReference
from penstock.app.signatures import make_key, read_private_key, read_trusted_keys
from penstock.base.errors import PenstockError
from penstock.runtime.secrets import FileSecrets

SOMEBODY: Final = 12345
AS_ROOT: Final = hasattr(os, "geteuid") and os.geteuid() == 0


def anybody_writes(file: Path) -> None:
    file.chmod(0o666)


def foreign_owner(file: Path) -> None:
    if not AS_ROOT:
        pytest.skip("only root can give files away")
    os.chown(file, SOMEBODY, 0)


def foreign_link(file: Path) -> None:
    if not AS_ROOT:
        pytest.skip("only root can give files away")
    kept = file.with_name("kept")
    file.rename(kept)
    file.symlink_to(kept)
    os.chown(file, SOMEBODY, 0, follow_symlinks=False)


def group_writes(file: Path) -> None:
    file.chmod(0o620)


DANGERS: Final = (anybody_writes, group_writes, foreign_owner, foreign_link)


def read_audit_key(file: Path) -> object:
    return asyncio.run(AuditKeyFile(file, "name").signing_key())


SECRETS: Final[dict[str, Callable[[Path], object]]] = {
    "pepper": read_pepper,
    "audit key": read_audit_key,
    "private key": read_private_key,
    "trusted keys": lambda file: read_trusted_keys([str(file)]),
    "secret of the settings": lambda file: resolve_secret(FileReference(str(file))),
    "folder of secrets": lambda file: FileSecrets(file.parent)(file.name),
}


def written(kind: str, folder: Path) -> Path:
    """A file of a kind, as it should be."""
    folder.mkdir()
    file = folder / "SECRET"
    if kind == "pepper":
        read_pepper(file)
    elif kind == "audit key":
        read_audit_key(file)
    elif kind in ("private key", "trusted keys"):
        made = folder / "release.key"
        make_key(made)
        return made if kind == "private key" else made.with_name("release.key.pub")
    else:
        file.write_text("value")
        file.chmod(0o600)
    return file


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("danger", DANGERS, ids=lambda danger: danger.__name__)
def test_a_secret_or_key_that_others_can_change_is_refused(
    kind: str, danger: Callable[[Path], None], tmp_path: Path
) -> None:
    file = written(kind, tmp_path / "own")
    assert SECRETS[kind](file)
    danger(file)
    with pytest.raises(PenstockError) as caught:
        SECRETS[kind](file)
    told = f"{caught.value.message}; {caught.value.hint}"
    assert "ch" in (caught.value.hint or ""), told  # chmod or chown
    assert file.parent.name in told, told


@pytest.mark.parametrize("kind", ["secret of the settings", "folder of secrets", "trusted keys"])
def test_secrets_of_a_mounted_volume_are_read(kind: str, tmp_path: Path) -> None:
    """Kubernetes mounts them as links to files of root that everybody can read, in folders with a sticky bit."""
    file = written(kind, tmp_path / "own")
    data = file.parent / "..data"
    data.mkdir()
    file.rename(data / file.name)
    (data / file.name).chmod(0o644)
    file.symlink_to(Path("..data") / file.name)
    file.parent.chmod(0o1777)
    assert SECRETS[kind](file)
