"""A release: builds are equal byte for byte, the sdist has everything, and the bill of materials lists every pin."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from penstock import __version__
from tests.release import REQUIREMENTS, build_in, changelog_problem, compare_builds
from tests.sbom import make_sbom, read_pins

ROOT = Path(__file__).parents[2]
EPOCH = "1790000000"
# What a build and the tests do not need.
NOT_IN_THE_SDIST = (".ci/",)


def tracked_files() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel and the sdist of the tracked files."""
    folder = tmp_path_factory.mktemp("release")
    for copy in ("one", "somewhere/else"):
        for name in tracked_files():
            target = folder / copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target)
            runs = bool((ROOT / name).stat().st_mode & 0o100)
            target.chmod((0o755 if runs else 0o644) if copy == "one" else (0o700 if runs else 0o600))
    build_in(folder / "one", folder / "first", EPOCH)
    build_in(folder / "somewhere" / "else", folder / "second", EPOCH, umask=0o077)
    return folder


def test_two_builds_are_equal_wherever_and_by_whomever_they_are_made(built: Path) -> None:
    assert len(list((built / "first").iterdir())) == 2
    assert compare_builds(built / "first", built / "second") == []


def test_a_difference_between_builds_is_found(built: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(built / "first", copy)
    assert compare_builds(built / "first", copy) == []
    wheel = next(copy.glob("*.whl"))
    wheel.write_bytes(wheel.read_bytes() + b"\0")
    assert compare_builds(built / "first", copy) == [wheel.name]


def test_the_sdist_has_every_file_of_the_project(built: Path) -> None:
    with tarfile.open(next((built / "first").glob("*.tar.gz"))) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {name for name in tracked_files() if not name.startswith(NOT_IN_THE_SDIST)}
    assert wanted - packed == set()
    assert {"LICENSE", "SECURITY.md", "requirements/runtime.txt"} <= packed


def test_the_wheel_says_what_it_is(built: Path) -> None:
    with zipfile.ZipFile(next((built / "first").glob("*.whl"))) as archive:
        folder = f"penstock_mcp-{__version__}.dist-info"
        metadata = Parser().parsestr(archive.read(f"{folder}/METADATA").decode())
        assert f"{folder}/licenses/LICENSE" in archive.namelist()
        dates = {entry.date_time for entry in archive.infolist()}
    assert (metadata["Name"], metadata["Version"]) == ("penstock-mcp", __version__)
    assert len(dates) == 1, "no file has the time of the build"


@pytest.mark.parametrize(
    ("changelog", "problem"),
    [
        ("# Changelog\n\n## [1.2.0] - 2026-11-18\n\n- New.\n", None),
        ("# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-11-18\n\n- New.\n", None),
        ("# Changelog\n\n## [Unreleased]\n\n- More.\n\n## [1.2.0] - 2026-11-18\n", "changes are under Unreleased"),
        ("# Changelog\n\n## [1.2.0]\n", "has no date"),
        ("# Changelog\n\n## [1.1.0] - 2026-11-01\n", "the newest heading is [1.1.0]"),
        ("# Changelog\n\n## [Unreleased]\n\n", "there is no heading"),
    ],
    ids=["released", "nothing_since", "changes_since", "no_date", "older", "never"],
)
def test_a_release_needs_a_changelog_of_its_version(changelog: str, problem: str | None) -> None:
    found = changelog_problem(changelog, "1.2.0")
    assert found == problem if problem is None else problem in (found or "")


def test_the_bill_of_materials_lists_every_pin_once_and_is_the_same_each_time() -> None:
    made = make_sbom(REQUIREMENTS, __version__, int(EPOCH))
    assert made == make_sbom(REQUIREMENTS, __version__, int(EPOCH))
    document = json.loads(made)
    pins = read_pins(REQUIREMENTS)
    assert len(pins) == REQUIREMENTS.read_text(encoding="utf-8").count("==") - sum(
        pin["marker"].count("==") for pin in pins if pin["marker"]
    )
    assert [(item["name"], item["version"]) for item in document["components"]] == [
        (pin["name"], pin["version"]) for pin in pins
    ]
    assert all(item["hashes"] for item in document["components"])
    known = {item["bom-ref"] for item in document["components"]} | {document["metadata"]["component"]["bom-ref"]}
    assert {entry["ref"] for entry in document["dependencies"]} == known
    assert all(set(entry["dependsOn"]) <= known for entry in document["dependencies"])
    [own] = [entry for entry in document["dependencies"] if entry["ref"].startswith("pkg:pypi/penstock-mcp@")]
    assert any(reference.startswith("pkg:pypi/starlette@") for reference in own["dependsOn"])
