"""Settings about who may do what: policies, what waits for a person, and whose workflows are trusted.

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
    """Who decides about calls that wait, unless a workflow or a policy says so itself."""

    groups: Annotated[
        tuple[str, ...],
        Field("The groups whose members decide; a key belongs to one by its scope `approve:GROUP`.", format=GROUP),
    ] = ("approvers",)
    count: Annotated[int, Field("How many different people have to agree.", minimum=1, maximum=20)] = 1
    separate: Annotated[
        bool | None,
        Field(
            "Whether the caller, whoever made its key, and whoever it acts for may not decide, with any key of theirs; "
            "null: only with the preset `strict`."
        ),
    ] = None
    services: Annotated[bool, Field("Whether services may decide, too. Otherwise only people do.")] = False
    timeout: Annotated[timedelta, Field("How long a call waits before it is given up.", minimum=1)] = timedelta(
        milliseconds=limits.DRAFT_MS
    )
    escalate_after: Annotated[
        timedelta | None,
        Field("How long the groups have by themselves before others are asked, too; null: nobody else is.", minimum=1),
    ] = None
    escalate_to: Annotated[tuple[str, ...], Field("The groups whose members may decide, too, then.", format=GROUP)] = ()


class GovernanceSettings(Struct, frozen=True, kw_only=True):
    """Which calls wait for a person before they are made."""

    preset: Annotated[
        Literal["open", "careful", "strict"],
        Field(
            "`open`: none, unless a policy asks for it. `careful`: calls of agents, and of models over MCP, that could "
            "do harm (risk high or critical), and whatever says `confirm` or `draft` of itself. `strict`: everything "
            "that an agent changes, unless somebody granted that it may act by itself for a while."
        ),
    ] = "careful"
    service_definitions: Annotated[
        Literal["trusted", "proposed"],
        Field(
            "What services store (workflows, schedules, tools, models, agents, queries, schemas, webhooks, policies): "
            "`trusted` takes effect at once, as a deployment pipeline needs it; `proposed` waits until a person "
            "accepts it. What agents store is always proposed, unless the preset is `open`."
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
            "Files with policies, patterns, or folders whose `.cedar` files are read; they are read again when they "
            "change. One that cannot be read or has no policy stops the start; later, the policies before it stay in "
            "force and the server is not ready.",
            "--policies",
            format=PATH,
        ),
    ] = ()


class SignatureSettings(Struct, frozen=True, kw_only=True):
    """Whose workflows are stored and started."""

    mode: Annotated[
        Literal["off", "warn", "require"],
        Field(
            "What happens to a workflow that is not signed with a trusted key: nothing (`off`), a warning and a mark "
            "(`warn`), or it is neither stored nor started (`require`)."
        ),
    ] = "off"
    trusted_keys: Annotated[
        tuple[str, ...],
        Field("The public keys that are trusted: files that `penstock sign --new-key` wrote.", format=PATH),
    ] = ()
