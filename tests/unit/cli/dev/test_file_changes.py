"""Changes are found by looking, told once, and only when they have settled."""

import os
from pathlib import Path

from penstock.cli.dev.file_changes import FileChanges


def test_a_change_is_told_once_and_when_it_has_settled(tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text("a")
    changes = FileChanges(lambda: [file])
    assert changes.look() == []
    file.write_text("ab")
    assert changes.look() == []
    file.write_text("abc")
    assert changes.look() == []
    assert changes.look() == [file]
    assert changes.look() == []


def test_files_that_come_and_go_are_changes(tmp_path: Path) -> None:
    changes = FileChanges(lambda: sorted(tmp_path.iterdir()))
    file = tmp_path / "new.yaml"
    file.write_text("a")
    assert (changes.look(), changes.look()) == ([], [file])
    file.unlink()
    assert (changes.look(), changes.look()) == ([], [file])
    assert changes.look() == []


def test_a_file_that_comes_and_goes_between_two_looks_is_no_change(tmp_path: Path) -> None:
    changes = FileChanges(lambda: sorted(tmp_path.iterdir()))
    file = tmp_path / "new.yaml"
    file.write_text("a")
    assert changes.look() == []
    file.unlink()
    assert (changes.look(), changes.look()) == ([], [])


def test_a_file_of_the_same_size_and_time_that_took_its_place_is_a_change(tmp_path: Path) -> None:
    file, other = tmp_path / "one.yaml", tmp_path / "other.yaml"
    file.write_text("a")
    changes = FileChanges(lambda: [file])
    other.write_text("b")
    os.utime(other, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))
    other.rename(file)
    assert (changes.look(), changes.look()) == ([], [file])
