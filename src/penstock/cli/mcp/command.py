"""`penstock mcp`: an MCP server on standard input and output, for an assistant that starts this command.

It works on the database as the principal that `server.mcp.pipe` names, an agent unless the operator chose the owner,
and performs what is started; or it forwards every message to a server. Standard output belongs to the protocol; the log
goes to standard error.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from penstock.app.files.trusted import list_trusted_files
from penstock.app.gate import hold_choices, open_gate
from penstock.app.pipe_principal import PipePrincipal
from penstock.app.serving.gate_limits import gate_limits
from penstock.app.serving.mcp import load_mcp, mcp_options
from penstock.app.serving.request_ids import new_request_id
from penstock.base.lazy_import import lazy_import
from penstock.cli.declaration import Context, Option, echo
from penstock.cli.lazy_commands import LazyGroup
from penstock.cli.mcp.servers import AsOwnerOption, GraphOption, ManagementOption, ToolsetOption, chosen_toolset
from penstock.cli.server.logs import configure_logging, log_commit
from penstock.cli.server.options import WorkflowsOption
from penstock.cli.server.workflow_files import workflow_files
from penstock.cli.targets.selection import ProfileOption, ServerOption, ServerTarget, choose_target
from penstock.cli.targets.settings import ChosenDatabaseOption, ConfigOption, command_settings
from penstock.cli.targets.workspace import SecretsOption, StepsOption, Workspace, open_workspace
from penstock.cli.terminal.conversation import can_ask
from penstock.cli.terminal.event_loop import exit_with_async, until_interrupted
from penstock.cli.terminal.exits import exit_with
from penstock.cli.terminal.values import UsageError
from penstock.mcp_surface.pipe_entry import serve_pipe_client
from penstock.mcp_surface.wire.pipe import Pipe, standard_pipe
from penstock.operations.gate.context import ServerParts

if TYPE_CHECKING:
    from penstock.cli.mcp import bridge
else:
    bridge = lazy_import("penstock.cli.mcp.bridge")

__all__ = ["mcp_app", "mcp_command"]


_GRACE_SECONDS = 5.0
_AT_TERMINAL = (
    "This command is for assistants, which start it and speak MCP with it; Ctrl-C ends it.\n"
    "`penstock mcp install CLIENT` adds it to one, `penstock mcp tools` and `call` use it from here."
)


def mcp_command(  # noqa: PLR0913  # every option is one the user can give
    ctx: Context,
    *,
    server: ServerOption = None,
    profile: ProfileOption = None,
    config: ConfigOption = None,
    database: ChosenDatabaseOption = None,
    steps: StepsOption = None,
    workflows: WorkflowsOption = None,
    secret_folder: SecretsOption = None,
    toolset: ToolsetOption = None,
    graph: GraphOption = None,
    management: ManagementOption = False,
    as_owner: AsOwnerOption = False,
    verbose: Annotated[bool, Option(("--verbose", "-v"), help="Log more, to standard error.")] = False,
) -> None:
    """Offer the workflows as MCP tools over standard input and output.

    An assistant starts this command. It works on the database as an agent of the user who starts it, or as
    server.mcp.pipe says, and performs what is started; with --server it hands everything to a server, with the key in
    PENSTOCK_API_KEY.
    """

    if ctx.invoked_subcommand is not None:
        _refuse_lost_options(ctx)
        return

    async def work() -> int:
        if can_ask():
            echo(_AT_TERMINAL, err=True)
        tools = chosen_toolset(toolset, management=management, graph=graph)
        target = choose_target(server, profile, database)
        if isinstance(target, ServerTarget):
            if workflows or steps:
                raise UsageError("--workflows and --steps go with a file: a server has its own")
            if as_owner:
                raise UsageError("--as-owner goes with a file: at a server, the key says who you are")
            with standard_pipe() as pipe:
                await until_interrupted(bridge.bridge(pipe, target.server, target.key, tools))
            return 0
        flags = {
            "storage.path": None if database is None else str(database),
            "steps.modules": steps or None,
            "workflows.paths": workflows or None,
            "server.mcp.toolset": tools,
            "server.mcp.pipe.owner": True if as_owner else None,
            "logging.level": "debug" if verbose else "warning",
        }
        loaded = command_settings(config, flags)
        settings, trusted = loaded.settings, tuple(list_trusted_files(loaded.settings, loaded.file, secret_folder))
        configure_logging(settings.logging)
        workspace = Workspace.configured(settings, config=config, secret_folder=secret_folder)
        with standard_pipe() as pipe:
            await until_interrupted(_serve(workspace, pipe, trusted))
        return 0

    exit_with_async(work)


def _refuse_lost_options(ctx: Context) -> None:
    """Refuse options that stand before the name of another command, which does not see them."""
    given = [item.opts[0] for item in ctx.command.params if str(item.name) in ctx.params and _is_given(ctx, item.name)]
    if given:
        message = (
            f"{' and '.join(given)} must stand after {ctx.invoked_subcommand}: penstock mcp {ctx.invoked_subcommand}"
        )
        exit_with(lambda: _raise_usage(f"{message} {given[0]} …"), as_json=False)


def _is_given(ctx: Context, name: str | None) -> bool:
    source = ctx.get_parameter_source(name or "")
    return source is not None and source.name == "COMMANDLINE"


def _raise_usage(message: str) -> int:
    raise UsageError(message)


async def _serve(workspace: Workspace, pipe: Pipe, trusted: tuple[Path, ...]) -> None:
    settings = workspace.settings
    files = workflow_files(settings)
    async with (
        open_workspace(workspace, perform=True, create=True, observe=log_commit) as penstock,
        open_gate(
            penstock,
            chosen=gate_limits(settings),
            policy_files=settings.policy.files,
            graphs=settings.declared_graphs,
            holds=hold_choices(settings.governance),
            workflow_files=files,
            server=ServerParts(trusted_files=trusted),
        ) as gate,
    ):
        try:
            principal = PipePrincipal(gate, settings)
            await principal.prepare()
            await serve_pipe_client(gate, mcp_options(settings), principal, new_request_id, pipe, load_mcp)
        finally:
            gate.services.open_streams.end()
            if penstock.driver is not None:
                await penstock.driver.drain(timeout_seconds=_GRACE_SECONDS)


mcp_app = LazyGroup("mcp", function=mcp_command)
