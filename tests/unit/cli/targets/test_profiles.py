"""Profiles are read strictly and written for their owner only; a key never stands in them."""

import stat
from pathlib import Path

import pytest

from penstock.app.settings.secrets import CommandReference, EnvironmentReference, FileReference
from penstock.base.errors import NotFound, Rejected
from penstock.cli.targets.profiles import Profile, Profiles, profiles_path, read_profiles, write_profiles


def written(folder: Path, text: str) -> Path:
    path = folder / "profiles.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_file_is_in_the_users_folder_for_settings(tmp_path: Path) -> None:
    assert profiles_path({"XDG_CONFIG_HOME": str(tmp_path)}) == tmp_path / "penstock" / "profiles.yaml"
    assert profiles_path({}) == Path.home() / ".config" / "penstock" / "profiles.yaml"
    assert profiles_path({"XDG_CONFIG_HOME": "relative"}) == profiles_path({})


def test_no_file_means_no_profiles(tmp_path: Path) -> None:
    assert read_profiles(tmp_path / "profiles.yaml") == Profiles()
    assert read_profiles(written(tmp_path, "")) == Profiles()


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "profiles.yaml"
    profiles = (
        Profiles()
        .with_profile("a", Profile(server="https://a.example", key=EnvironmentReference("A_KEY")), replaces=False)
        .with_profile("b", Profile(server="https://b.example", key=CommandReference(("pass", "show"))), replaces=False)
        .with_profile("c", Profile(server="https://c.example", key=FileReference("/run/key")), replaces=False)
        .with_profile("d", Profile(server="https://d.example"), replaces=False)
        .using("b")
    )
    write_profiles(path, profiles)
    assert read_profiles(path) == profiles
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_key_file_is_found_from_the_folder_of_the_profiles(tmp_path: Path) -> None:
    path = written(tmp_path, "profiles: {a: {server: 'https://a.example', key: {file: a.key}}}")
    assert read_profiles(path).get("a").key == FileReference(str(tmp_path / "a.key"))


def test_a_key_in_plain_text_is_refused_without_being_shown(tmp_path: Path) -> None:
    path = written(tmp_path, "profiles: {a: {server: 'https://a.example', key: pen_abc_secret}}")
    with pytest.raises(Rejected, match="SECRET_IN_SETTINGS") as caught:
        read_profiles(path)
    assert "pen_abc_secret" not in str(caught.value)
    assert "{env: NAME}" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[1]", "must be an object"),
        ("profile: {}", "did you mean `profiles`"),
        ("profiles: [1]", "a member for each profile"),
        ("profiles: {a: {}}", "the address of a `server`"),
        ("profiles: {a: {server: x, kee: {env: A}}}", "did you mean `key`"),
        ("current: b\nprofiles: {a: {server: x}}", "names a profile that is not there"),
        ("profiles: {a: {server: x}", "profiles.yaml:"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(Rejected) as caught:
        read_profiles(written(tmp_path, text))
    assert told in str(caught.value)


def test_names_are_taken_once_and_removed_with_their_use() -> None:
    one = Profiles().with_profile("a", Profile(server="x"), replaces=False).using("a")
    with pytest.raises(Rejected, match="PROFILE_EXISTS"):
        one.with_profile("a", Profile(server="y"), replaces=False)
    assert one.with_profile("a", Profile(server="y"), replaces=True).get("a").server == "y"
    assert one.without("a") == Profiles()
    with pytest.raises(NotFound, match="did you mean `a`"):
        one.with_profile("b", Profile(server="z"), replaces=False).get("aa")
    with pytest.raises(Rejected, match="PROFILE_INVALID"):
        one.with_profile("no spaces", Profile(server="z"), replaces=False)
