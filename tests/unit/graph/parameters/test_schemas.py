"""JSON Schemas of parameters: they accept what coercion accepts, apart from what a schema cannot say.

The corpus has every type and every value. Where the schema is wider than the coercion, the reason is written down; it
is never narrower.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.schemas.compiled import CompiledSchema, compile_schema, is_valid
from penstock.graph.parameters.calls import coerce_parameters
from penstock.graph.parameters.schemas import input_schema, parameters_schema, type_schema
from penstock.graph.parameters.values import Unfit, from_json
from penstock.graph.schema.model import Base, Enum, ListOf, Scalar, ValueType, Vector
from penstock.graph.typing.model import CheckedParameter

TYPES: dict[str, ValueType] = {
    **{str(base): Scalar(base) for base in Base},
    **{f"[{base}]": ListOf(base) for base in Base if base is not Base.BLOB},
    "Vector(3)": Vector(3),
    "enum": Enum(("done", "open")),
}
_LISTS: list[JsonValue] = [
    [],
    [1, 2, 3],
    [1, 2],
    [1.5, 2, 3],
    [1, 2, 3, 4],
    ["a", "b"],
    ["open"],
    [None],
    [1, None],
    [[1]],
    [True, False],
    [True, 2, 3],
    ["1", "2"],
    ["2026-01-31"],
    ["2026-02-30"],
    ["2026-01-31T09:00:00Z"],
    [1e39, 1, 2],
]
_OBJECTS: list[JsonValue] = [{}, {"a": 1}]
VALUES: tuple[JsonValue, ...] = (
    *_LISTS,
    *_OBJECTS,
    *(None, True, False, 0, 1, -1, 5.0, 5.5, -0.0, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32 - 1, 2**32),
    *(2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 1e18, 1e19, 1e20, 1e300, -1e300, 10**400),
    *(
        3.4028234663852886e38,
        3.4028235e38,
        3.5e38,
        0.1,
        "",
        "text",
        "0",
        "5",
        "-5",
        "5.0",
        "1e3",
        "007",
        "true",
        "open",
    ),
    *(
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775809",
        "18446744073709551615",
        "99999999999999999999",
    ),
    *(
        "18446744073709551616",
        "123456789012345678901",
        "\u0663",
        "\0",
        "é",
        "2026-01-31",
        "2026-02-30",
        "2026-1-31",
        "0000-01-01",
    ),
    *(
        "2026-01-31T09:00:00Z",
        "2026-01-31T09:00:00",
        "2026-01-31 09:00",
        "2026-01-31T25:00:00Z",
        "2026-01-31T09:00:00+01:00",
    ),
    *("2026-01-31T09:00:00.123456789Z", "2026-01-31T09:00:00.1234567890Z", "2026-01-31T09:00:00+99:00", "not a date"),
    *(
        "base64:",
        "base64:aGk=",
        "base64:aGk",
        "base64:a",
        "base64:***",
        "aGk=",
        "https://example.org/x",
        "base64:aGk=\n",
    ),
)
# Why a schema accepts what coercion refuses.
WIDER = {
    "the range of numbers that are written as texts": {"I64", "U64", "[I64]", "[U64]"},
    "days that are not in the calendar": {"Date", "[Date]"},
    "times that are not in the calendar": {"DateTime", "[DateTime]"},
    "U+0000": {"String", "[String]"},
    "base64 of the wrong length": {"Blob"},
}


def compiled(schema: JsonObject) -> CompiledSchema:
    found = compile_schema(schema)
    assert isinstance(found, CompiledSchema), found
    return found


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("nullable", [False, True])
def test_a_schema_accepts_what_coercion_accepts_and_little_more(name: str, nullable: bool) -> None:
    value_type = TYPES[name]
    schema = compiled(type_schema(value_type, nullable=nullable))
    may_be_wider = any(name in types for types in WIDER.values())
    accepted = 0
    for value in VALUES:
        coerced = not isinstance(from_json(value, value_type, nullable=nullable), Unfit)
        valid = is_valid(schema, value)
        assert valid or not coerced, f"the schema of {name} refuses {value!r}"
        assert coerced or not valid or may_be_wider, f"the schema of {name} accepts {value!r}"
        accepted += coerced
    assert 0 < accepted < len(VALUES)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("I64", "9223372036854775808"),
        ("U64", "18446744073709551616"),
        ("Date", "2026-02-30"),
        ("Date", "0000-01-01"),
        ("DateTime", "2026-01-31T25:00:00Z"),
        ("DateTime", "2026-01-31T09:00:00+99:00"),
        ("String", "\0"),
        ("Blob", "base64:aGk"),
    ],
)
def test_where_a_schema_is_wider_there_is_a_reason(name: str, value: JsonValue) -> None:
    assert is_valid(compiled(type_schema(TYPES[name])), value)
    assert isinstance(from_json(value, TYPES[name]), Unfit)
    assert any(name in types for types in WIDER.values())


def test_only_documented_values_are_wider() -> None:
    """Every value for which a schema is wider is a text, or a list of texts: numbers and shapes agree exactly."""
    for name, value_type in TYPES.items():
        schema = compiled(type_schema(value_type))
        for value in VALUES:
            if is_valid(schema, value) and isinstance(from_json(value, value_type), Unfit):
                texts = value if isinstance(value, list) else [value]
                assert all(isinstance(each, str) for each in texts), (name, value)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=5,
)


@given(_JSON, st.sampled_from(sorted(TYPES)), st.booleans())
def test_no_value_that_is_coerced_is_refused_by_the_schema(value: JsonValue, name: str, nullable: bool) -> None:
    if not isinstance(from_json(value, TYPES[name], nullable=nullable), Unfit):
        assert is_valid(compiled(type_schema(TYPES[name], nullable=nullable)), value)


PARAMETERS = (
    CheckedParameter(name="state", type=Scalar(Base.STRING), values=("done", "open"), description="The state."),
    CheckedParameter(name="states", type=ListOf(Base.STRING), nullable=True, values=("done", "open")),
    CheckedParameter(name="big", type=Scalar(Base.I64), nullable=True),
    CheckedParameter(name="v", type=Vector(2), nullable=True),
)


@pytest.mark.parametrize(
    ("given", "fits"),
    [
        ({"state": "open"}, True),
        ({"state": "open", "big": None, "states": ["done"]}, True),
        ({"state": "open", "v": [1, 2]}, True),
        ({}, False),
        ({"state": None}, False),
        ({"state": "closed"}, False),
        ({"state": "open", "states": ["closed"]}, False),
        ({"state": "open", "stat": "open"}, False),
        ({"state": "open", "v": [1]}, False),
        ({"state": "open", "big": 1.5}, False),
    ],
)
def test_the_parameters_of_a_call_have_a_schema_that_agrees(given: JsonObject, fits: bool) -> None:
    assert is_valid(compiled(parameters_schema(PARAMETERS)), given) is fits
    assert isinstance(coerce_parameters(PARAMETERS, given), dict) is fits


def test_notes_are_on_the_outer_property() -> None:
    properties = parameters_schema(PARAMETERS)["properties"]
    assert isinstance(properties, dict)
    texts = {name: schema.get("description") for name, schema in properties.items() if isinstance(schema, dict)}
    assert texts["state"] == "The state."
    assert "beyond 2^53" in str(texts["big"])
    assert "null" in str(texts["big"])
    assert "language model" in str(texts["v"])


def test_parameters_are_nested_and_only_reads_have_snapshots() -> None:
    read = input_schema(PARAMETERS, mutation=False)
    mutation = input_schema((), mutation=True)
    assert isinstance(read["properties"], dict)
    assert isinstance(mutation["properties"], dict)
    assert set(read["properties"]) == {"params", "branch", "snapshot"}
    assert set(mutation["properties"]) == {"params", "branch"}
    assert read["required"] == ["params"]
    assert "required" not in mutation
    assert is_valid(compiled(read), {"params": {"state": "open"}, "branch": "main"})
    assert not is_valid(compiled(read), {"state": "open"})
    assert not is_valid(compiled(mutation), {"snapshot": "x"})


def test_only_keywords_that_clients_know_are_used() -> None:
    known = {
        *("type", "properties", "required", "items", "minItems", "maxItems", "pattern", "minimum", "maximum", "enum"),
        *("description", "additionalProperties", "format"),
    }
    seen: set[str] = set()

    def walk(schema: JsonValue) -> None:
        assert isinstance(schema, dict)
        seen.update(schema)
        properties = schema.get("properties", {})
        assert isinstance(properties, dict)
        for each in (*properties.values(), *([schema["items"]] if "items" in schema else [])):
            walk(each)

    for value_type in TYPES.values():
        walk(input_schema((), mutation=False))
        walk(type_schema(value_type, nullable=True))
    walk(input_schema(PARAMETERS, mutation=False))
    assert seen <= known
