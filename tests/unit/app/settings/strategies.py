"""Hypothesis strategies for settings, made from the declarations."""

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from penstock.app.settings.composite_types import (
    ListOrTable,
    Record,
    SecretString,
    SecretValue,
    Setting,
    StringList,
    Table,
)
from penstock.app.settings.declarations import Section
from penstock.app.settings.formats import ALLOWED_HOST, NETWORK, SCOPE, SECRET_NAME, Format
from penstock.app.settings.graphs import GraphSettings, QueryFileSettings
from penstock.app.settings.identity import IssuerSettings
from penstock.app.settings.model import Settings, settings_outline
from penstock.app.settings.named import AgentSettings, ApiSettings, McpServerSettings, ModelSettings
from penstock.app.settings.rules import settings_problems
from penstock.app.settings.secrets import CommandReference, EnvironmentReference, FileReference
from penstock.app.settings.types import AnyJson, Boolean, Choice, Duration, Integer, Number, String, ValueType
from penstock.base.limits import DURATION_MS_MAX
from penstock.governance.tokens.rules import ALGORITHMS
from penstock.runtime.ports.models import PROVIDERS

# Anything a file may contain; `~` at the beginning is somebody's home, which is another path when it is read.
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12).filter(
    lambda text: not text.startswith("~") and text.strip() != "null"
)
NAMES = st.from_regex(SECRET_NAME.pattern or "", fullmatch=True, alphabet=st.characters(codec="ascii")).filter(
    lambda name: len(name) <= 20
)
REFERENCES = st.one_of(
    st.builds(EnvironmentReference, NAMES),
    st.builds(FileReference, TEXT),
    st.builds(CommandReference, st.lists(TEXT, min_size=1, max_size=3).map(tuple)),
)


# Which members a record may have together, and which of them must be there.
VARIANTS: dict[type[Struct], list[tuple[str, str]]] = {
    McpServerSettings: [
        ("command", "args env cwd protocol timeout type disabled"),
        ("url", "headers protocol timeout type disabled"),
    ],
    ApiSettings: [
        ("document", "base_url overrides headers query timeout output_schemas disabled"),
        ("url", "base_url headers query timeout disabled"),
    ],
    ModelSettings: [
        ("served base_url prices", "model api_key needs_key headers limits timeout"),
        ("served base_url", "model api_key needs_key headers timeout"),
        ("mock replies", "model"),
    ],
    QueryFileSettings: [("file", "mcp")],
    AgentSettings: [
        ("url", "api_key headers trusted_origins poll_interval"),
        ("task_api url api_key", "poll_interval"),
        ("mcp server tool", ""),
    ],
    IssuerSettings: [
        (
            "issuer algorithms scope_map",
            "jwks_url audience subject_claim tenant groups_claim group_map scopes_claim kind_claim agents services "
            "introspection",
        ),
        ("issuer tenant_claim tenant_map", "tenant"),
    ],
}
# Members whose values depend on each other.
FIXED: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "command": ("command", st.sampled_from(["uvx", "npx"])),
    "mock": ("provider", st.just("mock")),
    "served": (
        "provider",
        st.sampled_from([name for name, kind in PROVIDERS.items() if kind.takes_address]),
    ),
    "replies": ("replies", st.dictionaries(st.just("*"), st.integers(0, 9))),
    "task_api": ("type", st.just("task_api")),
    "mcp": ("type", st.just("mcp")),
    "algorithms": ("algorithms", st.lists(st.sampled_from(ALGORITHMS), min_size=1, max_size=3).map(tuple)),
    "scope_map": ("scope_map", st.dictionaries(st.just("use"), st.just(("workflow:run", "execution:*")))),
    "tenant_map": ("tenant_map", st.dictionaries(st.just("A 1"), st.just("acme"))),
}


def settings() -> st.SearchStrategy[Settings]:
    """Any settings that hold together."""
    return _made(settings_outline()).map(_held_together)


