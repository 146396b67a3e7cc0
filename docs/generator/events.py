"""The page about events: what streams and webhooks send, read from the tables that define it.

A new type of event needs a line in `STREAM_EVENTS` or `WEBHOOK_EVENTS` here; a test compares them with the source.
"""

from collections.abc import Iterator, Mapping

from docs.generator.markdown import code, page, prose, table
from penstock.base import limits
from penstock.engine.visits.changes import CHANGES
from penstock.operations.runs.events import NODE_PHASES
from penstock.runtime.webhooks.events import ENDINGS, TEST_EVENT

__all__ = ["CLOSED_EVENT", "STREAM_EVENTS", "WEBHOOK_EVENTS", "events_page"]

CLOSED_EVENT = "closed"
STREAM_EVENTS: Mapping[str, tuple[str, str]] = {
    "status": ("The status of the execution changed, and it has come to rest there.", "status"),
    "node": (
        "Something happened to a node; `phase` says what.",
        "node_id, phase, visit; also attempt, type, error_code, error, will_retry, until, prompt, answer_schema, "
        "interrupt_id, signal, child_execution_id where they apply",
    ),
    "turn": (
        "A model has said something; it is recorded. `tool_calls` is how many tools it calls.",
        "node_id, visit, text, tool_calls",
    ),
    "tool": (
        "A call of a tool that a model made: `phase` is begun, done or failed.",
        "phase, call_id, name; arguments (or arguments_left_out, if they are long) when it begins; error_code, error",
    ),
    "output": ("The execution completed; this is what it gave.", "output"),
    "error": ("The execution failed; this is why.", "code, message, node_id"),
    "complete": (
        "The execution has ended. The last event of a stream.",
        "status; reason or continued_as if there is one",
    ),
    "progress": (
        "A step says how far it is. Live only: it has no id, and is not repeated.",
        "node_id, visit, attempt; value, message, details as the step gave them",
    ),
    "delta": (
        "A piece of the text that a model is writing; at offset 0 the text begins anew. Live only, as progress is.",
        "node_id, visit, attempt, text, offset",
    ),
    CLOSED_EVENT: (
        "The stream ends before its execution does: the key was revoked, or the execution deleted. It has no id.",
        "code, message",
    ),
}
WEBHOOK_EVENTS: Mapping[str, str] = {
    "run.started": "An execution was started.",
    "run.waiting": "An execution waits: for an answer, a signal, or a decision about an activity of unknown outcome.",
    "run.paused": "An execution was paused.",
    "run.resumed": "A paused execution goes on.",
    "run.completed": "An execution completed.",
    "run.failed": "An execution failed; `error` says why.",
    "run.cancelled": "An execution was cancelled.",
    "run.continued": "An execution ended and goes on as a new one, `continued_as`.",
}


def events_page() -> str:
    """Every event."""
    source = "`operations/runs/events.py` and `runtime/webhooks/events.py`"
    return page("Events", source, _parts())


def _parts() -> Iterator[str]:
    yield "The events that a server sends: in the stream of a run, and to webhooks."
    yield "## Streams"
    yield (
        "`GET /api/v0/executions/{execution_id}/stream` follows an execution with server-sent events, from the "
        "beginning or from where the reader was: the id of an event is the sequence number of its record, and a reader "
        "that was cut off sends the last one as `Last-Event-ID`. Of several events of one record only the last has the "
        "id, so nothing is lost; the Python client drops what comes twice. While nothing happens, a comment is sent "
        f"every {limits.STREAM_HEARTBEAT_SECONDS:g} seconds. `events=status,complete` chooses types."
    )
    rows = [[code(name), prose(meaning), prose(members)] for name, (meaning, members) in STREAM_EVENTS.items()]
    yield table(["Event", "Meaning", "Members beside `execution_id`, `sequence` and `at`"], rows)
    yield "### Phases of a node"
    records = {change: kind.__name__ for kind, change in CHANGES.items()}
    yield table(
        ["Phase", "Record of the history"],
        [[code(phase), code(records[change])] for change, phase in NODE_PHASES.items()],
    )
    yield "## Webhooks"
    yield (
        "Sent as CloudEvents 1.0 to the addresses that `webhook.create` registers; the [guide](../guides/webhooks.md) "
        "tells how they are signed and repeated. The `type` on the wire has `penstock.` in front. Without a choice of "
        f"its own an address gets {', '.join(map(code, ENDINGS))}; {code(TEST_EVENT)} is sent by `webhook.test` only."
    )
    rows = [[code(name), prose(meaning)] for name, meaning in WEBHOOK_EVENTS.items()]
    yield table(["Event", "Meaning"], rows)
