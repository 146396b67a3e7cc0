"""The files of a new project are in what is installed, and their examples work."""

import asyncio
import re
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from penstock.app.penstock import Penstock
from penstock.app.serving.server import ServerOptions, open_application
from penstock.app.settings.sources import load_settings
from penstock.cli.project.templates import TEMPLATES, project_files
from tests.waiting import SECONDS_MAX

ROOT = Path(__file__).parents[4]


def test_a_wheel_has_every_file_of_a_new_project() -> None:
    packed = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    folder = "penstock/cli/project/templates/"
    templates = {path.removeprefix(folder) for path in packed if path.startswith(folder)}
    in_common = 1
    assert len(templates) == in_common + sum(len(project_files(name)) - in_common for name in TEMPLATES)
    assert {"approval/penstock.yaml", "agent/steps.py.template", "common/gitignore.template"} <= templates


def test_a_new_project_names_no_place_of_this_machine() -> None:
    assert all(str(Path.home()) not in text for name in TEMPLATES for text in project_files(name).values())


def test_every_commented_example_of_the_settings_works_when_it_is_uncommented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in project_files("approval").items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PAYMENT_KEY", "a-key")
    file = tmp_path / "penstock.yaml"
    uncommented = re.sub(r"(?m)^# (?=\w+:$|  )", "", file.read_text(encoding="utf-8"))
    assert not re.findall(r"(?m)^#\s+\w+: ", uncommented)
    file.write_text(uncommented, encoding="utf-8")
    settings = load_settings(file).settings
    assert settings.policy.files == (str(tmp_path / "policies/*.cedar"),)

    async def start() -> None:
        async with (
            asyncio.timeout(SECONDS_MAX),
            Penstock.open(tmp_path / "penstock.db") as penstock,
            open_application(penstock, ServerOptions.of(settings)) as (_, gate),
        ):
            assert gate.services.policies is not None
            assert [policy.id for policy in gate.services.policies.server] == ["scopes-decide", "agents-make-no-keys"]

    asyncio.run(start())


COMMENTED = re.findall(r"(?m)^# \w+:\n(?:#   .*\n?)+", project_files("approval")["penstock.yaml"])


def test_every_commented_section_is_found() -> None:
    sections = [re.sub(r"\W", "", block.split(":")[0]) for block in COMMENTED]
    assert sections == ["storage", "server", "secrets", "policy", "governance"]


@pytest.mark.parametrize("block", COMMENTED, ids=lambda block: block.split(":")[0].strip("# "))
def test_each_commented_example_works_when_it_alone_is_uncommented(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in project_files("approval").items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PAYMENT_KEY", "a-key")
    file = tmp_path / "penstock.yaml"
    before = load_settings(file).settings
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(block, re.sub(r"(?m)^# ", "", block)), encoding="utf-8")
    settings = load_settings(file).settings
    # What is commented out for those who look for it may be the default.
    assert settings != before or block.startswith(("# storage", "# server", "# governance"))

    async def start() -> None:
        async with (
            asyncio.timeout(SECONDS_MAX),
            Penstock.open(settings.storage.path) as penstock,
            open_application(penstock, ServerOptions.of(settings)),
        ):
            pass

    asyncio.run(start())


def test_what_init_prints_fits_into_a_terminal() -> None:
    menu = [f"  {number}  {item.name:<10}{item.title}" for number, item in enumerate(TEMPLATES.values(), 1)]
    commands = [f"  {command}   {purpose}" for item in TEMPLATES.values() for command, purpose in item.next]
    assert [line for line in (*menu, *commands) if len(line) > 78] == []
