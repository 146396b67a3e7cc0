"""Sources of secrets: where they look, what they refuse, and that they never show a value."""

from pathlib import Path

import pytest

from penstock.base import limits
from penstock.base.errors import Unavailable
from penstock.runtime.secrets import ChainSecrets, EnvironmentSecrets, FileSecrets


def test_a_secret_is_a_variable_with_a_prefix() -> None:
    secrets = EnvironmentSecrets(environment={"PENSTOCK_SECRET_KEY": "k", "KEY": "other", "EMPTY": ""})
    assert secrets("KEY") == "k"
    assert secrets("OTHER") is None
    assert EnvironmentSecrets("", environment={"EMPTY": ""})("EMPTY") == ""


def test_the_environment_is_read_anew_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = EnvironmentSecrets()
    assert secrets("ROTATED") is None
    monkeypatch.setenv("PENSTOCK_SECRET_ROTATED", "new")
    assert secrets("ROTATED") == "new"


def test_a_secret_is_a_file_without_its_last_line_end(tmp_path: Path) -> None:
    for name, content in [("PLAIN", "p"), ("LINE", "l\n"), ("WINDOWS", "w\r\n"), ("LINES", "a\nb\n\n")]:
        (tmp_path / name).write_bytes(content.encode())
    secrets = FileSecrets(tmp_path)
    found = [secrets(name) for name in ("PLAIN", "LINE", "WINDOWS", "LINES", "MISSING")]
    assert found == ["p", "l", "w", "a\nb\n", None]


@pytest.mark.parametrize("name", ["../outside", "a/b", "..", "", "a.b", "a\0b", "1A"])
def test_a_name_that_is_not_a_word_leads_nowhere(name: str, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("no")
    folder = tmp_path / "secrets"
    folder.mkdir()
    assert FileSecrets(folder)(name) is None
    assert EnvironmentSecrets("", {name: "no"})(name) is None


def test_a_mounted_secret_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("value")
    (tmp_path / "KEY").symlink_to(tmp_path / "real")
    assert FileSecrets(tmp_path)("KEY") == "value"


def test_a_file_that_cannot_be_a_secret_is_told_without_its_content(tmp_path: Path) -> None:
    (tmp_path / "FOLDER").mkdir()
    (tmp_path / "BINARY").write_bytes(b"\xff\xfe")
    (tmp_path / "LARGE").write_bytes(b"x" * (limits.SECRET_BYTES_MAX + 1))
    for name in ("FOLDER", "BINARY", "LARGE"):
        with pytest.raises(Unavailable, match=f"the secret {name} cannot be read"):
            FileSecrets(tmp_path)(name)


def test_the_first_source_that_has_a_value_gives_it() -> None:
    first, second = EnvironmentSecrets("", {"A": "1"}), EnvironmentSecrets("", {"A": "2", "B": "3"})
    secrets = ChainSecrets(first, second)
    assert [secrets(name) for name in ("A", "B", "C")] == ["1", "3", None]
    assert ChainSecrets()("A") is None


def test_printing_a_source_shows_no_value(tmp_path: Path) -> None:
    environment = EnvironmentSecrets("P_", {"P_KEY": "hidden"})
    shown = [
        repr(item) for item in (environment, FileSecrets(tmp_path), ChainSecrets(environment, {"k": "hidden"}.get))
    ]
    assert all("hidden" not in text for text in shown)
    assert shown[0] == "EnvironmentSecrets(prefix='P_')"
    assert shown[2] == "ChainSecrets(EnvironmentSecrets, builtin_function_or_method)"
