"""Steps: how functions are declared and found, and how JSON becomes their arguments."""

import dataclasses
import datetime
import enum
import functools
import logging
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NewType, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import Conflict, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.runtime.steps.binding import BindingProblem, NotJson, to_json
from penstock.runtime.steps.registry import (
    NoObserver,
    RegisteredStep,
    StepContext,
    StepFailed,
    StepKind,
    StepRegistry,
    input_schema,
    output_schema,
    step,
)
from tests.unit.runtime.executors.calls import call_of

pydantic = pytest.importorskip("pydantic")

OrderId = NewType("OrderId", str)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@dataclasses.dataclass
class Address:
    street: str
    zip: str = "0000"


class Line(msgspec.Struct):
    item: str
    count: int


class Options(TypedDict, total=False):
    express: bool


class Color(enum.Enum):
    RED = "red"


class Card(pydantic.BaseModel):  # type: ignore[misc, name-defined]
    number: str
    limit: int = 100


def bind(function: Any, arguments: JsonValue) -> Any:
    bound = RegisteredStep.of(function).signature.bind(arguments)
    return bound.message if isinstance(bound, BindingProblem) else bound


# --- declaring ------------------------------------------------------------------------------------------


def test_a_declared_function_stays_what_it_was() -> None:
    def plain(amount: int) -> int:
        return amount + 1

    assert step(plain) is plain
    assert step(name="x")(plain)(1) == 2


def test_where_a_function_runs_follows_from_what_it_is() -> None:
    async def is_async() -> None: ...
    def is_plain() -> None: ...

    assert RegisteredStep.of(is_async).kind is StepKind.LOOP
    assert RegisteredStep.of(is_plain).kind is StepKind.THREAD
    assert RegisteredStep.of(crunch).kind is StepKind.PROCESS


@step(process=True)
def crunch(numbers: list[int]) -> int:
    return sum(numbers)


@step(name="shop.payments:refund")
async def refund(order_id: str, amount: float = 1.0, *, context: StepContext) -> JsonObject:
    return {"order_id": order_id, "amount": amount, "key": context.idempotency_key}


def test_functions_that_cannot_be_steps_are_refused_with_the_reason() -> None:
    async def is_async() -> None: ...
    def inside() -> None: ...
    def positional(amount: int, /) -> None: ...
    def mixed(what: Address | Line) -> None: ...

    cases: list[tuple[Any, str]] = [
        (step(process=True)(is_async), "is async"),
        (step(process=True)(inside), "another process cannot find it"),
        (positional, "`amount` is positional-only"),
        (mixed, "cannot be made from JSON"),
        (functools.partial(inside), "no name"),
    ]
    for function, reason in cases:
        with pytest.raises(Rejected, match=reason):
            RegisteredStep.of(function)


def test_an_annotation_that_nobody_knows_is_named() -> None:
    def lost(amount: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(Rejected, match="`Missing`"):
        RegisteredStep.of(lost)


def test_a_failure_survives_pickling() -> None:
    copy = pickle.loads(pickle.dumps(StepFailed("CODE", "told", retryable=False)))
    assert (copy.code, copy.message, copy.retryable) == ("CODE", "told", False)
    assert str(copy) == "CODE: told"


# --- finding ------------------------------------------------------------------------------------------


def test_a_step_is_found_by_its_name_and_by_its_module() -> None:
    registry = StepRegistry()
    made = registry.register(refund)
    assert registry.resolve("shop.payments:refund") is made
    assert registry.resolve(f"{__name__}:refund") is made
    assert registry.register(refund).function is refund
    assert registry.resolve("refund") is None


def test_a_method_of_an_object_can_be_a_step() -> None:
    class Shop:
        def __init__(self, currency: str) -> None:
            self.currency = currency

        @step(name="price")
        def price(self, amount: int) -> str:
            return f"{amount} {self.currency}"

    found = StepRegistry().register(Shop("EUR").price)
    assert found.function(**bind(found.function, {"amount": 3})) == "3 EUR"


def test_two_functions_of_one_name_are_refused() -> None:
    @step(name="shop.payments:refund")
    def other() -> None: ...

    registry = StepRegistry()
    registry.register(refund)
    with pytest.raises(Conflict, match=r"two steps are called shop.payments:refund"):
        registry.register(other)


def test_a_document_cannot_make_anything_be_imported() -> None:
    registry = StepRegistry()
    assert registry.resolve("tests.unit.runtime.executors.process_steps:add") is None
    assert registry.resolve("os:system") is None


def test_an_operator_may_allow_imports_but_only_declared_steps_are_found() -> None:
    registry = StepRegistry(allow_import=True)
    found = registry.resolve("tests.unit.runtime.executors.process_steps:add")
    assert found is not None
    assert found.function(1, 2).total == 3
    for handler in (
        "os:system",
        "builtins:eval",
        "no.such.module:f",
        "nothing",
        "os:",
        ":system",
        "../x:y",
        "os:path.join",
    ):
        assert registry.resolve(handler) is None


def test_a_module_that_cannot_be_imported_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "broken_steps.py").write_text("import no_such_thing_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    with caplog.at_level(logging.ERROR, "penstock.step"):
        assert StepRegistry(allow_import=True).resolve("broken_steps:pay") is None
    assert "no_such_thing_at_all" in caplog.text


def test_installed_packages_offer_steps_as_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_steps.py").write_text("def refund(amount: int) -> int:\n    return amount\n")
    installed = tmp_path / "shop-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n")
    entries = "[penstock.steps]\nshop.refund = shop_steps:refund\nshop.broken = no_such_thing_at_all:f\n"
    (installed / "entry_points.txt").write_text(entries)
    monkeypatch.syspath_prepend(tmp_path)
    registry = StepRegistry()
    found = registry.resolve("shop.refund")
    assert found is not None
    assert found.function(3) == 3
    assert registry.resolve("shop.refund") is found
    assert registry.resolve("shop.broken") is None


