"""Codes of workflows, their tasks and schedules, and of calls that wait for approval.

Above it: `reasons`. Below it: `base.errors`.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.base.errors import Conflict, Denied, LimitExceeded, NotFound, Reason, Rejected, Unavailable

__all__ = ["APPROVALS", "SCHEDULES", "WORKFLOWS"]

WORKFLOWS: Mapping[str, Reason] = {
    "INVALID_DOCUMENT": Reason(
        Rejected,
        "The workflow document has mistakes; `findings` lists all of them.",
        "Correct them, and check the document with `workflow.validate`.",
    ),
    "DOCUMENT_TOO_COSTLY": Reason(
        Rejected,
        "Checking the document takes more time or memory than is allowed.",
        "Split the workflow, or simplify its schemas and expressions.",
    ),
    "SCHEMA_TOO_COSTLY": Reason(
        Rejected,
        "Checking a value against its JSON Schema takes too many steps.",
        "Simplify the schema: fewer alternatives over shared references.",
    ),
    "SCHEMA_DEFAULTS_EXCEEDED": Reason(
        Rejected,
        "Filling in the schema's defaults makes the value too large.",
        "Send a smaller value, or nest fewer defaults in the schema.",
    ),
    "TEST_CASE_NOT_FOUND": Reason(
        NotFound, "The workflow has no test case with this name.", "Leave `case` out to run all test cases."
    ),
    "SIGNATURE_REQUIRED": Reason(
        Rejected,
        "The workflow is not signed, and this server accepts only signed workflows.",
        "Sign the file with `penstock workflow sign`, and store it again.",
    ),
    "SIGNATURE_INVALID": Reason(
        Rejected,
        "The workflow was changed after it was signed, or its signature is malformed.",
        "Sign the file again with `penstock workflow sign`.",
    ),
    "SIGNER_NOT_TRUSTED": Reason(
        Rejected,
        "The workflow is signed with a key that this server does not trust.",
        "Add the public key to `workflows.signatures.trusted_keys`, or sign with a trusted key.",
    ),
    "VERSION_PROPOSED": Reason(
        Denied,
        "An agent wrote this version, and it has no effect until a person accepts it.",
        "Approve its draft with `draft.approve`, or store the same version yourself.",
    ),
    "WORKFLOW_EXISTS": Reason(
        Conflict, "A workflow with this name exists.", "Change it with `workflow.update`, or choose another name."
    ),
    "WORKFLOW_NOT_FOUND": Reason(
        NotFound,
        "The workflow, or this version of it, does not exist.",
        "List the workflows with `workflow.list`, and versions with `workflow.versions`.",
    ),
    "WORKFLOW_NAME_DIFFERS": Reason(
        Rejected,
        "The document has another name than the workflow to change.",
        "Keep the name, or store the document with `workflow.create`.",
    ),
    "NAME_TAKEN": Reason(
        Conflict,
        "A tool, prompt, resource or webhook has a name that another workflow uses.",
        "Choose another name in `expose` or `triggers`.",
    ),
    "PACK_WORKFLOW_INVALID": Reason(
        Rejected,
        "A workflow sent over OpenWOP has mistakes, or is not a plain sequence.",
        "Correct the nodes that the message names.",
    ),
    "PACK_NODE_UNSUPPORTED": Reason(
        Rejected,
        "A workflow sent over OpenWOP has a node type that this server cannot run.",
        "Replace the node by one of the types that the message lists.",
    ),
    "PACK_PEER_DEPENDENCY_MISSING": Reason(
        Rejected,
        "A workflow sent over OpenWOP needs MCP, which this server does not serve.",
        "Set `server.mcp.enabled` and `server.openwop.mcp`.",
    ),
    "TASK_EXISTS": Reason(
        Conflict, "The workflow has a task with this id.", "Change it with `task.update`, or choose another id."
    ),
    "TASK_NOT_EXECUTABLE": Reason(
        Rejected,
        "A node of this type does no work on its own.",
        "Run the whole workflow with `workflow.execute`.",
    ),
    "TASK_NOT_FOUND": Reason(NotFound, "The workflow has no such task.", "List the tasks with `task.list`."),
    "TASK_ID_DIFFERS": Reason(
        Rejected,
        "The task has another id than the one to change.",
        "Keep the id, or add the task with `task.create`.",
    ),
}

SCHEDULES: Mapping[str, Reason] = {
    "SCHEDULE_NOT_FOUND": Reason(NotFound, "The schedule does not exist.", "List the schedules with `schedule.list`."),
    "SCHEDULE_EXISTS": Reason(
        Conflict, "A schedule with this id exists.", "Change it with `schedule.update`, or choose another id."
    ),
    "SCHEDULE_ID_TAKEN": Reason(
        Conflict,
        "A workflow's trigger and a stored schedule have the same id.",
        "Give one of them another id.",
    ),
    "SCHEDULE_INVALID": Reason(
        Rejected,
        "The schedule's cron expression, time zone or duration is wrong.",
        "Write five cron fields and a zone such as `Europe/Berlin`; `schedule.preview` shows the next times.",
    ),
    "SCHEDULE_OF_DOCUMENT": Reason(
        Conflict,
        "The schedule is part of a workflow document, so it is changed there.",
        "Change `triggers` of the workflow; `schedule.pause` works here too.",
    ),
    "SCHEDULE_NOT_STARTED": Reason(
        Conflict,
        "The schedule's rules do not allow a run to start now.",
        "Wait for the previous run, cancel it with `execution.cancel`, or change `overlap`.",
    ),
    "SECRET_INPUT_NOT_KEPT": Reason(
        Rejected,
        "The input contains a secret, and it would be stored as plain text for later starts.",
        "Leave the secret out of the input, and declare it under `secrets` of the workflow.",
    ),
    "SCHEDULES_LIMITED": Reason(
        LimitExceeded,
        "The tenant has as many schedules as it may have.",
        "Delete one with `schedule.delete`.",
    ),
}

APPROVALS: Mapping[str, Reason] = {
    "DRAFT_NOT_FOUND": Reason(NotFound, "The draft does not exist.", "List the drafts with `draft.list`."),
    "DRAFT_FINAL": Reason(
        Conflict,
        "The draft is already decided, or has expired.",
        "Look at it with `draft.get`, and propose the call again with `draft.propose`.",
    ),
    "DRAFT_NOT_FINAL": Reason(
        Conflict,
        "The draft is not decided yet, or its call was already made.",
        "Decide it with `draft.approve` or `draft.reject` first.",
    ),
    "DRAFT_FAILED": Reason(
        Conflict,
        "The draft was approved, but its call failed or was refused when it was made.",
        "Look at the error with `draft.get`, and propose the call again with `draft.propose`.",
    ),
    "DRAFT_NOT_YOURS": Reason(
        Denied, "Another caller proposed the draft.", "Ask the proposer, or propose the call yourself."
    ),
    "DRAFT_DRIFTED": Reason(
        Conflict,
        "What the call would change or reach is different from what was approved, so it was not made.",
        "Propose the call again with `draft.propose`.",
    ),
    "WITNESS_MISMATCH": Reason(
        Conflict,
        "The state changed after the caller looked at it.",
        "Read the state again, and send its new hash.",
    ),
    "WITNESS_UNSUPPORTED": Reason(
        Conflict, "The operation has no state whose hash could be compared.", "Leave the witness hash out."
    ),
    "REACH_TOO_LARGE": Reason(
        Rejected,
        "The call can reach more tools and workflows than one approval can cover.",
        "Name what the workflow uses, instead of `*` or a computed name.",
    ),
    "DIGEST_MISMATCH": Reason(
        Rejected,
        "The digest does not match the call.",
        "Read the draft again with `draft.get`, and send its digest.",
    ),
    "APPROVAL_EXPIRED": Reason(Conflict, "The approval came too late.", "Propose the call again with `draft.propose`."),
    "ALREADY_VOTED": Reason(
        Conflict,
        "You have voted already, and several people must agree.",
        "Ask another approver to vote.",
    ),
    "VOTES_DIFFER": Reason(
        Conflict,
        "The earlier votes are for another answer.",
        "Give the same answer as the earlier votes, or decline.",
    ),
    "HELD_CALL_FIXED": Reason(
        Conflict,
        "A call that waits for approval cannot be forked or settled this way.",
        "Propose the call again with `draft.propose`.",
    ),
    "HELD_CALL_UNWANTED": Reason(
        Conflict,
        "The run that made the held call no longer waits for it.",
        "Start the run again if you still want the call.",
    ),
    "PREFLIGHT_NOT_FOUND": Reason(
        Rejected,
        "The preflight does not exist: it was used, has expired, or belongs to another caller.",
        "Run a new one with `preflight.run`.",
    ),
    "PREFLIGHT_MISMATCH": Reason(
        Rejected,
        "The preflight belongs to another call, or the state changed since.",
        "Run a new preflight for this call with `preflight.run`.",
    ),
    "PREFLIGHT_UNSUPPORTED": Reason(
        Rejected,
        "The operation decides held calls, so it has no preflight.",
        "Call the operation directly, without a preflight.",
    ),
    "PREFLIGHT_NOT_NEEDED": Reason(
        Rejected, "The operation changes nothing, so it has no preflight.", "Call the operation directly."
    ),
    "GRANT_NOT_FOUND": Reason(NotFound, "The grant does not exist.", "List the grants with `grant.list`."),
    "TOO_MANY_GRANTS": Reason(
        LimitExceeded,
        "The tenant has as many grants as it may have.",
        "Delete an expired grant with `grant.delete`.",
    ),
    "FOREIGN_FORM": Reason(
        Denied,
        "The form was not sent from a page of this server.",
        "Open the page again, and send the form from there.",
    ),
    "GATE_CLOSED": Reason(
        Unavailable,
        "No process that may start this child run is open.",
        "Start the server with `penstock serve`; the child run then starts by itself.",
    ),
}
