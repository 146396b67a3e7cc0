"""The groups of commands that come from the catalogue: what their help needs, and no more.

Above it: `main`. Below it: the client's table of operations. The commands themselves are in `commands`.
"""

from __future__ import annotations

import typer

from penstock.cli.lazy_commands import LazyCommand, new_group
from penstock.cli.operations.resources import RESOURCES
from penstock.client.operations import operation_table

__all__ = ["operation_group"]

_COMMANDS = "penstock.cli.operations.commands"
# Commands that are more than one operation. The sentence is the first one of the command's own help.
_TRAILS = "penstock.cli.operations.audit_trails"
_COMPOSED = {
    "policy": {
        "check": LazyCommand("penstock.cli.policy.check", "check_command", "Check policies in files."),
        "explain": LazyCommand("penstock.cli.policy.asking", "explain_command", "Explain what would happen to a call."),
        "test": LazyCommand("penstock.cli.policy.cases", "cases_command", "Run the test cases of policies."),
        "diff": LazyCommand(
            "penstock.cli.policy.cases", "diff_command", "Compare two sets of policies on sample requests."
        ),
        "replay": LazyCommand(
            "penstock.cli.policy.asking",
            "replay_command",
            "Decide the last recorded calls again with these policies.",
        ),
    },
    "audit": {
        "verify": LazyCommand(_TRAILS, "verify_command", "Verify the audit trail."),
        "export": LazyCommand(_TRAILS, "export_command", "Export audit records."),
        "checkpoint": LazyCommand(_TRAILS, "checkpoint_command", "Sign the audit trail as it is now."),
        "key": LazyCommand(_TRAILS, "key_command", "Show the public key that verifies checkpoints."),
    },
    "graphs": {
        "load": LazyCommand(
            "penstock.cli.graphs.loading", "load_command", "Load nodes and edges, all of them or none."
        ),
        "export": LazyCommand(
            "penstock.cli.graphs.exporting", "export_command", "Export the nodes and edges of a version."
        ),
    },
    "agent": {"chat": LazyCommand("penstock.cli.agents.chat", "chat_command", "Talk to an agent.")},
    "upstream": {
        "sign-in": LazyCommand(
            "penstock.cli.operations.sign_in", "sign_in_command", "Sign in to an MCP server that wants OAuth."
        )
    },
}


def operation_group(name: str) -> typer.Typer:
    """The group of commands with this name."""
    resource, words = RESOURCES[name]
    commands = {
        operation.action.replace("_", "-"): LazyCommand(
            _COMMANDS, "operation_command", f"{operation.title}.", None, operation.name
        )
        for operation in operation_table().values()
        if operation.resource == resource
    }
    commands.update(_COMPOSED.get(name, {}))
    return new_group(lambda: commands, words)