# --- arguments ------------------------------------------------------------------------------------------


def test_arguments_become_what_the_annotations_say() -> None:
    def pay(  # noqa: PLR0913, PLR0917
        order: OrderId,
        address: Address,
        lines: list[Line],
        color: Color,
        kind: Literal["fast", "slow"],
        options: Options,
        at: datetime.date,
        amount: Decimal,
        note: str | None = None,
    ) -> None: ...

    assert bind(
        pay,
        {
            "order": "A-1",
            "address": {"street": "Main"},
            "lines": [{"item": "x", "count": 2}],
            "color": "red",
            "kind": "fast",
            "options": {"express": True},
            "at": "2026-11-15",
            "amount": "12.50",
        },
    ) == {
        "order": "A-1",
        "address": Address("Main"),
        "lines": [Line("x", 2)],
        "color": Color.RED,
        "kind": "fast",
        "options": {"express": True},
        "at": datetime.date(2026, 11, 15),
        "amount": Decimal("12.50"),
    }


def test_pydantic_models_are_understood_wherever_they_stand() -> None:
    def pay(card: Card, others: list[Card]) -> None: ...

    bound = bind(pay, {"card": {"number": "1"}, "others": [{"number": "2", "limit": 5}]})
    assert (bound["card"].limit, bound["others"][0].limit) == (100, 5)
    assert "limit" in bind(pay, {"card": {"number": "1", "limit": "x"}, "others": []})
    assert "http" not in bind(pay, {"card": {"number": "1", "limit": "x"}, "others": []})


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "needs the argument `order_id`"),
        ({"order_id": "A", "amout": 2}, "no parameter `amout`; did you mean `amount`?"),
        ({"order_id": "A", "zzz": 2}, "no parameter `zzz`; it takes `order_id`, `amount`"),
        (
            {"order_id": "A", "amount": "2"},
            "`amount` of shop.payments:refund does not fit: Expected `float`, got `str`",
        ),
        ({"order_id": 1}, "`order_id`"),
        ({"order_id": "A", "context": {}}, "no parameter `context`"),
        ([1], "must be an object, not a list"),
        ("A", "must be an object, not a text"),
    ],
)
def test_arguments_that_do_not_fit_are_named(arguments: JsonValue, told: str) -> None:
    assert told in bind(refund, arguments)


def test_a_place_deep_inside_an_argument_is_named() -> None:
    def pay(lines: list[Line]) -> None: ...

    assert "`lines[1].count`" in bind(pay, {"lines": [{"item": "x", "count": 1}, {"item": "y", "count": "z"}]})


def test_no_arguments_are_the_same_as_an_empty_object() -> None:
    def pay(amount: int = 3) -> None: ...

    assert bind(pay, None) == bind(pay, {}) == {}


def test_whole_numbers_are_integers_however_they_are_written() -> None:
    def pay(count: int, counts: list[int], share: float) -> None: ...

    assert bind(pay, {"count": 3.0, "counts": [1.0], "share": 2}) == {"count": 3, "counts": [1], "share": 2.0}
    assert "`count`" in bind(pay, {"count": 3.5, "counts": [], "share": 1})


def test_a_function_that_takes_anything_gets_everything() -> None:
    def log(level: str, **more: Any) -> None: ...

    assert bind(log, {"level": "info", "a": 1, "b": [2]}) == {"level": "info", "a": 1, "b": [2]}


def test_json_types_of_our_own_are_understood() -> None:
    def keep(value: JsonValue, members: JsonObject, several: list[JsonObject]) -> JsonValue: ...

    arguments: JsonObject = {"value": [1, {"a": None}], "members": {"b": 2}, "several": [{"c": [3]}]}
    assert bind(keep, arguments) == arguments
    assert "`members`" in bind(keep, {**arguments, "members": 3})


