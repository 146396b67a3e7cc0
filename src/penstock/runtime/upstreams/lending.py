"""What other MCP servers are lent: a model that answers for them (sampling), and the names of folders (roots).

Nothing is lent unless the settings of a server say so, and only to the tenants that they name. A request for the model
is a run of its own: so it passes the same rules as every call of a model, is paid for once, and is in the history.

Above it: `app` reads the settings and provides the `ModelLender`; executors answer servers with it. Below it: nothing.
It does no I/O.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from penstock.base.ids import DEFAULT_TENANT

if TYPE_CHECKING:  # reading settings needs no engine
    from penstock.runtime.activities.performing import ActivityCall

__all__ = [
    "Lending",
    "LendingRules",
    "ModelLender",
    "SampledText",
    "SamplingMessage",
    "SamplingRefusal",
    "SamplingRequest",
    "SamplingTerms",
    "token_step",
]

_STEPS = 4


class SamplingTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The terms on which a server is lent a model."""

    model: str
    """The name of the model, in the settings or in the registry of the tenant whose call it is."""
    tenants: tuple[str, ...] = (DEFAULT_TENANT,)
    requests_per_call: int
    max_tokens: int
    timeout_ms: int
    cost_per_call: float | None = None
    """Dollars that the requests of one call may cost; the request that exceeds it is the last one."""

    def is_for(self, tenant: str) -> bool:
        """True if calls of a tenant may use the model."""
        return "*" in self.tenants or tenant in self.tenants


class Lending(msgspec.Struct, frozen=True, kw_only=True):
    """What a server is lent during the calls of one tenant."""

    sampling: SamplingTerms | None = None
    folders: tuple[str, ...] = ()


class LendingRules(msgspec.Struct, frozen=True, kw_only=True):
    """What the settings lend to a server. `folders` are by tenant; `*` stands for all tenants."""

    sampling: SamplingTerms | None = None
    folders: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)

    def lent_to(self, tenant: str) -> Lending | None:
        """What the server is lent for a tenant; None if nothing is."""
        sampling = self.sampling if self.sampling is not None and self.sampling.is_for(tenant) else None
        folders = tuple(dict.fromkeys((*self.folders.get("*", ()), *self.folders.get(tenant, ()))))
        return Lending(sampling=sampling, folders=folders) if sampling is not None or folders else None


class SamplingMessage(msgspec.Struct, frozen=True):
    """One message of a server's request. All of its text is the server's."""

    role: Literal["user", "assistant"]
    text: str


class SamplingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a server wants the model to answer. `system` is the system prompt that it would like."""

    server: str
    messages: tuple[SamplingMessage, ...]
    max_tokens: int
    system: str | None = None
    number: int = 0
    """How many equal requests the same call made before."""


class SampledText(msgspec.Struct, frozen=True, kw_only=True):
    """What the model answered, and what that cost. `execution_id` is the run that asked it."""

    text: str
    execution_id: str
    cut_off: bool = False
    input_tokens: int = 0
    output_tokens: int = 0
    cost: Decimal | None = None
    """In US dollars; None if it is unknown."""


class SamplingRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why the model did not answer. The server gets only the code, because the message may name other models."""

    code: str
    message: str
    execution_id: str | None = None
    retryable: bool = False


class ModelLender(Protocol):
    """Asks a model on behalf of a server."""

    def __call__(
        self, call: ActivityCall, terms: SamplingTerms, request: SamplingRequest, /
    ) -> Awaitable[SampledText | SamplingRefusal]:
        """Ask the model. The same request of the same visit of a node is asked once, also after a restart."""


def token_step(wanted: int, most: int) -> int:
    """The number of tokens to ask for: at most what is wanted and what is lent, from a small set of numbers.

    The number is part of the workflow of a request. A server that chooses it must not be able to make thousands of
    workflows, so it is rounded down, by less than a fifth.
    """
    bounded = max(1, min(wanted, most))
    if bounded == most or bounded < _STEPS:
        return bounded
    unit = 1 << (bounded.bit_length() - _STEPS.bit_length())
    return bounded // unit * unit
