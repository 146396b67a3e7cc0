"""Settings of governance: policies, calls that wait for a person, and trusted workflows.

Above it: `model`. Below it: `declarations` defines what a declaration means; the presets are explained in
`governance.holds`.
"""

# No `from __future__ import annotations`: the annotations are the declarations, and are read at run time.
from datetime import timedelta
from typing import Annotated, Literal

from msgspec import Struct

from penstock.app.settings.composite_types import Field
from penstock.app.settings.formats import GROUP, PATH
from penstock.base import limits

__all__ = ["ApprovalSettings", "GovernanceSettings", "PolicySettings", "SignatureSettings"]


class ApprovalSettings(Struct, frozen=True, kw_only=True):
    """Who decides about waiting calls, unless a workflow or a policy names somebody."""

    groups: Annotated[
        tuple[str, ...],
        Field("The groups whose members decide; a key belongs to one by its scope `approve:GROUP`.", format=GROUP),
    ] = ("approvers",)
    count: Annotated[int, Field("How many different people must approve a call.", minimum=1, maximum=20)] = 1
    separate: Annotated[
        bool | None,
        Field(
            "Whether the caller, the creator of its key and the person it acts for are excluded from deciding; null "
            "means only with the preset `strict`."
        ),
    ] = None
    services: Annotated[bool, Field("Whether services may decide as well as people.")] = False
    timeout: Annotated[timedelta, Field("How long a call waits for a decision before it expires.", minimum=1)] = (
        timedelta(milliseconds=limits.DRAFT_MS)
    )
    escalate_after: Annotated[
        timedelta | None,
        Field("How long the groups have before `escalate_to` may decide, too; null means no escalation.", minimum=1),
    ] = None
    escalate_to: Annotated[
        tuple[str, ...], Field("The groups whose members may decide after `escalate_after`.", format=GROUP)
    ] = ()


class GovernanceSettings(Struct, frozen=True, kw_only=True):
    """Which calls wait for a person before they are made."""

    preset: Annotated[
        Literal["open", "careful", "strict"],
        Field(
            "`open`: no call, unless a policy asks for it. `careful`: risky calls (high or critical) of agents and "
            "of models over MCP, and workflows that ask for `confirm` or `draft`. `strict`: every change by an "
            "agent, unless a grant lets it act alone for a while."
        ),
    ] = "careful"
    service_definitions: Annotated[
        Literal["trusted", "proposed"],
        Field(
            "What happens to workflows, schedules, tools, models, agents, queries, schemas, webhooks and policies "
            "that services store: `trusted` applies them at once, as deployment pipelines need; `proposed` waits "
            "until a person accepts them. Agents always propose, unless the preset is `open`."
        ),
    ] = "trusted"
    approvals: ApprovalSettings = ApprovalSettings()
    preflight_timeout: Annotated[timedelta, Field("How long a preflight is valid.", minimum=1)] = timedelta(
        milliseconds=limits.PREFLIGHT_MS
    )


class PolicySettings(Struct, frozen=True, kw_only=True):
    """Cedar policies that hold for all tenants. Without any, scopes alone decide."""

    files: Annotated[
        tuple[str, ...],
        Field(
            "Files, patterns, and folders of `.cedar` files with policies, reloaded when they change. At the start, "
            "a file that cannot be read or has no policy stops the server. Later, the previous policies stay in "
            "force and the server is not ready.",
            "--policies",
            format=PATH,
        ),
    ] = ()


class SignatureSettings(Struct, frozen=True, kw_only=True):
    """Which signatures a workflow needs."""

    mode: Annotated[
        Literal["off", "warn", "require"],
        Field(
            "What happens to a workflow without a trusted signature: nothing (`off`), a warning and a mark (`warn`), "
            "or a refusal to store and start it (`require`)."
        ),
    ] = "off"
    trusted_keys: Annotated[
        tuple[str, ...],
        Field("The trusted public keys: files written by `penstock workflow sign --new-key`.", format=PATH),
    ] = ()