def test_a_step_cannot_change_the_state_of_its_run_through_its_arguments() -> None:
    def plain(items, more):  # type: ignore[no-untyped-def]
        ...

    def typed(items: list[Any], more: int) -> None: ...

    for function in (plain, typed):
        original: JsonObject = {"items": [{"a": [1]}], "more": 1}
        bound = bind(function, original)
        bound["items"][0]["a"].append(2)
        bound["extra"] = 1
        assert original == {"items": [{"a": [1]}], "more": 1}


@given(st.dictionaries(st.sampled_from(["one", "two", "three"]), JSON_VALUES))
def test_binding_answers_any_arguments(arguments: JsonObject) -> None:
    def typed(one: int, two: str = "") -> None: ...

    bound = RegisteredStep.of(typed).signature.bind(arguments)
    if isinstance(bound, BindingProblem):
        assert bound.message
    else:
        assert isinstance(bound["one"], int)
        assert bound.keys() <= {"one", "two"}


def test_a_context_parameter_is_found_by_type_or_name() -> None:
    def by_type(amount: int, me: StepContext) -> None: ...
    def maybe(me: StepContext | None = None) -> None: ...
    def by_name(context):  # type: ignore[no-untyped-def]
        ...

    def something_else(context: str) -> None: ...

    found = [RegisteredStep.of(item).context_parameter for item in (by_type, maybe, by_name, something_else)]
    assert found == ["me", "me", "context", None]


# --- results ------------------------------------------------------------------------------------------


def test_results_become_json() -> None:
    given_value = {
        "address": Address("Main"),
        "line": Line("x", 1),
        "card": Card(number="1"),
        "at": datetime.datetime(2026, 11, 15, tzinfo=datetime.UTC),
        "color": Color.RED,
        "amount": Decimal("1.5"),
        "pair": (1, 2),
        "nothing": None,
        3: "three",
    }
    assert to_json(given_value) == {
        "address": {"street": "Main", "zip": "0000"},
        "line": {"item": "x", "count": 1},
        "card": {"number": "1", "limit": 100},
        "at": "2026-11-15T00:00:00Z",
        "color": "red",
        "amount": "1.5",
        "pair": [1, 2],
        "nothing": None,
        "3": "three",
    }


def test_what_is_not_json_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    deep: list[Any] = []
    for _ in range(70):
        deep = [deep]
    for value in (
        object(),
        {"a": object()},
        float("nan"),
        [{"b": (1, float("inf"))}],
        circle,
        deep,
        "\ud800",
        {(1, 2): 3},
        "x" * 2_000_000,
    ):
        with pytest.raises(NotJson):
            to_json(value)


@given(JSON_VALUES)
def test_json_stays_what_it_is(value: JsonValue) -> None:
    assert to_json(value) == value


# --- schemas --------------------------------------------------------------------------------------------


def test_schemas_follow_from_the_annotations() -> None:
    def pay(order_id: str, amount: float = 1.5, address: Address | None = None) -> list[Line]:
        return []

    schema = input_schema(pay)
    assert schema["type"] == "object"
    assert schema["required"] == ["order_id"]
    assert schema["additionalProperties"] is False
    properties = schema["properties"]
    assert isinstance(properties, dict)
    assert properties["order_id"] == {"type": "string"}
    assert properties["amount"] == {"type": "number", "default": 1.5}
    assert isinstance(schema["$defs"], dict)
    assert list(schema["$defs"]) == ["Address"]
    output = output_schema(pay)
    assert output is not None
    assert output["type"] == "array"
    assert input_schema(refund) == input_schema(RegisteredStep.of(refund))


def test_a_function_without_annotations_has_the_widest_schema() -> None:
    def anything(value, **more):  # type: ignore[no-untyped-def]
        ...

    assert input_schema(anything) == {"type": "object", "properties": {"value": {}}, "required": ["value"]}
    assert output_schema(anything) is None


def test_a_pydantic_model_has_its_own_schema() -> None:
    def pay(card: Card) -> Card:
        return card

    output = output_schema(pay)
    assert output is not None
    assert "number" in str(input_schema(pay))
    assert "number" in str(output)


# --- context --------------------------------------------------------------------------------------------


def test_the_logger_of_a_step_says_where_it_is(caplog: pytest.LogCaptureFixture) -> None:
    context = StepContext(call_of("step", {}), NoObserver())
    with caplog.at_level(logging.INFO, "penstock.step"):
        context.logger.info("paid %s", 20, extra={"order": "A-1"})
    [record] = caplog.records
    fields = vars(record)
    assert record.getMessage() == "paid 20"
    assert (fields["run_id"], fields["node_id"], fields["attempt"], fields["order"]) == ("r_1", "pay", 1, "A-1")


def test_a_context_without_a_task_is_not_cancelled() -> None:
    context = StepContext(call_of("step", {"handler": "x"}), NoObserver())
    context.heartbeat()
    context.progress(1.0)
    context.raise_if_cancelled()
    assert not context.wait_cancelled(0)
    assert context.config == {"handler": "x"}
