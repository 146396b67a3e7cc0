"""What is known of tools of other servers: their hash, and the rules for them."""

import pytest
from msgspec.structs import replace

from penstock.runtime.upstreams.tools import ImportRules, ToolRule, UpstreamTool, tool_hash

TOOL = UpstreamTool(
    name="search",
    title="Search",
    description="Finds items.",
    input_schema={"type": "object", "properties": {"query": {"type": "string"}}},
    output_schema={"type": "object"},
    annotations={"readOnlyHint": True},
)


@pytest.mark.parametrize(
    "changed",
    [
        replace(TOOL, name="other"),
        replace(TOOL, title=None),
        replace(TOOL, description="Finds items. "),
        replace(TOOL, input_schema={"type": "object", "properties": {"query": {"type": "string", "title": "!"}}}),
        replace(TOOL, output_schema=None),
    ],
)
def test_everything_that_a_model_is_shown_counts(changed: UpstreamTool) -> None:
    assert tool_hash(changed) != tool_hash(TOOL)


def test_order_and_claims_do_not_count() -> None:
    written = {"properties": {"query": {"type": "string"}}, "type": "object"}
    assert tool_hash(replace(TOOL, input_schema=written, annotations={})) == tool_hash(TOOL)


def test_nothing_is_imported_unless_it_is_listed() -> None:
    assert not ImportRules(prefix="shop").admits("search")
    rules = ImportRules(prefix="shop", tools=("read_*", "search"))
    assert [rules.admits(name) for name in ("search", "search2", "read_a", "Search")] == [True, False, True, False]


def test_the_exact_name_counts_before_a_pattern() -> None:
    rules = ImportRules(prefix="shop", rules={"*": ToolRule(risk="high"), "search": ToolRule(risk="low")})
    assert (rules.rule_of("search").risk, rules.rule_of("order").risk) == ("low", "high")


def test_tenants_are_listed() -> None:
    assert ImportRules(prefix="shop").is_for("default")
    assert not ImportRules(prefix="shop").is_for("other")
    assert ImportRules(prefix="shop", tenants=("*",)).is_for("other")