def _held_together(made: Settings) -> Settings:
    """What does not fit together is put at its default."""
    server = made.server
    if server.sync_wait_seconds > server.sync_wait_max_seconds:
        server = replace(server, sync_wait_seconds=0.0)
    if server.mcp.path == server.base_path:
        server = replace(server, base_path="/api/v0")
    made = replace(made, server=server, mcp_allow_commands=("uvx", "npx", *made.mcp_allow_commands))
    servers = [name for name, item in made.mcp_servers.items() if not item.disabled]
    agents = {name: agent for name, agent in made.agents.items() if agent.server in (None, *servers)}
    made = replace(made, agents=agents)
    return made if not list(settings_problems(made)) else Settings()


def _made(section: Section) -> st.SearchStrategy[Any]:
    members = {
        name: _made(member) if isinstance(member, Section) else _value(member)
        for name, member in section.members.items()
    }
    return st.builds(section.made, **members)


def _value(setting: Setting) -> st.SearchStrategy[Any]:
    values = _of_type(setting.type)
    if setting.optional:
        values = st.one_of(st.none(), values)
    return values if setting.required else st.one_of(st.just(setting.default), values)


def _of_type(given: ValueType) -> st.SearchStrategy[Any]:
    match given:
        case StringList():
            return st.lists(_text(given.format), max_size=3).map(tuple)
        case SecretString():
            return st.one_of(REFERENCES, st.just("Bearer ${secret:TOKEN}"))
        case SecretValue():
            return REFERENCES
        case ListOrTable():
            # Hypothesis writes strategies out in full, and warns if that gets long.
            return st.deferred(lambda: st.one_of(_of_type(given.short), _of_type(given.table)))
        case Table():
            names = _text(given.names) if given.names else NAMES
            return st.deferred(lambda: st.dictionaries(names, _of_type(given.items), max_size=2))
        case Record():
            variants = VARIANTS.get(given.made, [(" ".join(member.name for member in given.members), "")])
            return st.one_of([_record(given, must.split(), may.split()) for must, may in variants])
        case _:
            return _plain(given)


def _plain(given: ValueType) -> st.SearchStrategy[Any]:
    match given:
        case Boolean():
            return st.booleans()
        case Integer():
            return st.integers(int(given.minimum or 0), int(given.maximum or 2**40))
        case Number():
            return st.floats(given.minimum, given.maximum or 1e9, allow_nan=False, allow_infinity=False)
        case Duration():
            low_ms = round((given.minimum or 0) * 1000)
            return st.integers(low_ms, DURATION_MS_MAX).map(lambda ms: timedelta(milliseconds=ms))
        case String():
            return _text(given.format)
        case Choice():
            return st.sampled_from(given.words)
        case AnyJson():
            return st.none()
        case _:
            raise AssertionError(f"no strategy for {given}")


def _record(given: Record, must: list[str], may: list[str]) -> st.SearchStrategy[Any]:
    members = {member.name: member for member in given.members}
    chosen = {name: _value(members[name]) for name in may}
    for name in must:
        fixed = FIXED.get(name)
        if fixed is not None:
            chosen[fixed[0]] = fixed[1]
        else:
            chosen[name] = _of_type(members[name].type)
    made: st.SearchStrategy[Any] = st.builds(given.made, **chosen)
    return made.filter(_fits) if given.made is GraphSettings else made


def _fits(made: Any) -> bool:
    return not list(made.problems())


def _text(form: Format | None) -> st.SearchStrategy[str]:
    if form is ALLOWED_HOST:
        return st.sampled_from(["billing.internal", "*.example", "10.1.0.0/16", "::1"])
    if form is SCOPE:
        return st.sampled_from(["workflow:run", "orders.refund", "execution:*", "*"])
    if form is NETWORK:
        return st.sampled_from(["10.0.0.0/8", "127.0.0.1", "fd00::/8"])
    if form is None or form.pattern is None:
        return TEXT
    alphabet = st.characters(codec="ascii", exclude_categories=["Cc"])
    return st.from_regex(form.pattern, fullmatch=True, alphabet=alphabet)
