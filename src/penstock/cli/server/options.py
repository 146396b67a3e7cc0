"""The options of the commands that serve: the same for `penstock serve` and `penstock dev`.

Above it: those commands; `worker` and `mcp` share one of the options. Below it: `targets`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from penstock.app.settings.model import Settings
from penstock.cli.declaration import Option
from penstock.cli.targets.settings import ChosenDatabaseOption, ConfigOption
from penstock.cli.targets.workspace import SecretsOption, StepsOption, Workspace

__all__ = ["ServingOptions", "WorkflowsOption"]

WorkflowsOption = Annotated[
    list[str] | None,
    Option("--workflows", metavar="PATH", help="Workflow files or folders to make known; repeatable."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingOptions:
    """Where to listen, and what to serve."""

    config: ConfigOption = None
    database: ChosenDatabaseOption = None
    host: Annotated[str | None, Option("--host", help="The address to listen on (server.host).")] = None
    port: Annotated[int | None, Option("--port", help="The port to listen on (server.port).")] = None
    steps: StepsOption = None
    workflows: WorkflowsOption = None
    secret_folder: SecretsOption = None
    conformance_fixtures: Annotated[
        bool,
        Option("--conformance-fixtures", help="Serve the agent profile with its demo ledger, for conformance tests."),
    ] = False

    def flags(self) -> dict[str, Any]:
        """The settings that these options override, by key; None for what was not given."""
        return {
            "storage.path": None if self.database is None else str(self.database),
            "server.host": self.host,
            "server.port": self.port,
            "steps.modules": self.steps or None,
            "workflows.paths": self.workflows or None,
            "server.agent_profile.enabled": self.conformance_fixtures or None,
            "server.agent_profile.fixtures": self.conformance_fixtures or None,
        }

    def workspace(self, settings: Settings) -> Workspace:
        """The database and what its runs need, as options and settings name them."""
        return Workspace.configured(settings, config=self.config, secret_folder=self.secret_folder)
