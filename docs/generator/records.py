"""The page about histories: every command and event with the keys of its payload.

The names come from `engine/records.py`; `tests/docs` runs the examples and compares the keys with what is written here.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from docs.generator.markdown import code, page, table
from docs.generator.states import RUN_MOVES, VISIT_MOVES
from penstock.engine.records import COMMANDS, EVENTS, RECORD_SCHEMA_VERSION

__all__ = ["KEYS", "RECORDS", "history_page"]


class Note(NamedTuple):
    """What a record says; keys that may be missing end in `?`."""

    meaning: str
    keys: str


_NODE = "nodeId visit"

_COMMANDS: Mapping[str, Note] = {
    "ScheduleNode": Note("The walk goes to a node.", f"{_NODE} scope? compensates?"),
    "CompleteNode": Note(
        "A visit is over; `next` is where the walk goes.", f"{_NODE} output next? compensation? fallback? timedOut?"
    ),
    "FailNode": Note(
        "A visit failed: towards `next` if an error route took it, for good otherwise.",
        f"{_NODE} reason message code details? next? handledBy? fatal?",
    ),
    "RaiseInterrupt": Note("A person is to be asked.", f"{_NODE} prompt"),
    "ResumeInterrupt": Note("The question was answered.", f"{_NODE} answer round? answeredBy? note?"),
    "StartTimer": Note("The run is to sleep.", f"{_NODE} kind wait_ms? until?"),
    "StartSignalWait": Note("The run is to wait for a signal.", f"{_NODE} signalName"),
    "DeliverSignal": Note(
        "A signal goes to the node that waits for it.", f"{_NODE} signalName payload signalId? sentBy? note? buffered?"
    ),
    "EmitSignal": Note("A signal is to be sent to another run.", f"{_NODE} targetExecutionId signalName payload"),
    "StartParallel": Note("Branches are to be started.", f"{_NODE} join branchNames n?"),
    "CancelParallelBranch": Note("A branch is no longer needed.", f"{_NODE} branchName index"),
    "JoinParallel": Note("Enough branches completed.", f"{_NODE} join"),
    "StartSubworkflow": Note("A child run is to be started.", f"{_NODE} workflowRef childExecutionId input"),
    "CompleteSubworkflow": Note("The child's result is taken over.", f"{_NODE} workflowRef childExecutionId"),
    "StartCompensation": Note("What was completed is to be undone, in this order.", "outcome nodeIds"),
    "CancelExecution": Note("Somebody cancels the run.", "nodeId? reason?"),
    "PauseExecution": Note("Somebody pauses the run.", "reason?"),
    "ResumeExecution": Note("Somebody lets a paused run go on.", ""),
}

_EVENTS: Mapping[str, Note] = {
    "ExecutionStarted": Note(
        "The run exists: its definition is pinned, its input kept.",
        "workflowName workflowVersion inputKeys definitionHash format input state entry activityExecutionMode "
        "tenant? runAttempt? parentExecutionId? depth? deadline? chainDeadline? continuedFrom? generation? "
        "runsWithoutWait? carriedSignals? carriedSignalIds? startedBy? starter? untrusted?",
    ),
    "NodeScheduled": Note("The node is the next to be worked on.", _NODE),
    "ActivityRequested": Note(
        "Work is waiting for an executor.",
        f"{_NODE} nodeType attempt arguments? secrets? idempotencyKey? timeoutMs? deadline? parallelSpan? agentId? "
        "protocol? delegateInput? delegateCorrelationId?",
    ),
    "ActivityCompleted": Note(
        "The work was done.",
        f"{_NODE} attempt result nodeType? parallelSpan? delegateCorrelationId? externalTaskId? usage? untrusted?",
    ),
    "ActivityFailed": Note(
        "An attempt failed; `willRetry` says that another follows.",
        f"{_NODE} attempt error code? willRetry? retryAt? usage? delegateCorrelationId? externalTaskId? untrusted?",
    ),
    "ActivityAsked": Note(
        "The work cannot go on until a person has answered; then the same attempt does.",
        f"{_NODE} attempt round interruptId prompt answerSchema resume deadline?",
    ),
    "ActivityLeased": Note(
        "A host has the work for a while; it is given back when `leaseUntil` is now.",
        f"{_NODE} attempt holder leaseUntil",
    ),
    "ActivityOutcomeUnknown": Note("Nobody knows whether an at-most-once attempt took effect.", f"{_NODE} attempt"),
    "ActivityRetried": Note("Somebody decided to try again after an unknown outcome.", f"{_NODE} decidedBy? note?"),
    "StateUpdated": Note("The state changed; this is all of it.", f"{_NODE} state"),
    "CheckpointWritten": Note(
        "The state in full, for readers that do not fold histories.",
        f"{_NODE} policy intervalNodes? workflowVersion definitionHash lastAppliedEventSeq stateRef",
    ),
    "InterruptRaised": Note(
        "The question is open.", f"{_NODE} prompt interruptId answerSchema promptRef? approvers? deadline? checkpoint?"
    ),
    "InterruptResumed": Note("The answer was taken; an activity that asked goes on with it.", f"{_NODE} deadline?"),
    "TimerStarted": Note("The run sleeps until `deadline`.", f"{_NODE} kind deadline"),
    "TimerFired": Note(
        "A sleep, a back-off or a timeout is over; of `kind` `run`, the time of the whole run.", "nodeId? visit? kind"
    ),
    "SignalWaitStarted": Note("The run waits for a signal.", f"{_NODE} signalName deadline?"),
    "SignalReceived": Note("The signal was taken.", f"{_NODE} signalName payload"),
    "SignalBuffered": Note(
        "A signal came before anybody waited for it, and is kept.", "signalName payload signalId? sentBy? note?"
    ),
    "SignalEmitted": Note("The signal to another run was delivered, or refused.", f"{_NODE} delivered code? error?"),
    "ParallelForked": Note("The branches may start.", f"{_NODE} join branchNames needed concurrency deadline?"),
    "ParallelJoined": Note("The branches came together.", f"{_NODE} join"),
    "ParallelBranchCancelled": Note("A branch was dropped.", f"{_NODE} branchName index"),
    "ForEachStarted": Note("The items are known.", f"{_NODE} items concurrency onItemError deadline?"),
    "LoopStarted": Note("The rounds begin.", f"{_NODE} maxIterations deadline?"),
    "ScopeOpened": Note(
        "A branch, an item or a round begins.", f"{_NODE} index scope body entry branchName? itemName?"
    ),
    "ScopeCompleted": Note("A branch, an item or a round is done.", f"{_NODE} index branchName? output?"),
    "ScopeFailed": Note(
        "A branch, an item or a round failed; the node around it decides what that means.",
        f"{_NODE} index code error reason failedNodeId branchName? output?",
    ),
    "SubworkflowStarted": Note(
        "The child run is asked for.",
        f"{_NODE} workflowRef parentExecutionId childExecutionId input versionPin? deadline?",
    ),
    "SubworkflowCompleted": Note(
        "The child run ended.",
        f"{_NODE} workflowRef parentExecutionId childExecutionId childFinalState childResult mergedOutput? failed? "
        "code? error? willRetry? retryAt?",
    ),
    "ExecutionPaused": Note("The run makes no move until it is resumed.", "reason?"),
    "ExecutionResumed": Note("The run goes on.", ""),
    "ExecutionCompleted": Note("The run is over, with a result.", "result"),
    "ExecutionContinued": Note(
        "The run is over, and another one goes on in its place with this input.",
        f"{_NODE} successorExecutionId input version",
    ),
    "HistoryLimitReached": Note("No more can be recorded; the run fails.", "records bytes code error"),
    "ExecutionFailed": Note(
        "The run is over, with an error.", "error code nodeId? details? context? compensationFailures?"
    ),
    "ExecutionCancelled": Note(
        "The run is over because somebody cancelled it.", "nodeId? reason? compensationFailures?"
    ),
}

RECORDS: Mapping[str, Note] = {**_COMMANDS, **_EVENTS}

KEYS: Mapping[str, str] = {
    "nodeId": "the node; `compensate:<id>` while a node is undone",
    "visit": "how often the run came to the node, counted from 1",
    "scope": "the branch, item or round in which this happens; the root has none",
    "attempt": "how often the work was tried in this visit, counted from 1",
    "round": "how many questions the activity has asked in this visit, counted from 1",
    "holder": "the host that has the work",
    "leaseUntil": "until when nobody else may take the work, in milliseconds since 1970",
    "resume": "what the performer of the activity needs to go on after the answer; opaque to the engine",
    "usage": "what the attempt has cost: tokens, requests, money",
    "deadline": "when it times out, in milliseconds since 1970",
    "chainDeadline": "when the run, or whichever continues it then, times out: what the starter gave",
    "continuedFrom": "the run that this one continues",
    "generation": "which run of its chain it is, from 2 on",
    "runsWithoutWait": "how many runs of the chain directly before this one waited for nothing",
    "startedBy": "who started the run: a key, a user of the machine, a schedule, a webhook, a program",
    "starter": "more about them: `kind`, `credential` (the id of a key, never the secret), `onBehalfOf`",
    "untrusted": "true where somebody outside said what it holds; the run is untrusted from there on",
    "carriedSignals": "signals that nobody in the runs before took",
    "carriedSignalIds": "ids of signals that the runs before know; they count once",
    "successorExecutionId": "the run that goes on in place of this one",
    "version": "the definition of the next run: `pinned` or `newest`",
    "output": "what later nodes read",
    "next": "the node that follows; missing at the end of a body",
    "compensation": "the rendered arguments of the activity that undoes this node, or the error that kept them from "
    "being rendered",
    "compensates": "the visit that is undone",
    "fallback": "the error for which the output stands in",
    "handledBy": "whose error route was taken: `node` or `workflow`",
    "fatal": "the failure ends the run whatever is around it",
    "arguments": "the rendered arguments; secrets are masked",
    "secrets": "the places of secrets in the arguments, as JSON pointers, with the text of the document",
    "idempotencyKey": "the key for the receiver, if the document gives one",
    "parallelSpan": "the branch, in the published form",
    "input": "the whole input; of a child run, that of the child",
    "state": "the whole state",
    "checkpoint": "a checkpoint of the state follows",
    "definitionHash": "the hash of the definition that the run is pinned to",
    "context": "for a history that the definition could not have made: the command `expected` and the one found",
    "compensationFailures": "undo steps that failed for good",
}


def history_page() -> str:
    """Every record of a history."""
    return page("Histories", "`engine/records.py`, `engine/transitions.py` and `docs/generator/records.py`", _parts())


def _parts() -> Iterator[str]:
    yield (
        "The history of a run is a list of rows that only grows. A **command** says what the engine decided, an "
        "**event** what happened. Names and keys are those of the published format; where that format leaves something "
        "out that is needed to go on, there are keys and records of our own. A row:"
    )
    row = (
        '{"executionId": "r_1", "seq": 7, "kind": "event", "name": "NodeScheduled",\n'
        ' "payload": {"executionId": "r_1", "nodeId": "ask", "visit": 1},\n'
        f' "createdAt": "2026-01-01T00:00:00.000Z", "recordSchemaVersion": {RECORD_SCHEMA_VERSION}}}'
    )
    yield f"```json\n{row}\n```"
    yield (
        "Every payload has `executionId`, which is not listed below. A key with `?` may be missing. Where records lead "
        "is drawn in [States of the engine](engine-states.md)."
    )
    for title, notes, known in (("Commands", _COMMANDS, COMMANDS), ("Events", _EVENTS, EVENTS)):
        if set(notes) != known:
            raise ValueError(f"{title}: described and known names differ in {sorted(set(notes) ^ known)}")
        yield f"## {title}"
        yield table(["Name", "What it says", "Payload", "Leads to"], _rows(notes))
    yield "## Keys"
    yield table(["Key", "What it is"], ([code(key), told] for key, told in KEYS.items()))


def _rows(notes: Mapping[str, Note]) -> Iterator[list[str]]:
    for name, note in notes.items():
        yield [code(name), note.meaning, " ".join(map(code, note.keys.split())), _target(name)]


def _target(name: str) -> str:
    found = {
        str(target): None
        for table_of in (VISIT_MOVES, RUN_MOVES)
        for record, (_, target) in table_of.items()
        if record.partition(":")[0] == name
    }
    return ", ".join(map(code, found))
