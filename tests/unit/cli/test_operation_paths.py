"""Every operation has the command that hints name for it, or is known to have none."""

from click.testing import CliRunner

from penstock.cli.main import app
from penstock.cli.operation_paths import WITHOUT_COMMAND, command_of_operation
from penstock.client.operations import operation_table


def test_the_command_of_every_operation_exists() -> None:
    runner, missing = CliRunner(), []
    for name in operation_table():
        command = command_of_operation(name)
        assert (command is None) == (name in WITHOUT_COMMAND)
        if command is not None and runner.invoke(app, [*command.split(), "--help"]).exit_code:
            missing.append(name)
    assert missing == []
