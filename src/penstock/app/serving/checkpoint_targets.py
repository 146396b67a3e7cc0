"""Where checkpoints of audit trails are written beside the database: files, webhooks, folders in Git repositories.

A checkpoint helps only where it is safe from people who can change the database: in a file on another machine, at
another organization's service, in a repository that is pushed elsewhere.

Above it: `checkpoints`. Below it: the file system, `git`, the sender of webhooks.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias
from urllib.parse import quote

from penstock import __version__
from penstock.base import limits
from penstock.base.lazy_import import lazy_import
from penstock.runtime.webhooks.dispatcher import NotSent, OutgoingEvent, Sender

if TYPE_CHECKING:
    from penstock.runtime.executors.http import webhook_sender
else:
    webhook_sender = lazy_import("penstock.runtime.executors.http.webhook_sender")

__all__ = [
    "CheckpointTarget",
    "FileTarget",
    "GitFolderTarget",
    "NotWritten",
    "WebhookTarget",
    "Written",
]

_ACCEPTED = range(200, 300)
_SIGNED_BY = ("-c", "user.name=Penstock", "-c", "user.email=audit@penstock.invalid")


@dataclass(frozen=True, slots=True)
class Written:
    """The checkpoint was written."""


@dataclass(frozen=True, slots=True)
class NotWritten:
    """The checkpoint was not written, and why."""

    reason: str


WriteOutcome: TypeAlias = Written | NotWritten


class CheckpointTarget(Protocol):
    """A place for checkpoints."""

    @property
    def name(self) -> str:
        """What it is called in messages; the progress is noted under it."""

    async def write(self, tenant: str, size: int, note: str) -> WriteOutcome:
        """Write one checkpoint."""

    async def close(self) -> None:
        """Release what it holds."""


@dataclass(frozen=True, slots=True)
class FileTarget:
    """A file that gets every checkpoint, with an empty line between two."""

    path: Path

    @property
    def name(self) -> str:
        """The path."""
        return str(self.path)

    async def write(self, tenant: str, size: int, note: str) -> WriteOutcome:
        """Append a checkpoint, durably."""
        try:
            await asyncio.to_thread(self._append, note)
        except OSError as error:
            return NotWritten(str(error))
        return Written()

    def _append(self, note: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{note}\n")
            file.flush()
            os.fsync(file.fileno())

    async def close(self) -> None:
        """Nothing is kept open."""


@dataclass(frozen=True, slots=True)
class GitFolderTarget:
    """A folder with a file for each checkpoint. If it is in a Git repository, each is committed; nothing is pushed."""

    folder: Path

    @property
    def name(self) -> str:
        """The path."""
        return str(self.folder)

    async def write(self, tenant: str, size: int, note: str) -> WriteOutcome:
        """Write the file of a checkpoint and commit it."""
        file = self.folder / quote(tenant, safe="") / f"{size:012}.txt"
        try:
            await asyncio.to_thread(_write_file, file, note)
            if await asyncio.to_thread(_is_in_repository, self.folder):
                return await self._commit(file, f"Audit checkpoint of {tenant}: {size} records")
        except OSError as error:
            return NotWritten(str(error))
        return Written()

    async def _commit(self, file: Path, message: str) -> WriteOutcome:
        relative = str(file.relative_to(self.folder))
        for arguments in (
            ("add", "--", relative),
            (*_SIGNED_BY, "commit", "--quiet", "--no-verify", "--message", message, "--", relative),
        ):
            failure = await self._git(*arguments)
            # The file of a checkpoint that was committed before a crash is unchanged.
            if failure is not None and "nothing to commit" not in failure:
                return NotWritten(failure)
        return Written()

    async def _git(self, *arguments: str) -> str | None:
        """Run Git in the folder; return what it says if it fails."""
        process = await asyncio.create_subprocess_exec(
            "git",
            "-C",
            str(self.folder),
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            said, _ = await asyncio.wait_for(process.communicate(), limits.AUDIT_CHECKPOINT_SEND_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
            return f"git took longer than {limits.AUDIT_CHECKPOINT_SEND_SECONDS:g} s"
        text = said.decode(errors="replace").strip()
        return None if process.returncode == 0 else text[:500] or "git failed"

    async def close(self) -> None:
        """Nothing is kept open."""


def _write_file(file: Path, content: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content, encoding="utf-8")


def _is_in_repository(folder: Path) -> bool:
    return any((parent / ".git").exists() for parent in (folder.absolute(), *folder.absolute().parents))


class WebhookTarget:
    """An address that gets each checkpoint as text, if the guard for outgoing webhooks allows it."""

    def __init__(self, url: str, *, allow_private: bool) -> None:
        self.name = url
        self._allow_private = allow_private
        self._sender: Sender | None = None

    async def write(self, tenant: str, size: int, note: str) -> WriteOutcome:
        """Post a checkpoint; any status but success means that it has to be sent again."""
        if self._sender is None:
            self._sender = await asyncio.to_thread(self._make)
        event = OutgoingEvent(
            url=self.name,
            headers={"content-type": "text/plain; charset=utf-8", "user-agent": f"penstock/{__version__}"},
            body=note.encode(),
            timeout_seconds=limits.AUDIT_CHECKPOINT_SEND_SECONDS,
        )
        sent = await self._sender.send(event)
        if isinstance(sent, NotSent):
            return NotWritten(sent.reason)
        return Written() if sent.status in _ACCEPTED else NotWritten(f"it answered {sent.status}")

    def _make(self) -> Sender:
        return webhook_sender.WebhookSender(allow_private=self._allow_private)

    async def close(self) -> None:
        """Close the connections."""
        if self._sender is not None:
            await self._sender.close()
