"""The files of a new project are in what is installed."""

from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

from penstock.cli.project.init import project_files

ROOT = Path(__file__).parents[4]


def test_a_wheel_has_every_file_of_a_new_project() -> None:
    packed = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    folder = "penstock/cli/project/template/"
    templates = {path.removeprefix(folder) for path in packed if path.startswith(folder)}
    assert len(templates) == len(project_files())
    assert {"penstock.yaml", "steps.py.template", "gitignore.template"} <= templates


def test_a_new_project_names_no_place_of_this_machine() -> None:
    assert all(str(Path.home()) not in text for text in project_files().values())
