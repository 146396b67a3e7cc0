"""Files that other users can change: secrets and keys are refused, and everything else of the operator is warned of."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from penstock.app.executors.secret_sources import resolve_secret
from penstock.app.server_secret.audit_keys import AuditKeyFile
from penstock.app.server_secret.secret import read_secret
from penstock.app.server_secret.sources import KeyFile
from penstock.app.serving.server import ServerOptions
from penstock.app.settings.secrets import FileReference
from penstock.app.signatures import make_key, read_private_key, read_trusted_keys
from penstock.base.errors import PenstockError
from penstock.cli.main import app
from penstock.runtime.secrets import FileSecrets
from tests.scenarios.test_damaged_files import Files
from tests.unit.rest.conftest import opened
from tests.waiting import until

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
    "pepper": lambda file: read_secret(KeyFile(file)),
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
        read_secret(KeyFile(file))
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


OPERATOR_FILES: Final = ("policies", "graph policies", "queries", "schema", "workflow", "settings", "steps")


@dataclass(frozen=True)
class Operated:
    """A server with every kind of file that is warned of."""

    files: Files

    @property
    def paths(self) -> dict[str, Path]:
        folder = self.files.folder
        return {**self.files.by_kind, "settings": folder / "settings/penstock.yaml", "steps": folder / "steps/steps.py"}

    def write(self) -> Operated:
        self.files.write()
        for kind in ("settings", "steps"):
            file = self.paths[kind]
            file.parent.mkdir(exist_ok=True)
            file.write_text("")
        return self

    @property
    def options(self) -> ServerOptions:
        trusted = (self.paths["settings"], self.paths["steps"])
        return ServerOptions(
            policy_files=(str(self.paths["policies"]),),
            graphs={"crm": self.files.graph},
            workflow_files=self.files.workflows("workflow").read(),
            trusted_files=trusted,
        )


def open_folder(file: Path) -> None:
    file.parent.chmod(0o777)


@pytest.mark.parametrize(
    "danger", [anybody_writes, foreign_owner, foreign_link, open_folder], ids=lambda it: it.__name__
)
def test_a_server_warns_of_files_that_others_can_change_and_serves(
    danger: Callable[[Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Operated(Files(tmp_path)).write()
    for kind in OPERATOR_FILES:
        danger(server.paths[kind])

    async def body() -> None:
        async with opened(tmp_path, server.options) as client:
            assert (await client("GET", "/readyz", key="")).status == 200
            told = (await client("GET", "health")).json()["checks"]["file_access"]
            assert told != "ok"

    with caplog.at_level(logging.WARNING, "penstock.files"):
        asyncio.run(body())
    for kind in OPERATOR_FILES:
        lines = [line for line in caplog.messages if str(server.paths[kind]) in line and "open to others" in line]
        assert len(lines) == 1, (kind, caplog.messages)


def test_a_server_warns_as_soon_as_files_are_opened_to_others_and_no_longer_when_they_are_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Operated(Files(tmp_path)).write()

    async def body() -> None:
        async with opened(tmp_path, server.options) as client:

            async def access() -> str:
                return str((await client("GET", "health")).json()["checks"]["file_access"])

            assert await access() == "ok"
            for kind in ("policies", "settings"):
                file = server.paths[kind]
                file.chmod(0o666)

                async def is_told(name: str = str(file)) -> bool:
                    return name in await access()

                async def is_well() -> bool:
                    return await access() == "ok"

                await until(is_told)
                assert f"{file} can be changed by every user (mode 666)" in caplog.text
                file.chmod(0o644)
                await until(is_well)

    with caplog.at_level(logging.WARNING, "penstock.files"):
        asyncio.run(body())


def test_the_doctor_names_files_that_others_can_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Operated(Files(tmp_path)).write()
    paths = server.paths
    text = {
        "policy": {"files": [str(paths["policies"])]},
        "workflows": {"paths": [str(paths["workflow"])]},
        "graph": {
            "schema": str(paths["schema"]),
            "queries": [str(paths["queries"].parent)],
            "policy": [str(paths["graph policies"])],
        },
        "steps": {"modules": [str(paths["steps"])]},
    }
    paths["settings"].write_text(json.dumps(text))
    for kind in OPERATOR_FILES:
        paths[kind].chmod(0o666)
    monkeypatch.chdir(tmp_path)
    told = CliRunner().invoke(app, ["server", "doctor", "--config", str(paths["settings"]), "--json"])
    warned = [
        item for item in json.loads(told.output)["checks"] if item["name"] == "access" and item["status"] == "warn"
    ]
    for kind in OPERATOR_FILES:
        (found,) = [item for item in warned if str(paths[kind]) in item["message"]]
        assert found["what_to_do"] == f"run: chmod go-w {paths[kind]}"
