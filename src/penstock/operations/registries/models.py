"""The registry of language models.

Nodes of the tenant's workflows name a model by its id, beside the models of the settings; a change takes effect with
the next call. A provider's key is referred to by name, never sent: `api_key_secret` is the name of one of the tenant's
secrets.

Above it: the catalogue, and `app`, which makes providers of the entries. Below it: `registry`.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from penstock.base.errors import Conflict, Rejected
from penstock.base.json import JsonObject
from penstock.base.limits import LLM_FALLBACKS_MAX, MODEL_FALLBACKS_FOLLOWED_MAX, PAGE_LIMIT_MAX
from penstock.definitions.source.findings import suggestion
from penstock.operations.catalogue.capability import Capability
from penstock.operations.gate.context import Context
from penstock.operations.registries.members import Prose
from penstock.operations.registries.registry import Body, Registry, RegistryTexts
from penstock.runtime.ports.models import COMPATIBLE, MOCK, MODEL_PARAMETERS, PROVIDERS, fallback_cycle
from penstock.runtime.tables.resources import list_resources, read_resource

__all__ = ["MODELS", "OPERATIONS", "ModelBody"]

_Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]
_Dollars = Annotated[float, Meta(ge=0, le=1_000_000)]


class ModelPrices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a million tokens cost in US dollars."""

    input_per_million: _Dollars
    output_per_million: _Dollars


class ModelUseLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How much a model may be used."""

    max_tokens: Annotated[
        _Count | None, Meta(description="The longest answer; a node that asks for more gets this.")
    ] = None
    requests_per_minute: Annotated[
        _Count | None, Meta(description="Requests in a minute, of all processes that share the store.")
    ] = None
    concurrent: Annotated[
        _Count | None, Meta(description="Requests at the same time, in each process; others wait.")
    ] = None
    cost_per_day: Annotated[
        _Dollars | None, Meta(description="Dollars that may be spent on it in a day (UTC); needs `prices`.")
    ] = None


class ModelBody(Body, frozen=True, kw_only=True):
    """Who provides a model, what it is called there, how it is reached, and how much it may be used."""

    provider: Annotated[
        str,
        Meta(
            description=f"Who provides it: {', '.join(PROVIDERS)}.",
            min_length=1,
            max_length=64,
            examples=["openai", "anthropic"],
        ),
    ]
    model: Annotated[str, Meta(description="What the provider calls it.", min_length=1, max_length=200)]
    base_url: Annotated[
        Annotated[str, Meta(pattern=r"^https?://[^\s@]+$", max_length=500)] | None,
        Meta(description="Where it is, if not at the provider's usual address."),
    ] = None
    api_key_secret: Annotated[
        Annotated[str, Meta(pattern=r"^[A-Z][A-Z0-9_]{0,127}$")] | None,
        Meta(description="The name of a secret of the tenant; never the secret itself.", examples=["OPENAI_API_KEY"]),
    ] = None
    parameters: Annotated[
        dict[str, Any] | None,
        Meta(description=f"What nodes do not set themselves: {', '.join(MODEL_PARAMETERS)}."),
    ] = None
    prices: Annotated[ModelPrices | None, Meta(description="What it costs; else the library's price list counts.")] = (
        None
    )
    limits: Annotated[ModelUseLimits | None, Meta(description="How much it may be used; no limits if left out.")] = None
    fallbacks: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=128)]],
        Meta(
            description="Other models, of the registry or the settings, asked in this order if it cannot answer.",
            max_length=LLM_FALLBACKS_MAX,
        ),
    ] = msgspec.field(default_factory=list)
    timeout_seconds: Annotated[
        Annotated[float, Meta(gt=0, le=3600)] | None, Meta(description="How long one request may take.")
    ] = None
    replies: Annotated[
        list[Any] | dict[str, Any] | None, Meta(description="With `mock`: replies in order, or by node id.")
    ] = None
    description: Prose = None


async def _check_model(context: Context, given: Any) -> None:
    model_id: str = given.id if hasattr(given, "id") else given.model_id
    if model_id in context.services.configured_models.names:
        message = f"the settings of the server have a model {model_id}, which takes precedence"
        raise Conflict("MODEL_IN_SETTINGS", message, "choose another id")
    kind = PROVIDERS.get(given.provider)
    if kind is None:
        known = ", ".join(PROVIDERS)
        hint = f"{suggestion(given.provider, PROVIDERS) or ''} supported are {known}".strip()
        details: JsonObject = {"provider": given.provider, "supported": list(PROVIDERS)}
        raise Rejected("MODEL_PROVIDER_UNKNOWN", f"models of {given.provider} are not supported", hint, details)
    if given.base_url is not None and not kind.takes_address:
        raise _invalid(f"`base_url` is not for {given.provider}, whose address is fixed", "leave it out")
    if given.provider == COMPATIBLE and given.base_url is None:
        raise _invalid(f"`{COMPATIBLE}` needs `base_url`", "it has no usual address")
    if (given.provider == MOCK) != (given.replies is not None):
        raise _invalid(f"`replies` is needed for `{MOCK}`, and only there", "replies in order, or by node id")
    unknown = [name for name in given.parameters or {} if name not in MODEL_PARAMETERS]
    if unknown:
        hint = suggestion(unknown[0], MODEL_PARAMETERS) or f"known are {', '.join(MODEL_PARAMETERS)}"
        raise _invalid(f"there is no parameter `{unknown[0]}`", hint)
    if given.limits is not None and given.limits.cost_per_day is not None and given.prices is None:
        raise _invalid("`cost_per_day` needs `prices`: a cost that is unknown has no limit", "say what it costs")
    await _check_fallbacks(context, model_id, tuple(given.fallbacks))


async def _check_fallbacks(context: Context, model_id: str, wanted: tuple[str, ...]) -> None:
    """Refuse fallbacks that do not exist, or that lead back to the model."""
    services, found = context.services, {model_id: wanted}
    waiting = list(wanted)
    while waiting and len(found) <= MODEL_FALLBACKS_FOLLOWED_MAX:
        name = waiting.pop()
        if name in found or name in services.configured_models.names:
            continue
        row = await read_resource(services.platform, context.tenant, MODELS.kind, name)
        if row is None:
            if name in wanted:
                page = await list_resources(services.platform, context.tenant, MODELS.kind, limit=PAGE_LIMIT_MAX)
                known = [*services.configured_models.names, *(item.resource_id for item in page.rows)]
                raise _invalid(
                    f"the fallback {name} is not a model of this tenant or of the settings",
                    suggestion(name, known) or "register it first, with model.create",
                )
            continue
        others = row.body.get("fallbacks")
        found[name] = tuple(str(item) for item in others) if isinstance(others, list) else ()
        waiting.extend(found[name])
    cycle = fallback_cycle(model_id, found)
    if cycle is not None:
        raise _invalid(f"the fallbacks lead back to the model: {' → '.join(cycle)}", "leave one of them out")


def _invalid(message: str, hint: str) -> Rejected:
    return Rejected("MODEL_INVALID", message, hint)


MODELS = Registry(
    stores="model",
    kind="model",
    body=ModelBody,
    example_id="fast",
    create_example={"provider": "openai", "model": "gpt-5-mini", "api_key_secret": "OPENAI_API_KEY"},
    update_example={"provider": "openai", "model": "gpt-5-mini"},
    texts=RegistryTexts(
        create="Names a provider's model, and the secret that holds its key. Nodes can use it at once.",
        get="Returns the provider and its name for the model, parameters, prices, limits and fallbacks; never a key.",
        list="Returns models by id. Use it to find a model that nodes and agents can name.",
        delete="Nodes and agents that name it fail from their next call on.",
    ),
    check=_check_model,
    check_errors=("MODEL_IN_SETTINGS", "MODEL_INVALID", "MODEL_PROVIDER_UNKNOWN"),
)

OPERATIONS: tuple[Capability, ...] = MODELS.operations()
