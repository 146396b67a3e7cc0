"""Named files are found and read, or it is said why not; nothing is left out silently."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.app.files.named import UnreadableFile, find_files, read_file, read_text

NOBODY = 65_534


@contextmanager
def unprivileged() -> Iterator[None]:
    """Be a user whom file modes bind; root ignores them."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if user == 0:
            os.seteuid(user)


def test_files_folders_and_patterns_give_files_in_order(tmp_path: Path) -> None:
    for name in ("b.cedar", "a.cedar", "inner/c.cedar", "inner/other.txt", ".hidden.cedar", ".git/d.cedar"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")

    def found(*named: str) -> list[str]:
        files = find_files([str(tmp_path / name) for name in named], ".cedar")
        assert not files.problems
        return [str(path.relative_to(tmp_path)) for path in files.paths]

    assert found(".") == ["a.cedar", "b.cedar", "inner/c.cedar"]
    assert found("*.cedar") == ["a.cedar", "b.cedar"]
    assert found("**/*.cedar") == ["a.cedar", "b.cedar", "inner/c.cedar"]
    assert found("in*") == ["inner/c.cedar"]
    assert found("b.cedar", "a.cedar", "*.cedar", ".hidden.cedar") == ["b.cedar", "a.cedar", ".hidden.cedar"]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    file = tmp_path / "rules[1].cedar"
    file.write_text("")
    assert find_files([str(file)], ".cedar").paths == (file,)


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ("empty", "has no .cedar file"),
        ("*.cedar", "matches no file"),
        ("gone/*.cedar", "cannot be listed: No such file or directory"),
        ("a\0b/*.cedar", "cannot be listed: embedded null byte"),
    ],
)
def test_a_name_that_stands_for_no_file_is_told(named: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (problem,) = find_files([str(tmp_path / named)], ".cedar").problems
    assert problem == UnreadableFile(str(tmp_path / named), reason)


@pytest.mark.parametrize("named", [".", "**/*.cedar"])
def test_a_folder_that_cannot_be_listed_is_told_also_below_a_named_one(
    named: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("named")
    (folder / "inner").mkdir()
    (folder / "inner/b.cedar").write_text("")
    (folder / "a.cedar").write_text("")
    folder.chmod(0o755)
    monkeypatch.chdir(folder)  # the folders above belong to one user
    (folder / "inner").chmod(0)
    with unprivileged():
        found = find_files([named], ".cedar")
    (folder / "inner").chmod(0o755)
    assert [item.reason for item in found.problems] == ["cannot be listed: Permission denied"]


def test_a_file_that_its_mode_closes_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.cedar"
    file.write_text("")
    file.chmod(0)
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    with unprivileged():
        assert read_file(Path(file.name)) == UnreadableFile("a.cedar", "cannot be read: Permission denied")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"a\xff", "is not UTF-8 text (byte 1)"),
        (b"ab\0", "has a NUL byte (character 2)"),
        (b"12345678", "is larger than 7 bytes"),
    ],
)
def test_what_is_no_text_is_told(data: bytes, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "a.cedar"
    file.write_bytes(data)
    assert read_text(file, bytes_max=7) == UnreadableFile(str(file), reason)


def test_a_byte_order_mark_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.cedar").write_bytes(b"\xef\xbb\xbfpermit")
    assert read_text(tmp_path / "a.cedar") == "permit"
