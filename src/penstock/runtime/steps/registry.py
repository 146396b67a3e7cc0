"""Steps: Python functions that workflows call, what a function may know about its call, and where functions are found.

    @step
    async def refund(order_id: str, amount: float, *, context: StepContext) -> Refund: ...

The decorator does not change a function, which can still be called and tested directly. A registry finds functions by
the name that a document gives as `handler`. A document can never make Penstock import code unless the operator allows
it, and even then only functions declared as steps are called.

Above it: the step executor calls what is found here; `app` fills the registry. Below it: `binding`.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import logging
import sys
import threading
import traceback
import typing
from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, overload

from penstock.base.errors import Conflict, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.base.lazy_import import lazy_import
from penstock.runtime.activities.performing import ActivityCall
from penstock.runtime.steps.binding import Signature, compile_signature, type_hints

if TYPE_CHECKING:
    from importlib import metadata
else:
    metadata = lazy_import("importlib.metadata")

__all__ = [
    "ENTRY_POINT_GROUP",
    "CancelToken",
    "NoObserver",
    "RegisteredStep",
    "StepCancelled",
    "StepContext",
    "StepFailed",
    "StepKind",
    "StepObserver",
    "StepRegistry",
    "input_schema",
    "is_step",
    "output_schema",
    "step",
]

ENTRY_POINT_GROUP = "penstock.steps"
_OPTIONS = "__penstock_step__"
_CONTEXT_NAME = "context"
_LOGGER = logging.getLogger("penstock.step")

StepFunction: TypeAlias = Callable[..., Any]
_F = TypeVar("_F", bound=StepFunction)


class StepFailed(Exception):
    """Raise this in a step to fail with a code of your own; `retryable=False` means that a retry cannot help."""

    def __init__(self, code: str, message: str, retryable: bool = True) -> None:
        super().__init__(code, message, retryable)
        self.code = code
        self.message = message
        self.retryable = retryable

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class StepCancelled(Exception):
    """The result of this step is no longer wanted."""


# --- the decorator ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    name: str | None = None
    process: bool = False


@overload
def step(function: _F, /) -> _F: ...


@overload
def step(*, name: str | None = None, process: bool = False) -> Callable[[_F], _F]: ...


def step(function: _F | None = None, /, *, name: str | None = None, process: bool = False) -> _F | Callable[[_F], _F]:
    """Declare a function as a step.

    `name` is what documents give as `handler`, if it is not ``module:function``. With `process`, a CPU-bound function
    runs in a separate process, where it does not block others; it must be defined at the top level of its module.
    """
    options = _Options(name=name, process=process)

    def mark(target: _F) -> _F:
        target.__dict__[_OPTIONS] = options
        return target

    return mark if function is None else mark(function)


# --- what a step may know and report while it runs ---------------------------------------------------


class StepObserver(Protocol):
    """Receives what steps report while they run; called on the event loop."""

    def heartbeat(self, call: ActivityCall, details: JsonValue) -> None:
        """Report that the step is alive."""

    def progress(self, call: ActivityCall, value: float, message: str | None) -> None:
        """Report how far the step is."""

    def log(self, call: ActivityCall, level: int, message: str) -> None:
        """Report a log line of the step; `level` is one of the standard library's."""


class NoObserver:
    """Ignores all reports."""

    def heartbeat(self, call: ActivityCall, details: JsonValue) -> None:
        """Ignore it."""

    def progress(self, call: ActivityCall, value: float, message: str | None) -> None:
        """Ignore it."""

    def log(self, call: ActivityCall, level: int, message: str) -> None:
        """Ignore it."""


