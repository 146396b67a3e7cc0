"""What `penstock dev` prints: its address, its workflows, and a line for each thing that happens.

Texts come from runs and files and are not trusted: control characters never reach the terminal.

Above it: `command`, `reload`. Below it: `terminal.console`, `terminal.traces`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock import __version__
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.base.text import clean
from penstock.cli.server.process import Started, key_advice
from penstock.cli.targets.workspace import Workspace
from penstock.cli.terminal.console import Console, count_words
from penstock.cli.terminal.exits import command_text
from penstock.cli.terminal.findings import print_findings
from penstock.cli.terminal.hints import command_hint
from penstock.cli.terminal.styled_text import Text
from penstock.cli.terminal.traces import trace_text
from penstock.definitions.model import Workflow
from penstock.definitions.source.findings import Finding
from penstock.engine.records import Record, commands, events
from penstock.engine.visits import RunVisits
from penstock.runtime.ports.host import Committed
from penstock.runtime.simulation.tracing import trace_lines

__all__ = ["DevOutput"]

_LABEL_CELLS = 11
_WRAPPED_INDENT = 4
# Records worth a line; the history of a run has all of them.
_SHOWN_RECORDS = frozenset(
    {
        events.ExecutionStarted,
        events.ActivityFailed,
        events.ActivityOutcomeUnknown,
        events.InterruptRaised,
        events.InterruptEscalated,
        events.ActivityAsked,
        events.SignalWaitStarted,
        commands.FailNode,
        events.ExecutionCompleted,
        events.ExecutionFailed,
        events.ExecutionCancelled,
        events.ExecutionContinued,
    }
)

_SAMPLES: JsonObject = {"string": "text", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}


@dataclass(slots=True, kw_only=True)
class DevOutput:
    """Prints to one console."""

    console: Console
    workspace: Workspace
    runs: dict[str, RunVisits] = field(default_factory=dict)
    """The visits of the runs that began under this command and have not ended."""

    def started(self, text: Started, workflows: Sequence[Workflow], *, sign_in: str | None = None) -> None:
        """Print the addresses of the server, its key, its workflows and a first call; `sign_in` is a one-time link."""
        took = f"{self.workspace.database} · ready in {text.started_ms} ms · Ctrl-C stops it"
        self._print(("penstock dev ", "bold"), f"{__version__} · {took}")
        self._field("REST", f"{text.address}{text.base_path}", "described at /openapi.json")
        mcp = self.workspace.settings.server.mcp
        if mcp.enabled and mcp.transport != "stdio":
            self._field("MCP", f"{text.address}{mcp.path}", "for an assistant: penstock mcp install --help")
        if self.workspace.settings.server.console_enabled:
            self._field("console", f"{text.address}/console", "in a browser, with the key")
        if sign_in is not None:
            self._field("sign in", sign_in, "works once, for two minutes")
        if text.owner_key is not None:
            self._field("key", Text(text.owner_key, "bold"), "may do everything; shown only now")
        elif not text.has_keys:
            self._field("key", f"no key yet; make one: {key_advice(self.workspace)}")
        else:
            self._field("key", "the one shown at the first start; `penstock key --help` for more")
        for workflow in workflows:
            self._field("workflow", Text.assemble((clean(workflow.name), "bold"), f" {clean(workflow.version)}"))
        if not workflows:
            self._field("workflow", "none yet; `penstock init` creates one, --workflows names files")
        if workflows and text.owner_key is not None:
            self._field("try", "in another terminal, with the key in PENSTOCK_API_KEY:")
            self._field("", f"{command_text('workflow', 'start', workflows[0].name)} \\")
            self._field("", f"  --server {text.address} \\")
            self._field("", f"  --input {shlex.quote(clean(json.dumps(_sample(workflows[0]))))}")
        self._print(("watching files; what you save is reloaded at once", "dim"))

    def committed(self, commit: Committed) -> None:
        """Print a line for each record that is worth one."""
        state, workflow = commit.live.state, commit.live.workflow
        for record in commit.records:
            lines = list(trace_lines([(state.run_id, record)], {state.run_id: workflow}, self.runs))
            if record.body_type not in _SHOWN_RECORDS:
                continue
            for line in lines:
                text = Text(f"{clean(state.run_id)} ", style="dim")
                text.append(trace_text(line, line.at, 0, depth_from=line.depth))
                self.console.print_wrapped(text, indent=_WRAPPED_INDENT)
            self._advise(state.run_id, record)

    def _advise(self, run_id: str, record: Record) -> None:
        """Print the next command where a run waits for a person."""
        database = ("--db", str(self.workspace.database))
        match record.body:
            case events.InterruptRaised() | events.ActivityAsked():
                self._print(("    answer it: ", "cyan"), command_text("runs", "answer", run_id, *database))
            case events.SignalWaitStarted(signal_name=signal):
                self._print(("    send it: ", "cyan"), command_text("runs", "signal", run_id, str(signal), *database))
            case events.ActivityOutcomeUnknown(node_id=node):
                retry = command_text("runs", "retry", run_id, "--node", node, *database)
                self._print(("    decide: ", "cyan"), retry)
            case _:
                pass

    def taken_up(self, workflow: Workflow, file: str, under_way: int) -> None:
        """Print that a changed workflow was registered."""
        stay = ""
        if under_way:
            verb = "stays with its" if under_way == 1 else "stay with their"
            stay = f"; {count_words(under_way, 'run')} in progress {verb} version"
        text = clean(f"{workflow.version} from {file}{stay}")
        self._print(("↻ ", "green"), (clean(workflow.name), "bold"), f" {text}")

    def mistaken(self, file: str, text: str, findings: tuple[Finding, ...], known: bool) -> None:
        """Print the mistakes of a workflow."""
        print_findings(self.console, findings, label=clean(file), text=text)
        consequence = "the version before it stays" if known else "it is not known yet"
        self._print(("✗ ", "red"), clean(f"{file} has mistakes; {consequence}"))

    def problem(self, error: PenstockError, consequence: str) -> None:
        """Print an error, and what follows from it."""
        self._print(("✗ ", "red"), clean(f"{error.code}: {error.message}; {consequence}"))
        hint = command_hint(error)
        if hint:
            self._print(("  hint: ", "cyan"), clean(hint))

    def stopping(self) -> None:
        """Print that the server stops."""
        seconds = self.workspace.settings.server.drain_seconds
        self._print((f"stopping; work in progress has {seconds:g} s to finish; Ctrl-C again ends it at once", "dim"))

    def note(self, text: str, *, warn: bool = False) -> None:
        """Print anything else."""
        self._print(("! " if warn else "↻ ", "yellow" if warn else "green"), clean(text))

    def _field(self, name: str, value: str | Text, note: str = "") -> None:
        """Print a value whole, so that it can be copied; its note is on a line of its own if there is no room."""
        line = Text.assemble("  ", (name.ljust(_LABEL_CELLS), "dim"), value)
        beside = f"   ({note})" if note else ""
        if self.console.is_terminal and line.cells + len(beside) > self.console.width:
            self.console.print(line)
            line, beside = Text(" " * (_LABEL_CELLS + 2)), f"({note})" if note else ""
        self.console.print(line.append(beside))

    def _print(self, *parts: str | tuple[str, str]) -> None:
        self.console.print(Text.assemble(*parts))


def _sample(workflow: Workflow) -> JsonValue:
    """An example of an input, made from what the schema requires; enough for a first try."""
    schema = workflow.input_schema_json or {}
    required, properties = schema.get("required"), schema.get("properties")
    if not isinstance(required, list) or not isinstance(properties, dict):
        return {}
    return {str(name): _sample_value(properties.get(str(name))) for name in required}


def _sample_value(schema: JsonValue) -> JsonValue:
    if not isinstance(schema, dict):
        return None
    for key in ("examples", "enum"):
        listed = schema.get(key)
        if isinstance(listed, list) and listed:
            return listed[0]
    return schema.get("default", _SAMPLES.get(str(schema.get("type"))))
