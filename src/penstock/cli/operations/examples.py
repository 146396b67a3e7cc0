"""An example of each command, for the end of its help.

`_EXAMPLES` has what stands after the words of a command. An operation without a row gets its example from its required
arguments: `_VALUES` has something to say for each name. A test parses every example with the options of its command.

Above it: `lazy_commands`, the generator of the documentation. Below it: `options`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from penstock.base.lazy_import import lazy_import
from penstock.cli.references import LazyCommand

if TYPE_CHECKING:
    from penstock.cli.operations import options
    from penstock.client import operations as table
else:
    options = lazy_import("penstock.cli.operations.options")
    table = lazy_import("penstock.client.operations")

__all__ = ["example_of"]

_EXAMPLES: Final = {
    "init": "shop",
    "dev": "",
    "run": "workflows/refund.yaml order_id=A-7 amount=20",
    "test": "workflows/refund.yaml",
    "validate": "workflows/refund.yaml",
    "serve": "--port 8080",
    "mcp install": "claude-code --write",
    "mcp doctor": "--url http://127.0.0.1:8080/mcp",
    "mcp tools": "--server http://127.0.0.1:8080",
    "mcp call": "refund_order order_id=A-7 amount=20",
    "eval": "cases.jsonl --against workflows/refund.yaml",
    "workflow create": "--file workflows/refund.yaml",
    "workflow update": "refund_order --file workflows/refund.yaml",
    "workflow validate": "--file workflows/refund.yaml",
    "workflow export": "--prefix refund --json",
    "workflow import": "--workflows @workflows.json",
    "workflow start": 'refund_order --input \'{"order_id": "A-7", "amount": 20}\'',
    "workflow runs": "refund_order --status failed",
    "workflow draw": "workflows/refund.yaml --output refund.svg",
    "workflow diff": "refund.before.yaml workflows/refund.yaml",
    "workflow test": "refund_order",
    "workflow simulate": "workflows/refund.yaml --input @order.json --mock 'look_up={\"total\": 20}'",
    "workflow sign": "workflows/refund.yaml --key team.pem",
    "workflow verify-signature": "workflows/refund.yaml --trusted team.pem.pub",
    "workflow json-schema": "--format native",
    "workflow task create": 'refund_order --task \'{"id": "note", "type": "wait", "for": "1h"}\' --after look_up',
    "workflow task execute": '--workflow-id refund_order --task-id look_up --input \'{"order_id": "A-7"}\'',
    "workflow control workflow-start": '--definition @published.json --input \'{"order_id": "A-7"}\'',
    "workflow control workflow-status": "--execution-id refund-1",
    "workflow control workflow-resume": "--execution-id refund-1 --resume-payload '{\"approved\": true}'",
    "workflow control workflow-submit-activity": "--execution-id refund-1 --node-id pay --outcome @outcome.json",
    "workflow control workflow-signal": "--execution-id refund-1 --signal-name go_ahead",
    "workflow control workflow-cancel": "--execution-id refund-1 --reason 'sent twice'",
    "workflow control workflow-list": "--limit 20",
    "agent create": "--id support --model fast --instructions 'Answer questions about orders.'",
    "agent update": "support --model careful",
    "agent cards": "--agent-id support",
    "agent chat": "support",
    "agent model create": "--id fast --provider anthropic --model claude-haiku-4-5 --api-key-secret anthropic",
    "graph create": '--id customers --schema "$(cat customers.pg)"',
    "graph update": "customers --title 'Customers and orders'",
    "graph load": "customers people.ndjson --branch import",
    "graph export": "customers --out customers.ndjson",
    "graph changes": "customers --branch main",
    "graph mutate": 'customers --query "$(cat fix.gq)"',
    "graph branch create": "customers --name import",
    "graph branch delete": "customers import",
    "graph schema apply": 'customers --schema "$(cat customers.pg)" --dry-run',
    "graph schema check": "customers.pg",
    "graph query put": "customers by_name --file by_name.gq",
    "graph query run": 'customers by_name --params \'{"name": "Ada"}\'',
    "graph query validate": "queries/by_name.gq --schema customers.pg",
    "graph query format": "queries",
    "graph query test": "queries/by_name.tests.yaml",
    "graph query adhoc": 'customers --query "$(cat by_name.gq)"',
    "tool create": "--id crm.find --kind mcp --tool-server crm --name find",
    "tool call": 'crm.find --arguments \'{"name": "Ada"}\'',
    "tool import openapi": "shop-api.yaml --operations 'get*' --preview",
    "tool upstream sign-in": "crm",
    "runs list": "--status failed --since 1h",
    "runs show": "refund-1",
    "runs history": "refund-1",
    "runs query": "refund-1 .state",
    "runs watch": "refund-1",
    "runs answer": "refund-1 approved=true",
    "runs signal": 'refund-1 go_ahead \'{"by": "Ada"}\'',
    "runs lease": "refund-1 pay",
    "runs submit": "refund-1 pay '{\"paid\": true}'",
    "runs pause": "refund-1",
    "runs resume": "refund-1",
    "runs cancel": "refund-1 --reason 'sent twice'",
    "runs retry": "refund-1 --node pay",
    "runs fork": "refund-1 --at 12",
    "runs top": "",
    "runs update": 'refund-1 --name change_address --payload \'{"city": "Bern"}\'',
    "approval approve": "draft-1 --note 'checked with Ada'",
    "approval reject": "draft-1 --note 'wrong order'",
    "approval drafts": "--status pending",
    "approval list": "--mine",
    "approval preflight": '--operation workflow.delete --arguments \'{"workflow_id": "refund_order"}\'',
    "approval grant create": "--principal agent:support --capabilities workflow.execute --expires-in 8h",
    "schedule create": "--workflow-id daily_report --cron '0 7 * * *' --timezone Europe/Berlin",
    "schedule update": "nightly --cron '0 6 * * *'",
    "webhook create": "--url https://example.com/hooks --events execution.failed",
    "policy check": "policies",
    "policy explain": "workflow.delete --as agent:support",
    "policy test": "policies/cases.yaml",
    "policy diff": "policies new-policies cases.yaml",
    "policy replay": "policies --last 1000",
    "policy put": 'limits --text "$(cat policies/limits.cedar)"',
    "policy tools": "--principal agent:support",
    "key create": "--name ci --scopes workflow:read --scopes execution:read",
    "key quota set": "agent:support --runs-per-day 100",
    "key token revoke": "--issuer https://login.example.com --subject ada",
    "key token list-revoked": "--limit 20",
    "key sign-out": "--principal person:ada",
    "audit list": "--operation key.create --since 2026-01-01T00:00:00Z",
    "audit verify": "--against checkpoint.txt",
    "audit export": "--out trail.jsonl",
    "audit checkpoint": "",
    "audit key": "",
    "audit proof": "42",
    "audit hold": "--reason 'case 17' --principal person:ada",
    "audit redact": "--principal person:ada --fields details",
    "server worker": "--db penstock.db",
    "server backup": "penstock.backup.db",
    "server restore": "penstock.backup.db",
    "server check": "--db penstock.db",
    "server migrate": "--check",
    "server vacuum": "--db penstock.db",
    "server doctor": "",
    "server verify": "",
    "config show": "--origin",
    "config validate": "",
    "config schema": "",
    "config profile list": "",
    "config profile add": "prod --server https://penstock.example.com --key-env PROD_KEY --use",
    "config profile remove": "prod",
    "config profile use": "prod",
}
# What an argument may be, by its name, or by the name of the operation's resource and its own.
_VALUES: Final = {
    "address": "http://127.0.0.1:8080",
    "agent_id": "support",
    "commit_id": "c42",
    "console_session_id": "cs-1",
    "cron": "0 7 * * *",
    "delivery.endpoint_id": "crm-hook",
    "delivery_id": "delivery-1",
    "digest": "sha256:9f2c",
    "draft_id": "draft-1",
    "endpoint_id": "crm-hook",
    "execution_id": "refund-1",
    "from_size": "100",
    "grant_id": "grant-1",
    "graph.name": "by_name",
    "graph.source": "import",
    "graph_id": "customers",
    "hold_id": "hold-1",
    "keep_days": "90",
    "key": "favourite_color",
    "key_id": "key-1",
    "memory.scope": "agent",
    "message": "Where is order A-7?",
    "model.id": "fast",
    "model.model": "claude-haiku-4-5",
    "model_id": "fast",
    "notification_id": "done",
    "policy_id": "limits",
    "prompt": "Summarize the orders of today.",
    "provider": "anthropic",
    "quota.subject": "agent:support",
    "reason": "it may delete customers",
    "redirect_uri": "http://127.0.0.1:8765/callback",
    "revocation_id": "revocation-1",
    "schedule_id": "nightly",
    "schema.id": "order",
    "schema.schema": "@order.schema.json",
    "schema_id": "order",
    "server": "crm",
    "session_id": "session-1",
    "state": "state-from-the-callback",
    "task": "@task.yaml",
    "task_id": "look_up",
    "text": "colors",
    "tool": "find",
    "tool.kind": "mcp",
    "tool_id": "crm.find",
    "tools": "find",
    "url": "https://example.com/hooks",
    "value": '"green"',
    "version": "1",
    "workflow_id": "refund_order",
}
_VALUES_BY_KIND: Final = {"integer": "1", "number": "1", "object": "{}", "any": "{}", "map": "name=value"}
_DOCUMENT: Final = "workflows/refund.yaml"


def example_of(path: str, row: LazyCommand) -> str:
    """A command line that uses a command; `path` has its words after `penstock`."""
    arguments = _EXAMPLES.get(path)
    if arguments is None:
        arguments = "" if row.argument is None else shlex.join(_required_words(table.find_operation(row.argument)))
    return f"penstock {path} {arguments}".rstrip()


def _required_words(operation: table.Operation) -> Iterator[str]:
    """The words for the arguments that an operation needs: those in its path first, as they are positional."""
    yield from (_value(operation, item) for item in operation.parameters if item.place == "path")
    for item in operation.parameters:
        if item.required and item.place != "path":
            option = options.option_of(operation, item)
            if item.kind == "boolean":
                yield option
            else:
                yield from (option, _DOCUMENT if options.is_document(operation, item) else _value(operation, item))


def _value(operation: table.Operation, parameter: table.Parameter) -> str:
    for name in (f"{operation.resource}.{parameter.name}", parameter.name):
        if name in _VALUES:
            return _VALUES[name]
    return parameter.choices[0] if parameter.choices else _VALUES_BY_KIND.get(parameter.kind, parameter.name)