class CancelToken:
    """Tells, across threads, that a result is no longer wanted."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = threading.Event()

    def cancel(self) -> None:
        """Mark the work as no longer wanted."""
        self._event.set()

    @property
    def cancelled(self) -> bool:
        """Whether the work is no longer wanted."""
        return self._event.is_set()

    def wait(self, timeout_seconds: float) -> bool:
        """Wait until it is cancelled; return False on timeout."""
        return self._event.wait(timeout_seconds)


class _StepLogger(logging.LoggerAdapter[logging.Logger]):
    """Adds run and node to every message, and keeps the caller's own extras.

    Followers of the run receive every line, whatever the log level of this process, but never a traceback.
    """

    def __init__(self, call: ActivityCall, observer: StepObserver, extra: JsonObject) -> None:
        super().__init__(_LOGGER, extra)
        self._call = call
        self._observer = observer

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        # One frame more than the standard library expects between its own and the step's.
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
        if self._call.hidden:
            msg, args = self._without_secrets(_line(msg, args), kwargs), ()
            super().log(level, "%s", msg, **kwargs)
        else:
            super().log(level, msg, *args, **kwargs)
        self._observer.log(self._call, level, _line(msg, args))

    def _without_secrets(self, line: str, kwargs: dict[str, Any]) -> str:
        """Return a line without the secrets of the call, with the traceback that it was to have."""
        given = kwargs.pop("exc_info", None)
        error = given if isinstance(given, BaseException) else sys.exc_info()[1] if given else None
        found = "" if error is None else "\n" + "".join(traceback.format_exception(error)).rstrip()
        return self._call.masked(line + found)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


def _line(message: object, arguments: tuple[object, ...]) -> str:
    """Format a log line as the standard library would; a message that cannot be formatted is shown as it is."""
    try:
        return logging.LogRecord("", 0, "", 0, message, arguments, None).getMessage()
    except Exception:  # an object may raise anything when it is formatted; the standard library continues too
        return str(message)


class StepContext:
    """What a step may know about its call. Values are computed on first use.

    A function receives it in a parameter that is annotated with this class, or that is named `context`.
    """

    __slots__ = ("_call", "_logger", "_observer", "_task", "_token")

    def __init__(
        self,
        call: ActivityCall,
        observer: StepObserver,
        *,
        token: CancelToken | None = None,
        task: asyncio.Task[Any] | None = None,
    ) -> None:
        self._call = call
        self._observer = observer
        self._token = token
        self._task = task
        self._logger: _StepLogger | None = None

    @property
    def run_id(self) -> str:
        """The id of the run that the step belongs to."""
        return self._call.run_id

    @property
    def workflow_name(self) -> str:
        """The name of the run's workflow."""
        return self._call.workflow_name

    @property
    def node_id(self) -> str:
        """The id of the node that calls the step."""
        return self._call.activity.node_id

    @property
    def visit(self) -> int:
        """How many times the run has come to this node, including this time."""
        return self._call.activity.visit

    @property
    def attempt(self) -> int:
        """1 for the first attempt, one more for every retry."""
        return self._call.activity.attempt

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt: pass it on, and the receiver can tell a retry from a new request."""
        return self._call.activity.idempotency_key

    @property
    def epoch(self) -> int:
        """Increases whenever another process takes over the run: a receiver refuses a lower one than it has seen."""
        return self._call.epoch

    @property
    def deadline(self) -> int | None:
        """When the attempt times out, in epoch milliseconds."""
        return self._call.activity.deadline

    @property
    def config(self) -> JsonObject:
        """The node as written in its document."""
        return self._call.activity.config

    @property
    def state(self) -> JsonValue:
        """The state of the run; read it, do not change it."""
        return self._call.values

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that adds run, node and attempt to every message."""
        if self._logger is None:
            known: JsonObject = {"run_id": self.run_id, "workflow": self.workflow_name, "node_id": self.node_id}
            message: JsonObject = {**known, "visit": self.visit, "attempt": self.attempt}
            self._logger = _StepLogger(self._call, self._observer, message)
        return self._logger

    def heartbeat(self, details: JsonValue = None) -> None:
        """Report that the step is alive."""
        self._observer.heartbeat(self._call, details)

    def progress(self, value: float, message: str | None = None) -> None:
        """Report how far the step is, from 0 to 1."""
        self._observer.progress(self._call, value, message)

    @property
    def cancelled(self) -> bool:
        """Whether the result is no longer wanted; check it now and then in a long loop."""
        if self._token is not None:
            return self._token.cancelled
        return self._task is not None and self._task.cancelling() > 0

    def raise_if_cancelled(self) -> None:
        """Raise `StepCancelled` if the result is no longer wanted."""
        if self.cancelled:
            raise StepCancelled(f"{self.node_id} of run {self.run_id} was cancelled")

    def wait_cancelled(self, timeout_seconds: float) -> bool:
        """Pause a function that runs in a thread until it is cancelled or times out; return True if cancelled."""
        return self.cancelled if self._token is None else self._token.wait(timeout_seconds)


# --- registered steps ----------------------------------------------------------------------------------


class StepKind(Enum):
    """Where a step runs."""

    LOOP = "loop"
    THREAD = "thread"
    PROCESS = "process"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredStep:
    """A function that workflows may call, with everything about it that can be computed in advance."""

    name: str
    function: StepFunction
    kind: StepKind
    signature: Signature
    context_parameter: str | None

    @classmethod
    def of(cls, function: StepFunction) -> RegisteredStep:
        """Inspect a function; raise `Rejected` if it cannot be a step."""
        options = _options(function) or _Options()
        name = options.name or _reference(function)
        if name is None:
            message = f"{function!r} has no name that a document could write"
            raise Rejected("STEP_INVALID", message, "declare it with @step(name=...)")
        kind = _kind(function, options, name)
        context = _context_parameter(function, name)
        return cls(
            name=name,
            function=function,
            kind=kind,
            signature=compile_signature(function, name, without=context),
            context_parameter=context,
        )


