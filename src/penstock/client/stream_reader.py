"""Reading a stream over several connections: what to request next, and when to give up. No I/O.

Above it: the clients, which connect, read and wait. Below it: `events`, `retries`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.client.calls import PreparedCall, prepare
from penstock.client.errors import CallFailed, CallTimedOut, CallUnavailable
from penstock.client.events import EventParser, StreamEvent, StreamPosition, with_completion
from penstock.client.operations import Operation
from penstock.client.retries import RetryPolicy

__all__ = ["StreamReader"]

# Longer than the interval of heartbeats: a connection that is silent for this long is dead.
_SILENT_SECONDS_MAX = 120.0
# A connection may end this much too early or too late, so that it is not renewed again and again near the deadline.
_SLACK_SECONDS = 1.0


@dataclass(slots=True)
class StreamReader:
    """The state of reading one stream."""

    operation: Operation
    arguments: dict[str, Any]
    retry_policy: RetryPolicy
    now_seconds: Callable[[], float]
    deadline: float | None
    wanted: frozenset[str] | None
    position: StreamPosition
    parser: EventParser
    failures: int = 0
    read_seconds: float = 0.0

    @classmethod
    def of(
        cls,
        operation: Operation,
        arguments: Mapping[str, Any],
        retry_policy: RetryPolicy,
        now_seconds: Callable[[], float],
        timeout_seconds: float | None,
    ) -> StreamReader:
        """Build a reader that begins where the arguments say."""
        known = {parameter.name for parameter in operation.parameters}
        asked, wanted = with_completion(arguments.get("events"))
        return cls(
            operation=operation,
            # Streams without an end of their own take no choice of events.
            arguments={**arguments, **({"events": asked} if "events" in known else {})},
            retry_policy=retry_policy,
            now_seconds=now_seconds,
            deadline=None if timeout_seconds is None else now_seconds() + timeout_seconds,
            wanted=wanted,
            position=StreamPosition(last_id=arguments.get("last_event_id")),
            parser=EventParser(),
        )

    def next_call(self) -> PreparedCall:
        """Return the request of the next connection; `read_seconds` is how long it may be silent."""
        self.read_seconds = min(_SILENT_SECONDS_MAX, self._remaining_seconds())
        if self.read_seconds <= 0:
            raise self._timed_out()
        self.parser = EventParser()
        self.position.reconnected()
        call = prepare(self.operation, {**self.arguments, "last_event_id": self.position.last_id})
        call.headers["Accept"] = "text/event-stream"
        return call

    def read(self, part: bytes) -> list[StreamEvent]:
        """Parse some bytes and return the events to pass on."""
        before = self.parser.signs_of_life
        events = self.parser.feed(part)
        if self.parser.signs_of_life > before:
            self.failures = 0
        taken = [event for event in map(self.position.take, events) if event is not None]
        return [event for event in taken if self.wanted is None or event.event in self.wanted]

    @property
    def is_over(self) -> bool:
        """Whether the last event was read or the time is up, so that this connection is of no more use."""
        return self.position.ended or self._remaining_seconds() < self.read_seconds - _SLACK_SECONDS

    def delay_seconds(self, error: CallFailed | None, *, sent: bool = True) -> float:
        """Return how long to wait before the next connection; raises if there should be none."""
        if self._remaining_seconds() <= 0:
            raise self._timed_out()
        if error is None:
            return 0.0
        self.failures += 1
        delay = self.retry_policy.delay_seconds(error, self.failures, repeatable=True, sent=sent)
        if delay is None:
            raise error
        # When a server stops, its many readers come back at the pace that it asked for.
        return min(max(delay, self.parser.retry_seconds / 10), max(self._remaining_seconds(), 0.0))

    def cut(self) -> CallUnavailable:
        """Build the error of a connection that ended before its stream."""
        return CallUnavailable("STREAM_CUT", f"{self.operation.name}: the connection ended", "open the stream again")

    def _remaining_seconds(self) -> float:
        return float("inf") if self.deadline is None else self.deadline - self.now_seconds()

    def _timed_out(self) -> CallTimedOut:
        message = f"{self.operation.name} did not end within the timeout"
        return CallTimedOut("WAIT_TIMED_OUT", message, "wait again, or longer; the run continues")
