"""Options of commands become the arguments of operations."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.operations.commands import operation_command
from penstock.cli.operations.options import RESERVED, option_of, parameter_signature, read_arguments
from penstock.cli.terminal.values import UsageError
from penstock.cli.wording import words_of
from penstock.client.operations import find_operation, operation_table


def arguments(name: str, **values: Any) -> dict[str, Any]:
    return read_arguments(find_operation(name), values)


@pytest.mark.parametrize("name", operation_table())
def test_no_two_arguments_of_an_operation_have_one_option(name: str) -> None:
    operation = find_operation(name)
    options = [option_of(operation, parameter) for parameter in operation.parameters]
    assert len(set(options)) == len(options)
    taken = {option.removeprefix("--") for option in options if option != "--file"}
    assert taken.isdisjoint(RESERVED)
    assert {item.name for item in parameter_signature(operation)} == {item.name for item in operation.parameters}


def test_what_is_not_given_is_no_argument() -> None:
    assert arguments("execution.list", status=None, limit=5) == {"limit": 5}


def test_json_is_given_as_it_is_or_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "input.yaml").write_text("a: [1, 2]\n", encoding="utf-8")
    assert arguments("workflow.execute", input='{"a": 1}')["input"] == {"a": 1}
    assert arguments("workflow.execute", input=f"@{tmp_path / 'input.yaml'}")["input"] == {"a": [1, 2]}
    with pytest.raises(UsageError, match=r"--input: .* is not JSON"):
        arguments("workflow.execute", input="{")


def test_a_document_is_read_from_a_file_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("# mine\npenstock: v1\n", encoding="utf-8")
    assert arguments("workflow.create", source=str(tmp_path / "w.yaml"))["source"] == "# mine\npenstock: v1\n"
    with pytest.raises(UsageError, match="nowhere"):
        arguments("workflow.create", source=str(tmp_path / "nowhere"))


def test_tables_are_pairs_or_objects() -> None:
    assert arguments("workflow.execute", labels=["a=1", "b=x=y", '{"c": "z"}'])["labels"] == {
        "a": "1",
        "b": "x=y",
        "c": "z",
    }
    for wrong in ("nothing", "=1", "{1}", "@nowhere.json"):
        with pytest.raises(UsageError):
            arguments("workflow.execute", labels=[wrong])


def test_lists_are_repeated_or_json() -> None:
    assert arguments("key.create", scopes=["a:read", '["b:read", "c:read"]'])["scopes"] == [
        "a:read",
        "b:read",
        "c:read",
    ]
    tasks = arguments("workflow.create", tasks=['{"id": "a"}', '[{"id": "b"}]'])["tasks"]
    assert tasks == [{"id": "a"}, {"id": "b"}]


def test_an_export_can_be_imported_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "bundle.json").write_text('{"workflows": [{"name": "a"}]}', encoding="utf-8")
    assert arguments("workflow.import", workflows=[f"@{tmp_path / 'bundle.json'}"]) == {"workflows": [{"name": "a"}]}


def test_null_is_a_value_where_it_means_something() -> None:
    assert arguments("schedule.update", jitter="null", timezone="UTC") == {"jitter": None, "timezone": "UTC"}
    assert arguments("schedule.create", timezone="null") == {"timezone": "null"}


@pytest.mark.parametrize("action", ["delete", "stream", "update", "wait"])
def test_commands_about_runs_call_them_so(action: str) -> None:
    command = operation_command(f"execution.{action}")
    infos = [info for item in inspect.signature(command).parameters.values() for info in item.annotation.__metadata__]
    shown = [str(command.__doc__), *(f"{info.metavar} {info.help}" for info in infos)]
    assert not [text for text in shown if re.search(r"execution(?!\.\w)", text, re.IGNORECASE)]
    assert any(text.startswith("RUN ") for text in shown)


def test_every_command_says_run_where_the_wire_says_execution() -> None:
    assert words_of("An execution, as `execution.list` has executions.") == "A run, as `execution.list` has runs."
    assert words_of("List the executions of a workflow.") == "List the runs of a workflow."


def test_names_on_wires_are_kept() -> None:
    for name in ("execution:read", "execution.status", "`execution`", "execution_id", "/executions/x"):
        assert words_of(f"It has {name}.") == f"It has {name}."