def input_schema(target: RegisteredStep | StepFunction) -> JsonObject:
    """Return the JSON Schema of a step's arguments."""
    found = target if isinstance(target, RegisteredStep) else RegisteredStep.of(target)
    return found.signature.input_schema()


def output_schema(target: RegisteredStep | StepFunction) -> JsonObject | None:
    """Return the JSON Schema of a step's result, if the function declares one."""
    found = target if isinstance(target, RegisteredStep) else RegisteredStep.of(target)
    return found.signature.output_schema()


def is_step(value: object) -> bool:
    """Whether a value is a function declared with `@step`."""
    return callable(value) and not isinstance(value, type) and _options(value) is not None


def _options(function: StepFunction) -> _Options | None:
    options = getattr(function, _OPTIONS, None)
    return options if isinstance(options, _Options) else None


def _reference(function: StepFunction) -> str | None:
    """Return a function as ``module:function``; callable objects have no such name."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    return f"{module}:{name}" if isinstance(module, str) and isinstance(name, str) else None


def _kind(function: StepFunction, options: _Options, name: str) -> StepKind:
    called = function if inspect.isroutine(function) else type(function).__call__
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)
    if not options.process:
        return StepKind.LOOP if is_async else StepKind.THREAD
    if is_async:
        message = f"{name} is async and asks for a process; a process is for functions that compute"
        raise Rejected("STEP_INVALID", message, "write it as a plain function, or leave out process=True")
    reference = _reference(function)
    if reference is None or "<locals>" in reference:
        message = f"{name} is not a function of a module, so another process cannot find it"
        raise Rejected("STEP_INVALID", message, "move it to the top of its module")
    return StepKind.PROCESS


def _context_parameter(function: StepFunction, name: str) -> str | None:
    hints = type_hints(function, name)
    parameters = inspect.signature(function).parameters
    for parameter in parameters:
        wanted = hints.get(parameter)
        if wanted is StepContext or StepContext in typing.get_args(wanted):
            return parameter
    return _CONTEXT_NAME if _CONTEXT_NAME in parameters and _CONTEXT_NAME not in hints else None


@dataclass(slots=True, kw_only=True)
class StepRegistry:
    """Finds steps by handler. `allow_import` lets documents name any declared step that can be imported."""

    allow_import: bool = False
    _steps: dict[str, RegisteredStep] = field(default_factory=dict)
    _installed: dict[str, Any] | None = None

    def register(self, function: StepFunction) -> RegisteredStep:
        """Register a function under its name and as ``module:function``; registering it again is allowed."""
        made = RegisteredStep.of(function)
        names = {made.name, _reference(function) or made.name}
        for name in names:
            known = self._steps.get(name)
            if known is not None and known.function != function:
                message = f"two steps are called {name}: {_reference(known.function)} and {_reference(function)}"
                raise Conflict("STEP_NAME_TAKEN", message, "give one of them another name with @step(name=...)")
        self._steps.update(dict.fromkeys(names, made))
        return made

    def names(self) -> Iterable[str]:
        """Return the handlers known so far."""
        return self._steps.keys()

    def resolve(self, handler: str) -> RegisteredStep | None:
        """Return the step that a handler names, or None."""
        found = self._steps.get(handler)
        if found is not None:
            return found
        function = self._from_entry_point(handler)
        if function is None and self.allow_import:
            function = _imported(handler)
        if function is None:
            return None
        made = self._steps[handler] = RegisteredStep.of(function)
        return made

    def _from_entry_point(self, handler: str) -> StepFunction | None:
        if self._installed is None:
            self._installed = {item.name: item for item in metadata.entry_points(group=ENTRY_POINT_GROUP)}
        entry = self._installed.get(handler)
        if entry is None:
            return None
        try:
            function = entry.load()
        except Exception:  # an extension that cannot be loaded must not stop the others
            _LOGGER.exception("the entry point %s = %s cannot be loaded", handler, entry.value)
            return None
        return function if callable(function) else None


def _imported(handler: str) -> StepFunction | None:
    """Return a declared step by ``module:function``; documents may not call anything else in the module."""
    module_name, _, path = handler.partition(":")
    if not path or not all(part.isidentifier() for part in (*module_name.split("."), *path.split("."))):
        return None
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            _LOGGER.exception("the module of the step %s cannot be imported", handler)
        return None
    except Exception:  # a module may raise anything while it is imported
        _LOGGER.exception("the module of the step %s cannot be imported", handler)
        return None
    for part in path.split("."):
        found = getattr(found, part, None)
    return found if callable(found) and _options(found) is not None else None
