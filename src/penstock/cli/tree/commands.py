"""Every command by its words: `server backup` is `penstock server backup`.

`_GROUPS` has the groups, in the order of help; `_COMMANDS` the commands that are written by hand. The other commands
are operations: `operation_paths` says which group each is in. The sentence of a command is the first one of its own
help; a test compares them.

Above it: `main`, `application`, `search`, the generator of the documentation. Below it: `references`; the client's
table of operations, which is imported when a group with operations is listed.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, Final

from penstock.cli.operation_paths import command_of_operation
from penstock.cli.references import CommandGroup, CommandRow, LazyCommand
from penstock.cli.wording import words_of

__all__ = ["commands_below", "every_command", "find_row"]

_START, _BUILD, _PEOPLE = "Start", "Build", "Runs and people"
_GOVERN, _OPERATE = "Govern", "Operate"
_PANEL_OF_GROUPS: Final = "Groups"
_OPERATIONS: Final = "penstock.client.operations"

_DOCUMENTS: Final = "penstock.cli.documents"
_MAINTENANCE: Final = "penstock.cli.server.backup"
_CONFIG: Final = "penstock.cli.server.config"
_PROFILES: Final = "penstock.cli.server.profile"
_RUN_CHANGES: Final = "penstock.cli.runs.control"
_RUN_LOOKS: Final = "penstock.cli.runs.inspection"
_TRAILS: Final = "penstock.cli.operations.audit_trails"
_GRAPH_FILES: Final = "penstock.cli.graphs.files"
_STORED: Final = "penstock.cli.documents.stored"

_START_COMMANDS: Final[dict[str, LazyCommand]] = {
    "init": LazyCommand(
        "penstock.cli.project.init",
        "init_command",
        "Create a project that runs, with its steps, tests and settings.",
        _START,
    ),
    "dev": LazyCommand(
        "penstock.cli.dev.command",
        "dev_command",
        "Serve a project, and reload what you save.",
        _START,
    ),
    "run": LazyCommand(
        "penstock.cli.run.command",
        "run_command",
        "Run a workflow, watch it, and answer its questions.",
        _START,
    ),
    "test": LazyCommand(
        f"{_DOCUMENTS}.test",
        "cases_command",
        "Run the test cases of workflows in memory, with mocks.",
        _START,
    ),
    "validate": LazyCommand(
        f"{_DOCUMENTS}.validate",
        "validate_command",
        "Find every mistake in workflow files, each with a hint.",
        _START,
    ),
    "serve": LazyCommand(
        "penstock.cli.server.serve",
        "serve_command",
        "Serve REST, MCP and the console, and perform runs.",
        _START,
    ),
}
_GROUPS: Final[dict[str, CommandGroup]] = {
    "mcp": CommandGroup(
        "Offer the workflows as MCP tools over standard input and output.",
        _START,
        "penstock.cli.mcp.command",
        "mcp_app",
    ),
    "workflow": CommandGroup("Workflows: create, start, draw, compare, simulate, sign.", _BUILD),
    "workflow task": CommandGroup("Tasks: the nodes of a workflow, one by one."),
    "workflow schema": CommandGroup("JSON Schemas that workflows refer to by name."),
    "workflow control": CommandGroup("The control functions of the published workflow format."),
    "agent": CommandGroup("Agents: register, chat, give work to; sessions and memory.", _BUILD),
    "agent session": CommandGroup("Sessions: conversations with agents."),
    "agent memory": CommandGroup("Memory of agents and people: store, search, erase."),
    "agent model": CommandGroup("Models that agents use."),
    "graph": CommandGroup("Data graphs: schemas, branches, commits, data, queries.", _BUILD),
    "graph schema": CommandGroup("The schema of a graph: read, change, check files."),
    "graph branch": CommandGroup("Branches of a graph: create, compare, merge."),
    "graph commit": CommandGroup("Commits of a graph and what they changed."),
    "graph query": CommandGroup("Queries: run and explain stored ones; check, format and test files."),
    "tool": CommandGroup("Tools: register, import from an API or an MCP server, call.", _BUILD),
    "tool upstream": CommandGroup("MCP servers whose tools you import: list, accept, sign in, call."),
    "tool import": CommandGroup("Import tools from the description of an API."),
    "runs": CommandGroup("Runs: list, watch, answer, retry, cancel.", _PEOPLE),
    "approval": CommandGroup("Approvals: see what waits for you, approve or reject it.", _PEOPLE),
    "approval grant": CommandGroup("Grants: what agents may do without approval, and until when."),
    "schedule": CommandGroup("Schedules: start workflows by the clock.", _PEOPLE),
    "webhook": CommandGroup("Webhooks: send events to others, start workflows by HTTP.", _PEOPLE),
    "webhook delivery": CommandGroup("Deliveries: what was sent to webhooks, and what failed."),
    "webhook notification": CommandGroup("Notifications: webhooks of a single run."),
    "webhook trigger": CommandGroup("Triggers: addresses that start or signal workflows."),
    "policy": CommandGroup("Policies: check, explain, test, compare, replay, store.", _GOVERN),
    "key": CommandGroup("API keys: create, rotate, revoke; quotas and sessions.", _GOVERN),
    "key quota": CommandGroup("Quotas: what tenants and keys may use, and what they used."),
    "key token": CommandGroup("Access tokens of issuers: revoke a token or a subject."),
    "key session": CommandGroup("Console sessions: list who is signed in, end a session."),
    "audit": CommandGroup("The audit trail: who did what, and proof of it.", _GOVERN),
    "server": CommandGroup("The server and its database: back up, migrate, diagnose.", _OPERATE),
    "config": CommandGroup("Settings: show and check them; profiles of servers.", _OPERATE),
    "config profile": CommandGroup("Profiles: the servers that you work with, by name."),
}
_COMMANDS: Final[dict[str, LazyCommand]] = {
    **_START_COMMANDS,
    "mcp install": LazyCommand(
        "penstock.cli.mcp.install.command",
        "install_command",
        "Print the entry that an assistant needs to use Penstock, or write it into its file.",
    ),
    "mcp doctor": LazyCommand(
        "penstock.cli.mcp.doctor", "DOCTOR", "Check a connection to an MCP server step by step, and say what to do."
    ),
    "mcp tools": LazyCommand(
        "penstock.cli.mcp.tools", "TOOLS", "List the tools of an MCP server with their sizes, or show one."
    ),
    "mcp call": LazyCommand(
        "penstock.cli.mcp.call", "CALL", "Call a tool of an MCP server, show its progress and answer its questions."
    ),
    "eval": LazyCommand(
        "penstock.cli.evaluation.command",
        "eval_command",
        "Run a data set against a workflow or an agent, and compare.",
        _BUILD,
    ),
    "workflow draw": LazyCommand(_STORED, "stored_or_file_command", "Draw a workflow.", None, "workflow.draw"),
    "workflow diff": LazyCommand(
        _STORED, "stored_or_file_command", "Compare two versions of a workflow.", None, "workflow.diff"
    ),
    "workflow test": LazyCommand(
        _STORED, "stored_or_file_command", "Run the test cases of a workflow.", None, "workflow.test"
    ),
    "workflow simulate": LazyCommand(
        _STORED, "stored_or_file_command", "Run a workflow dry, with mocked activities.", None, "workflow.simulate"
    ),
    "workflow sign": LazyCommand(f"{_DOCUMENTS}.sign", "sign_command", "Sign workflow files, in place."),
    "workflow verify-signature": LazyCommand(
        f"{_DOCUMENTS}.sign", "verify_signature_command", "Check that workflow files are signed with trusted keys."
    ),
    "workflow json-schema": LazyCommand(
        f"{_DOCUMENTS}.schema", "schema_command", "Print the JSON Schema of workflow documents, for editors."
    ),
    "agent chat": LazyCommand("penstock.cli.agents.chat", "chat_command", "Talk to an agent."),
    "graph load": LazyCommand(
        "penstock.cli.graphs.loading", "load_command", "Load nodes and edges, all of them or none."
    ),
    "graph export": LazyCommand(
        "penstock.cli.graphs.exporting", "export_command", "Export the nodes and edges of a version."
    ),
    "graph schema check": LazyCommand(_GRAPH_FILES, "check_schemas_command", "Check schemas of graphs in files."),
    "graph query validate": LazyCommand(
        _STORED, "stored_or_file_command", "Check queries against a schema.", None, "graph.queries_validate"
    ),
    "graph query format": LazyCommand(_GRAPH_FILES, "format_command", "Format files of schemas and queries, in place."),
    "graph query test": LazyCommand(
        "penstock.cli.graphs.cases", "cases_command", "Run the test cases of queries, each on a graph of its own."
    ),
    "tool upstream sign-in": LazyCommand(
        "penstock.cli.operations.sign_in", "sign_in_command", "Sign in to an MCP server that wants OAuth."
    ),
    "tool import openapi": LazyCommand(
        "penstock.cli.imports.openapi",
        "openapi_command",
        "Offer operations of an API as governed tools, from its OpenAPI document.",
    ),
    "runs list": LazyCommand(_RUN_LOOKS, "list_command", "List runs, newest first."),
    "runs show": LazyCommand(
        _RUN_LOOKS, "show_command", "Show a run: its status, what it waits for, its children, error and result."
    ),
    "runs history": LazyCommand(_RUN_LOOKS, "history_command", "Show the history of a run."),
    "runs query": LazyCommand(
        _RUN_LOOKS, "query_command", "Evaluate jq on a run: its input, its state and the results of its nodes."
    ),
    "runs watch": LazyCommand(
        "penstock.cli.runs.watch", "watch_command", "Watch a run until it ends, and answer its questions."
    ),
    "runs answer": LazyCommand("penstock.cli.runs.answer", "answer_command", "Answer a question of a run."),
    "runs signal": LazyCommand(
        _RUN_CHANGES, "signal_command", "Send a signal to a run, which keeps it until it waits for it."
    ),
    "runs lease": LazyCommand(
        _RUN_CHANGES,
        "lease_command",
        "Take an activity of a host-mediated run for a while, so that nobody else does it.",
    ),
    "runs submit": LazyCommand(
        _RUN_CHANGES,
        "submit_command",
        "Report the outcome of an activity that was performed elsewhere, or whose outcome was unknown.",
    ),
    "runs pause": LazyCommand(
        _RUN_CHANGES, "pause_command", "Pause a run, so that it does nothing until you resume it."
    ),
    "runs resume": LazyCommand(_RUN_CHANGES, "resume_command", "Resume a paused run."),
    "runs cancel": LazyCommand(_RUN_CHANGES, "cancel_command", "Cancel a run, after undoing what must be undone."),
    "runs retry": LazyCommand(_RUN_CHANGES, "retry_command", "Retry the activities of a run that failed."),
    "runs fork": LazyCommand(
        _RUN_CHANGES, "fork_command", "Start a new run from a record in the history of another run."
    ),
    "runs top": LazyCommand(
        "penstock.cli.top.command", "top_command", "Show live runs, queues, rates and questions, until you press q."
    ),
    "policy check": LazyCommand("penstock.cli.policy.check", "check_command", "Check policies in files."),
    "policy explain": LazyCommand(
        "penstock.cli.policy.asking", "explain_command", "Explain what would happen to a call."
    ),
    "policy test": LazyCommand("penstock.cli.policy.cases", "cases_command", "Run the test cases of policies."),
    "policy diff": LazyCommand(
        "penstock.cli.policy.cases", "diff_command", "Compare two sets of policies on sample requests."
    ),
    "policy replay": LazyCommand(
        "penstock.cli.policy.asking", "replay_command", "Decide the last recorded calls again with these policies."
    ),
    "audit verify": LazyCommand(_TRAILS, "verify_command", "Verify the audit trail."),
    "audit export": LazyCommand(_TRAILS, "export_command", "Export audit records."),
    "audit checkpoint": LazyCommand(_TRAILS, "checkpoint_command", "Sign the audit trail as it is now."),
    "audit key": LazyCommand(_TRAILS, "key_command", "Show the public key that verifies checkpoints."),
    "server worker": LazyCommand(
        "penstock.cli.server.worker", "worker_command", "Perform the runs of a database until Ctrl-C or SIGTERM."
    ),
    "server backup": LazyCommand(
        _MAINTENANCE, "backup_command", "Back up the database, to a file or where the settings say."
    ),
    "server restore": LazyCommand(_MAINTENANCE, "restore_command", "Replace the database with a backup."),
    "server check": LazyCommand(
        _MAINTENANCE, "check_command", "Check the database file, every history, and the checksum of every row."
    ),
    "server migrate": LazyCommand(
        "penstock.cli.server.migrate", "migrate_command", "Bring the database to the format of this release."
    ),
    "server vacuum": LazyCommand(_MAINTENANCE, "vacuum_command", "Rewrite the database without its free space."),
    "server doctor": LazyCommand(
        "penstock.cli.doctor.command", "doctor_command", "Check the whole installation, and say what to do."
    ),
    "server verify": LazyCommand(
        "penstock.cli.verify.command",
        "verify_command",
        "Check from outside how a server governs agents, over HTTP and MCP.",
    ),
    "config show": LazyCommand(
        _CONFIG, "show_command", "Show every setting in effect: defaults < penstock.yaml < environment."
    ),
    "config validate": LazyCommand(
        _CONFIG, "validate_command", "Find every mistake in penstock.yaml and in the environment, each with a hint."
    ),
    "config schema": LazyCommand(_CONFIG, "schema_command", "Print the JSON Schema of penstock.yaml."),
    "config profile list": LazyCommand(_PROFILES, "list_command", "List the profiles."),
    "config profile add": LazyCommand(
        _PROFILES, "add_command", "Add a profile: a server, and where its key comes from."
    ),
    "config profile remove": LazyCommand(_PROFILES, "remove_command", "Remove a profile."),
    "config profile use": LazyCommand(
        _PROFILES, "use_command", "Use a profile whenever a command names no server, profile or file."
    ),
}
_TOP: Final = ("init", "dev", "run", "test", "validate", "serve", "mcp", "workflow", "agent", "graph", "tool", "eval")
# Groups of which every command is written by hand: they are listed without the table of operations.
_WITHOUT_OPERATIONS: Final = frozenset({"", "mcp", "config", "config profile", "tool import"})


def commands_below(path: str) -> dict[str, CommandRow]:
    """The commands and groups of a group by name; the top has the empty path."""
    found: dict[str, CommandRow] = {}
    if path not in _WITHOUT_OPERATIONS:
        found.update(_operations_below(path))
    found.update(_children(path, _COMMANDS))
    for name, group in _children(path, _GROUPS).items():
        found[name] = group if path == "" or group.panel is not None else group._replace(panel=_PANEL_OF_GROUPS)
    if path == "":
        return {name: found[name] for name in (*_TOP, *(name for name in found if name not in _TOP))}
    return found


def _children(path: str, table: dict[str, Any]) -> dict[str, Any]:
    prefix = f"{path} " if path else ""
    names = ((words.removeprefix(prefix), row) for words, row in table.items() if words.startswith(prefix))
    return {name: row for name, row in names if " " not in name}


def _operations_below(path: str) -> Iterator[tuple[str, LazyCommand]]:
    table = importlib.import_module(_OPERATIONS).operation_table()
    for operation in table.values():
        group, _, name = (command_of_operation(operation.name) or "").rpartition(" ")
        if group == path and name:
            yield name, _operation_row(operation)


def _operation_row(operation: Any) -> LazyCommand:
    """The row of an operation's command."""
    return LazyCommand(
        "penstock.cli.operations.commands", "operation_command", words_of(f"{operation.title}."), None, operation.name
    )


def find_row(path: str) -> CommandRow | None:
    """The row of a command or group by its words, or None."""
    group, _, name = path.rpartition(" ")
    return commands_below(group).get(name)


def every_command() -> Iterator[tuple[str, LazyCommand]]:
    """Every command except groups, by its words."""
    yield from _leaves("")


def _leaves(path: str) -> Iterator[tuple[str, LazyCommand]]:
    for name, row in commands_below(path).items():
        words = f"{path} {name}".strip()
        if isinstance(row, CommandGroup):
            yield from _leaves(words)
        else:
            yield words, row
