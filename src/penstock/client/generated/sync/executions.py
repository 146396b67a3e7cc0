"""Operations on execution, typed. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from penstock.client.caller import Caller
from penstock.client.events import StreamEvent
from penstock.client.generated.views.execution import (
    ActivityView,
    ExecutionHandle,
    ExecutionPage,
    ExecutionReports,
    ExecutionResult,
    ExecutionSummary,
    ExecutionView,
    HistoryPage,
    QueryAnswer,
    RecordView,
    RunDrawing,
    Timeline,
    UpdateAnswer,
)
from penstock.client.generated.views.shared import Deleted

__all__ = ["Executions"]


class Executions:
    """Operations on execution."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def list(
        self,
        *,
        status: str | Sequence[str] | None = None,
        workflow_id: str | None = None,
        started_by: str | None = None,
        label: str | None = None,
        created_after: str | None = None,
        created_before: str | None = None,
        updated_after: str | None = None,
        parent_id: str | None = None,
        text: str | None = None,
        order: Literal["created", "updated"] | None = None,
        count: bool | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> ExecutionPage:
        """List runs.

        Newest first unless `order` says otherwise, without inputs and outputs. Filter by status, workflow, starter,
        label or time to find runs that failed or wait for somebody; then look at one with execution.status. Agents
        get the `total` of one workflow only.
        """
        return self._caller.invoke(
            "execution.list",
            {
                "status": status,
                "workflow_id": workflow_id,
                "started_by": started_by,
                "label": label,
                "created_after": created_after,
                "created_before": created_before,
                "updated_after": updated_after,
                "parent_id": parent_id,
                "text": text,
                "order": order,
                "count": count,
                "limit": limit,
                "cursor": cursor,
            },
            ExecutionPage,
        )

    def list_all(
        self,
        *,
        status: str | Sequence[str] | None = None,
        workflow_id: str | None = None,
        started_by: str | None = None,
        label: str | None = None,
        created_after: str | None = None,
        created_before: str | None = None,
        updated_after: str | None = None,
        parent_id: str | None = None,
        text: str | None = None,
        order: Literal["created", "updated"] | None = None,
        count: bool | None = None,
        limit: int | None = None,
    ) -> Iterator[ExecutionSummary]:
        """List runs: all of them; `limit` is the size of a page."""
        for page in self._caller.pages(
            "execution.list",
            {
                "status": status,
                "workflow_id": workflow_id,
                "started_by": started_by,
                "label": label,
                "created_after": created_after,
                "created_before": created_before,
                "updated_after": updated_after,
                "parent_id": parent_id,
                "text": text,
                "order": order,
                "count": count,
                "limit": limit,
            },
            ExecutionPage,
        ):
            yield from page.items

    def status(self, execution_id: str) -> ExecutionView:
        """Get a run.

        Returns status, input, output or error, state, the status of each node, and everything that the run waits
        for: questions to answer with execution.answer, activities to submit, signals, timers and child runs. To
        wait for a change, use execution.wait.
        """
        return self._caller.invoke("execution.status", {"execution_id": execution_id}, ExecutionView)

    def history(
        self,
        execution_id: str,
        *,
        after: int | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        wait_seconds: float | None = None,
    ) -> HistoryPage:
        """Read the history of a run.

        Returns every decision and every event, oldest first, with its sequence number. Pass one of them to
        execution.fork to start from there. To follow a run, ask again for what comes `after` the last one, with
        `wait_seconds`, until it has `ended`.
        """
        return self._caller.invoke(
            "execution.history",
            {
                "execution_id": execution_id,
                "after": after,
                "limit": limit,
                "cursor": cursor,
                "wait_seconds": wait_seconds,
            },
            HistoryPage,
        )

    def history_all(
        self,
        execution_id: str,
        *,
        after: int | None = None,
        limit: int | None = None,
        wait_seconds: float | None = None,
    ) -> Iterator[RecordView]:
        """Read the history of a run: all of them; `limit` is the size of a page."""
        for page in self._caller.pages(
            "execution.history",
            {"execution_id": execution_id, "after": after, "limit": limit, "wait_seconds": wait_seconds},
            HistoryPage,
        ):
            yield from page.items

    def query(self, execution_id: str, *, expression: str) -> QueryAnswer:
        """Query the data of a run.

        Evaluates a jq expression on the run as it is now, or as it was when it ended. Changes nothing.
        """
        return self._caller.invoke(
            "execution.query", {"execution_id": execution_id, "expression": expression}, QueryAnswer
        )

    def wait(
        self, execution_id: str, *, wait_seconds: float | None = None, after_sequence: int | None = None
    ) -> ExecutionResult:
        """Wait for a run.

        Returns as soon as the run has ended or asks a question, or when the time is up; `status` says which. Use it
        instead of polling the status, and call it again if the run continues.
        """
        return self._caller.invoke(
            "execution.wait",
            {"execution_id": execution_id, "wait_seconds": wait_seconds, "after_sequence": after_sequence},
            ExecutionResult,
        )

    def pause(
        self, execution_id: str, *, reason: str | None = None, idempotency_key: str | None = None
    ) -> ExecutionHandle:
        """Pause a run.

        It makes no new moves until execution.resume. Results that arrive meanwhile are kept, and its timers wait.
        """
        return self._caller.invoke(
            "execution.pause",
            {"execution_id": execution_id, "reason": reason},
            ExecutionHandle,
            idempotency_key=idempotency_key,
        )

    def resume(self, execution_id: str, *, idempotency_key: str | None = None) -> ExecutionHandle:
        """Resume a paused run.

        It continues where it was. To answer a question that a run waits for, call execution.answer instead.
        """
        return self._caller.invoke(
            "execution.resume", {"execution_id": execution_id}, ExecutionHandle, idempotency_key=idempotency_key
        )

    def cancel(
        self, execution_id: str, *, reason: str | None = None, idempotency_key: str | None = None
    ) -> ExecutionHandle:
        """Cancel a run.

        Stops its work and its child runs. The steps that the workflow declares for undoing run first, so the status
        may be `cancelling` for a while.
        """
        return self._caller.invoke(
            "execution.cancel",
            {"execution_id": execution_id, "reason": reason},
            ExecutionHandle,
            idempotency_key=idempotency_key,
        )

    def retry(
        self,
        execution_id: str,
        *,
        node_id: str | None = None,
        visit: int | None = None,
        new_execution_id: str | None = None,
        note: str | None = None,
        idempotency_key: str | None = None,
    ) -> ExecutionHandle:
        """Retry what failed.

        A failed run stays as it is: a new run is forked from just before the failure, continues from there, and is
        returned. An activity that must not happen twice waits for a decision if its process died: retry repeats it
        in its own run, and execution.submit_activity reports its outcome instead.
        """
        return self._caller.invoke(
            "execution.retry",
            {
                "execution_id": execution_id,
                "node_id": node_id,
                "visit": visit,
                "new_execution_id": new_execution_id,
                "note": note,
            },
            ExecutionHandle,
            idempotency_key=idempotency_key,
        )

    def fork(
        self,
        execution_id: str,
        *,
        at_sequence: int,
        new_execution_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> ExecutionHandle:
        """Start a new run from the middle of another.

        Everything up to a record of the history counts as done; the new run continues from there. Use it to repeat
        the part of a failed run that went wrong. The original stays as it is.
        """
        return self._caller.invoke(
            "execution.fork",
            {"execution_id": execution_id, "at_sequence": at_sequence, "new_execution_id": new_execution_id},
            ExecutionHandle,
            idempotency_key=idempotency_key,
        )

    def delete(self, execution_id: str, *, idempotency_key: str | None = None) -> Deleted:
        """Delete a run that has ended.

        Deletes its history and its child runs too. Cancel a run that has not ended first.
        """
        return self._caller.invoke(
            "execution.delete", {"execution_id": execution_id}, Deleted, idempotency_key=idempotency_key
        )

    def signal(
        self,
        execution_id: str,
        *,
        name: str,
        payload: Any = None,
        signal_id: str | None = None,
        note: str | None = None,
        idempotency_key: str | None = None,
    ) -> ExecutionHandle:
        """Send a signal to a run.

        A node that waits for a signal of this name takes it; otherwise the run keeps it until one does. With the
        same `signal_id`, it counts once, however often you send it.
        """
        return self._caller.invoke(
            "execution.signal",
            {"execution_id": execution_id, "name": name, "payload": payload, "signal_id": signal_id, "note": note},
            ExecutionHandle,
            idempotency_key=idempotency_key,
        )

    def update(
        self,
        execution_id: str,
        *,
        name: str,
        payload: Any = None,
        signal_id: str | None = None,
        query: str | None = None,
        wait_seconds: float | None = None,
        idempotency_key: str | None = None,
    ) -> UpdateAnswer:
        """Send a signal and wait until a node takes it.

        Returns the result of `query` when a node has taken the signal. If no node takes it in time, `taken` is
        false, and the signal waits in the run as with execution.signal.
        """
        return self._caller.invoke(
            "execution.update",
            {
                "execution_id": execution_id,
                "name": name,
                "payload": payload,
                "signal_id": signal_id,
                "query": query,
                "wait_seconds": wait_seconds,
            },
            UpdateAnswer,
            idempotency_key=idempotency_key,
        )

    def answer(
        self,
        execution_id: str,
        *,
        answer: Any,
        node_id: str | None = None,
        visit: int | None = None,
        interrupt_id: str | None = None,
        note: str | None = None,
        idempotency_key: str | None = None,
    ) -> ExecutionHandle:
        """Answer a question of a run.

        See `waiting_for.questions` of execution.status for the prompt and the schema of the answer. If several
        questions are open, name the node, its visit or the interrupt id. The first answer that fits is taken.
        People answer: a model may only where a question says `answered_by: anyone`, and where `approvers` are
        named, only they may.
        """
        return self._caller.invoke(
            "execution.answer",
            {
                "execution_id": execution_id,
                "answer": answer,
                "node_id": node_id,
                "visit": visit,
                "interrupt_id": interrupt_id,
                "note": note,
            },
            ExecutionHandle,
            idempotency_key=idempotency_key,
        )

    def submit_activity(
        self,
        execution_id: str,
        node_id: str,
        *,
        ok: bool,
        result: Any = None,
        error: str | None = None,
        code: str | None = None,
        visit: int | None = None,
        attempt: int | None = None,
        holder: str | None = None,
        idempotency_key: str | None = None,
    ) -> ExecutionHandle:
        """Report the outcome of an activity.

        For activities that are performed outside the server (`waiting_for.activities` of execution.status lists
        them), and for activities whose outcome is unknown. A result that does not fit the node's schema counts as a
        failed attempt. What a model or agent used counts toward the limits of the run and of all runs above it;
        beyond them, the activity fails.
        """
        return self._caller.invoke(
            "execution.submit_activity",
            {
                "execution_id": execution_id,
                "node_id": node_id,
                "ok": ok,
                "result": result,
                "error": error,
                "code": code,
                "visit": visit,
                "attempt": attempt,
                "holder": holder,
            },
            ExecutionHandle,
            idempotency_key=idempotency_key,
        )

    def lease_activity(
        self,
        execution_id: str,
        node_id: str,
        *,
        seconds: float,
        visit: int | None = None,
        extend: bool | None = None,
        holder: str | None = None,
        idempotency_key: str | None = None,
    ) -> ActivityView:
        """Lease an activity for a while.

        For several workers that perform the activities of one run: while one holds the lease, no other gets the
        activity. Extend the lease while you work, then call execution.submit_activity.
        """
        return self._caller.invoke(
            "execution.lease_activity",
            {
                "execution_id": execution_id,
                "node_id": node_id,
                "seconds": seconds,
                "visit": visit,
                "extend": extend,
                "holder": holder,
            },
            ActivityView,
            idempotency_key=idempotency_key,
        )

    def stream(
        self,
        execution_id: str,
        *,
        events: str | None = None,
        after: int | None = None,
        last_event_id: str | None = None,
    ) -> Iterator[StreamEvent]:
        """Follow a run.

        Streams events of type status, node, output, error and complete, from the start or after a sequence number;
        `complete` is the last. A reader that was disconnected sends the id of the last event it got, and misses
        nothing. For an agent, `turn` is what its model said, `tool` a call that begins or ends, and `delta` what
        the model is writing now.
        """
        return self._caller.events(
            "execution.stream",
            {"execution_id": execution_id, "events": events, "after": after, "last_event_id": last_event_id},
        )

    def changes(self, *, last_event_id: str | None = None) -> Iterator[StreamEvent]:
        """Follow which runs change.

        Streams `changed` events with the ids of runs that moved, at most ten a second; `many` says that there were
        more than the event names. The stream starts with the changes of the last minute. Read the runs to see their
        present state.
        """
        return self._caller.events("execution.changes", {"last_event_id": last_event_id})

    def drawing(self, execution_id: str) -> RunDrawing:
        """Draw a run.

        Returns the workflow as SVG: each node is a link to `#node-ID`, with its status as a class. It has no style
        sheet. Very large workflows are not drawn.
        """
        return self._caller.invoke("execution.drawing", {"execution_id": execution_id}, RunDrawing)

    def timeline(self, execution_id: str, *, at: str | None = None) -> Timeline:
        """Show the visits of a run over time.

        Returns a lane for each node with a bar for each visit: when it began and ended, how often it was tried, and
        the records in the history that say so. Where there are very many visits, one bar covers several in a row.
        `decisions` says who decided what, and when.
        """
        return self._caller.invoke("execution.timeline", {"execution_id": execution_id, "at": at}, Timeline)

    def progress(self, execution_id: str) -> ExecutionReports:
        """Show what the activities of a run report.

        Returns how far each attempt is, the last lines of its log, and log messages that MCP servers sent during
        calls of their tools. The process that performs the run keeps them in memory, for the runs that reported
        last. Nothing is stored, and secrets are masked.
        """
        return self._caller.invoke("execution.progress", {"execution_id": execution_id}, ExecutionReports)
