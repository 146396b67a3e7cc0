"""Operations on control, awaited. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from typing import Any

from penstock.client.caller import AsyncCaller

__all__ = ["AsyncControl"]


class AsyncControl:
    """Operations on control."""

    def __init__(self, caller: AsyncCaller) -> None:
        self._caller = caller

    async def workflow_start(
        self,
        *,
        definition: Any = None,
        input: Any = None,
        execution_id: Any = None,
        activity_execution_mode: Any = None,
        allow_existing_execution_id: Any = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Start a run of a definition that you send (workflow profile).

        Follows the run until it waits for input or ends. To start a stored workflow, call workflow.execute.
        """
        return await self._caller.invoke(
            "control.workflow_start",
            {
                "definition": definition,
                "input": input,
                "execution_id": execution_id,
                "activity_execution_mode": activity_execution_mode,
                "allow_existing_execution_id": allow_existing_execution_id,
            },
            dict[str, Any],
            idempotency_key=idempotency_key,
        )

    async def workflow_status(self, *, execution_id: Any = None) -> dict[str, Any]:
        """Show what a run is doing (workflow profile).

        Returns the phase, the current node, the state and what the run waits for, in the published terms;
        execution.status says more.
        """
        return await self._caller.invoke("control.workflow_status", {"execution_id": execution_id}, dict[str, Any])

    async def workflow_resume(
        self,
        *,
        execution_id: Any = None,
        definition: Any = None,
        resume_payload: Any = None,
        node_id: Any = None,
        interrupt_id: Any = None,
        activity_execution_mode: Any = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Answer the open question of a run (workflow profile).

        Follows the run until it waits for input or ends.
        """
        return await self._caller.invoke(
            "control.workflow_resume",
            {
                "execution_id": execution_id,
                "definition": definition,
                "resume_payload": resume_payload,
                "node_id": node_id,
                "interrupt_id": interrupt_id,
                "activity_execution_mode": activity_execution_mode,
            },
            dict[str, Any],
            idempotency_key=idempotency_key,
        )

    async def workflow_submit_activity(
        self,
        *,
        execution_id: Any = None,
        definition: Any = None,
        input: Any = None,
        node_id: Any = None,
        outcome: Any = None,
        parallel_span: Any = None,
        visit: Any = None,
        attempt: Any = None,
        activity_execution_mode: Any = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Report the outcome of an activity (workflow profile).

        Follows the run until it waits for input or ends.
        """
        return await self._caller.invoke(
            "control.workflow_submit_activity",
            {
                "execution_id": execution_id,
                "definition": definition,
                "input": input,
                "node_id": node_id,
                "outcome": outcome,
                "parallel_span": parallel_span,
                "visit": visit,
                "attempt": attempt,
                "activity_execution_mode": activity_execution_mode,
            },
            dict[str, Any],
            idempotency_key=idempotency_key,
        )

    async def workflow_signal(
        self,
        *,
        execution_id: Any = None,
        definition: Any = None,
        input: Any = None,
        signal_name: Any = None,
        payload: Any = None,
        signal_id: Any = None,
        activity_execution_mode: Any = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Send a signal to a run (workflow profile).

        Follows the run until it waits for input or ends.
        """
        return await self._caller.invoke(
            "control.workflow_signal",
            {
                "execution_id": execution_id,
                "definition": definition,
                "input": input,
                "signal_name": signal_name,
                "payload": payload,
                "signal_id": signal_id,
                "activity_execution_mode": activity_execution_mode,
            },
            dict[str, Any],
            idempotency_key=idempotency_key,
        )

    async def workflow_cancel(
        self, *, execution_id: Any = None, reason: Any = None, idempotency_key: str | None = None
    ) -> dict[str, Any]:
        """Cancel a run and its children (workflow profile)."""
        return await self._caller.invoke(
            "control.workflow_cancel",
            {"execution_id": execution_id, "reason": reason},
            dict[str, Any],
            idempotency_key=idempotency_key,
        )

    async def workflow_list(
        self,
        *,
        phase: Any = None,
        definition_name: Any = None,
        updated_after: Any = None,
        updated_before: Any = None,
        limit: Any = None,
        cursor: Any = None,
    ) -> dict[str, Any]:
        """List runs (workflow profile).

        Newest first, by phase, name and time; execution.list offers more.
        """
        return await self._caller.invoke(
            "control.workflow_list",
            {
                "phase": phase,
                "definition_name": definition_name,
                "updated_after": updated_after,
                "updated_before": updated_before,
                "limit": limit,
                "cursor": cursor,
            },
            dict[str, Any],
        )
