"""Codes of runs: their life, questions, activities, streams, histories, and the published control plane.

Above it: `reasons`. Below it: `base.errors`.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.base.errors import Conflict, CorruptHistory, Denied, NotFound, Reason, Rejected, Unavailable

__all__ = ["ACTIVITIES", "CONTROL_PLANE", "HISTORIES", "QUESTIONS", "RUNS"]

RUNS: Mapping[str, Reason] = {
    "EXECUTION_NOT_FOUND": Reason(
        NotFound, "The run does not exist, or was deleted.", "List the runs with `execution.list`."
    ),
    "EXECUTION_ID_TAKEN": Reason(
        Conflict,
        "Another run has this id, with another workflow, input or origin.",
        "Choose another `execution_id`, or leave it out.",
    ),
    "EXECUTION_NOT_ENDED": Reason(
        Conflict,
        "The run has not ended, or another run needs it.",
        "Cancel it with `execution.cancel` first, or delete its parent.",
    ),
    "INPUT_INVALID": Reason(
        Rejected,
        "The input does not match the workflow's schema; the answer lists every violation.",
        "Correct the input; `workflow.get` shows the schema.",
    ),
    "DURATION_INVALID": Reason(
        Rejected, "The text is not a duration.", "Write a number with a unit, such as `30s`, `5m` or `1h30m`."
    ),
    "LABEL_RESERVED": Reason(
        Rejected,
        "The label's name is reserved for the server.",
        "Choose a name that does not begin with `penstock.`.",
    ),
    "PAUSE_NOT_ALLOWED": Reason(
        Conflict, "The run is already paused.", "Resume it with `execution.resume`, or leave it paused."
    ),
    "RESUME_NOT_ALLOWED": Reason(Conflict, "The run is not paused.", "Look at its status with `execution.status`."),
    "CANCEL_NOT_ALLOWED": Reason(
        Conflict,
        "The run has ended, or is already being cancelled.",
        "Look at its status with `execution.status`.",
    ),
    "RUN_ENDED": Reason(
        Conflict,
        "The run has ended, so nothing can change it.",
        "Start a new run with `workflow.execute`, or fork this one with `execution.fork`.",
    ),
    "SIGNAL_NOT_AWAITING": Reason(
        Conflict,
        "The run has ended, so it takes no signals.",
        "Start a new run with `workflow.execute`, and send the signal to it.",
    ),
    "SIGNAL_LIMIT_EXCEEDED": Reason(
        Conflict,
        "The run has too many signals that it has not read yet.",
        "Wait until the run has read some of them.",
    ),
    "FORK_POINT_INVALID": Reason(
        Rejected,
        "The history has no record with this number.",
        "Choose a record number that `execution.history` lists.",
    ),
    "RETRY_NOT_ALLOWED": Reason(
        Conflict,
        "Nothing failed that could be retried, or later steps build on the failure.",
        "Start a new run with `workflow.execute`, or fork an earlier record with `execution.fork`.",
    ),
    "RETRY_AMBIGUOUS": Reason(
        Rejected,
        "Several activities have an unknown outcome, and the call does not choose one.",
        "Choose one with `node_id` and `visit`.",
    ),
    "JQ_INVALID": Reason(
        Rejected, "The jq expression does not compile.", "Correct the expression at the place that the message names."
    ),
    "JQ_FAILED": Reason(
        Rejected,
        "The jq expression failed on the run's data.",
        "Test for missing values, for example with `.a.b?` or `// null`.",
    ),
    "STREAM_EVENTS_UNKNOWN": Reason(
        Rejected, "Streams have no events of this type.", "Choose from the event types that the message lists."
    ),
    "STREAM_POSITION_INVALID": Reason(
        Rejected, "The stream cannot start at this position.", "Leave the position out to start from the beginning."
    ),
    "CHILD_NOT_WANTED": Reason(
        Conflict,
        "The run no longer waits for this child run.",
        "Look at the parent with `execution.status`; nothing is left to do for the child.",
    ),
    "CHILD_NOT_AWAITED": Reason(
        Conflict,
        "The run does not wait for the outcome of this child run.",
        "Look at the parent with `execution.status`; nothing is left to do for the child.",
    ),
    "EMIT_NOT_AWAITED": Reason(
        Conflict,
        "The run does not wait for this signal to be sent.",
        "Look at the run with `execution.status`; nothing is left to do for the signal.",
    ),
    "TIMER_NOT_DUE": Reason(Conflict, "The timer is not due yet.", "Wait until the time in `execution.status`."),
    "VERSION_PIN_MISMATCH": Reason(
        Conflict,
        "The stored workflow differs from the version that the run is pinned to.",
        "Store the pinned version again, or start a new run with `workflow.execute`.",
    ),
    "RUN_NOT_FINISHED": Reason(
        Unavailable,
        "The run did not end in the time that the caller gave it.",
        "Wait again with `execution.wait`, or see with `execution.status` what it waits for.",
    ),
    "RUN_ABANDONED": Reason(
        Unavailable,
        "The process stopped working on the run because of a bug.",
        "Restart the process, which resumes the run, and report the bug.",
    ),
    "WORKER_LEASE_LOST": Reason(
        Conflict,
        "Another worker took over the runs, because this one did not respond in time.",
        "Check whether the process was suspended or the machine overloaded.",
    ),
    "SERVER_STOPPING": Reason(
        Unavailable, "The server is shutting down.", "Send the call again after the server has restarted."
    ),
    "EXECUTOR_CLOSED": Reason(
        Unavailable, "The process is shutting down, so no step starts.", "Restart the process, which resumes the run."
    ),
    "INVALID_RETENTION": Reason(Rejected, "The retention period is negative.", "Set `retention.runs` to zero or more."),
}

QUESTIONS: Mapping[str, Reason] = {
    "ANSWER_INVALID": Reason(
        Rejected,
        "The answer does not match the question's schema, and the question stays open.",
        "Send an answer that matches the schema in `waiting_for` of `execution.status`.",
    ),
    "QUESTION_AMBIGUOUS": Reason(
        Rejected,
        "The run waits for several answers, and the call does not choose a question.",
        "Choose the question with `interrupt_id`.",
    ),
    "ALREADY_ANSWERED": Reason(
        Conflict,
        "The question was answered before; `details` says by whom and when.",
        "Look at the run with `execution.status`; the first answer counts.",
    ),
    "NO_OPEN_QUESTION": Reason(
        Conflict,
        "The run is not waiting for an answer, or not at this node.",
        "Look at `waiting_for` of `execution.status`.",
    ),
    "PERSON_REQUIRED": Reason(
        Denied,
        "Only a person may answer or decide this, and the call came from a model or service.",
        "Ask a person to answer in the console, or with a key of their own.",
    ),
    "APPROVER_REQUIRED": Reason(
        Denied,
        "The question names its approvers, and the caller is not one of them.",
        "Ask one of the approvers that the message names.",
    ),
    "TASK_NOT_WITHDRAWN": Reason(
        Unavailable,
        "An outside agent could not be informed that its question is closed.",
        "Cancel the task at the agent.",
    ),
    "TIMER_NOT_FOUND": Reason(
        Conflict,
        "The question is closed, so it is not escalated any more.",
        "Look at the run with `execution.status`; nothing is left to do.",
    ),
}

ACTIVITIES: Mapping[str, Reason] = {
    "ACTIVITY_SUBMIT_NOT_AWAITING": Reason(
        Conflict,
        "The run is not waiting for the outcome of this activity.",
        "Look at the pending activities with `execution.status`.",
    ),
    "ACTIVITY_SUBMIT_NODE_MISMATCH": Reason(
        Conflict,
        "Another node is waiting for an outcome.",
        "Send the `node_id` that `execution.status` shows as pending.",
    ),
    "ACTIVITY_RETRY_NOT_ALLOWED": Reason(
        Conflict,
        "The outcome of the activity is known, so there is nothing to settle.",
        "Look at the activity with `execution.status`.",
    ),
    "ACTIVITY_LEASED": Reason(
        Conflict,
        "Another worker has leased the activity.",
        "Lease another activity, or wait until the lease expires.",
    ),
    "ACTIVITY_LEASE_LOST": Reason(
        Conflict,
        "The lease expired, and another worker may have the activity.",
        "Lease the activity again with `execution.lease_activity`.",
    ),
    "ACTIVITY_LEASE_NOT_ALLOWED": Reason(
        Conflict,
        "The server performs the activities of this run itself.",
        "Start the run for outside workers, over the control plane, to lease its activities.",
    ),
    "ACTIVITY_OUTCOME_UNKNOWN": Reason(
        Conflict,
        "The activity may or may not have happened, so a person must decide.",
        "Check the outside system, then settle it with `execution.submit_activity` or `execution.retry`.",
    ),
    "SUBMIT_VALIDATION_ERROR": Reason(
        Rejected,
        "The outcome of the activity cannot be stored.",
        "Send a smaller outcome that is plain JSON.",
    ),
}

CONTROL_PLANE: Mapping[str, Reason] = {
    "VALIDATION_ERROR": Reason(
        Rejected, "The request of the control plane is not valid.", "Correct the field that the message names."
    ),
    "DUPLICATE_EXECUTION_ID": Reason(Conflict, "A run with this id exists.", "Choose another `executionId`."),
    "INVALID_RESUME_PAYLOAD": Reason(
        Rejected,
        "The answer does not match the question, or no such question is open.",
        "Send an answer that matches the schema of the open question.",
    ),
    "SIGNAL_VALIDATION_ERROR": Reason(
        Rejected,
        "The signal is incomplete, or is meant for another definition.",
        "Send the run's id and the signal's name.",
    ),
    "CANCEL_VALIDATION_ERROR": Reason(Rejected, "The call does not name a run.", "Send the run's `executionId`."),
    "ACTIVITY_SUBMIT_PARALLEL_MISMATCH": Reason(
        Rejected,
        "The branch differs from that of the pending activity.",
        "Send the branch that the status of the run shows.",
    ),
    "ENGINE_FAILURE": Reason(
        Conflict,
        "The run failed; `error.details` says where and why.",
        "Correct the cause that `error.details` names, and start a new run.",
    ),
    "WIRE_VERSION_UNSUPPORTED": Reason(
        Rejected,
        "This server does not support the requested version of OpenWOP.",
        "Request a version that the message names.",
    ),
}

_REPORT = "Restore a backup with `penstock server restore`, and report this."
_NEWER = "Open the store with the release that wrote it, or a newer one."

HISTORIES: Mapping[str, Reason] = {
    "HISTORY_GAP": Reason(CorruptHistory, "A record is missing from the history of a run.", _REPORT),
    "HISTORY_AFTER_END": Reason(CorruptHistory, "A run has a record after its end.", _REPORT),
    "HISTORY_IMPOSSIBLE": Reason(CorruptHistory, "A record contradicts the records before it.", _REPORT),
    "RECORD_UNKNOWN": Reason(CorruptHistory, "A record has a name that this release does not know.", _NEWER),
    "RECORD_VERSION_UNSUPPORTED": Reason(CorruptHistory, "A record was written in a newer format.", _NEWER),
    "RECORD_MALFORMED": Reason(CorruptHistory, "A record lacks required fields.", _REPORT),
    "ENGINE_STUCK": Reason(CorruptHistory, "The engine cannot find the next step of a run.", _REPORT),
    "DEFINITION_CHANGED": Reason(CorruptHistory, "The workflow definition of a run was changed in the store.", _REPORT),
    "DEFINITION_MISSING": Reason(CorruptHistory, "The workflow definition of a run is not in the store.", _REPORT),
    "RUN_VANISHED": Reason(
        CorruptHistory,
        "A run that is in progress disappeared from the store.",
        "Find out what deletes rows of the store; only `execution.delete` and retention may.",
    ),
}
