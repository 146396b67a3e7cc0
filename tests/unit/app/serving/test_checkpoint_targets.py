"""Where checkpoints are written: files, folders in Git repositories, webhooks."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from penstock.app.serving.checkpoint_targets import FileTarget, GitFolderTarget, NotWritten, WebhookTarget, Written
from penstock.governance.audit.checkpoints import Checkpoint, SigningKey, parse_notes, sign_checkpoint

KEY = SigningKey("penstock-1", b"1" * 32)
NOTES = [sign_checkpoint(KEY, Checkpoint(origin="penstock-1/shop", size=size, root=b"r" * 32)) for size in (3, 5)]


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True)
    return done.stdout


def test_a_file_gets_one_checkpoint_after_another_and_they_are_read_again(tmp_path: Path) -> None:
    target = FileTarget(tmp_path / "anchor.txt")
    for note in NOTES:
        assert asyncio.run(target.write("shop", 3, note)) == Written()
    found = parse_notes(target.path.read_text(encoding="utf-8"))
    assert [str(note) for note in found] == NOTES
    assert isinstance(asyncio.run(FileTarget(tmp_path / "no" / "anchor").write("shop", 3, NOTES[0])), NotWritten)


def test_a_folder_in_a_repository_gets_a_commit_for_each_checkpoint(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    target = GitFolderTarget(tmp_path / "anchors")
    target.folder.mkdir()

    async def write_all() -> None:
        for size, note in zip((3, 5), NOTES, strict=True):
            assert await target.write("a/shop", size, note) == Written()
        assert await target.write("a/shop", 5, NOTES[1]) == Written(), "written again after a crash"

    asyncio.run(write_all())
    assert git(tmp_path, "log", "--format=%s").splitlines() == [
        "Audit checkpoint of a/shop: 5 records",
        "Audit checkpoint of a/shop: 3 records",
    ]
    assert (target.folder / "a%2Fshop" / "000000000003.txt").read_text(encoding="utf-8") == NOTES[0]
    assert git(tmp_path, "status", "--short") == ""


def test_a_folder_that_is_in_no_repository_gets_the_files_only(tmp_path: Path) -> None:
    target = GitFolderTarget(tmp_path / "anchors")
    assert asyncio.run(target.write("shop", 3, NOTES[0])) == Written()
    assert [path.name for path in (target.folder / "shop").iterdir()] == ["000000000003.txt"]


def test_a_commit_that_fails_is_told(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    (tmp_path / ".git" / "index.lock").touch()
    outcome = asyncio.run(GitFolderTarget(tmp_path).write("shop", 3, NOTES[0]))
    assert isinstance(outcome, NotWritten)
    assert "index.lock" in outcome.reason


def test_a_webhook_gets_the_note_and_has_to_accept_it() -> None:
    received: list[bytes] = []
    statuses = [200, 500]

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(statuses[len(received) - 1])
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/anchors"

        async def send() -> None:
            target = WebhookTarget(url, allow_private=True)
            assert await target.write("shop", 3, NOTES[0]) == Written()
            assert await target.write("shop", 5, NOTES[1]) == NotWritten("it answered 500")
            await target.close()
            guarded = WebhookTarget(url, allow_private=False)
            assert isinstance(await guarded.write("shop", 3, NOTES[0]), NotWritten)
            await guarded.close()

        try:
            asyncio.run(send())
        finally:
            server.shutdown()
            thread.join()
    assert received == [note.encode() for note in NOTES]
