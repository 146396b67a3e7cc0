"""The parameters of a call."""

from penstock.graph.parameters.calls import ParameterProblem, coerce_parameters
from tests.unit.graph.samples import checked

QUERY = checked(
    "query q($owner: String, $max: I64?, $states: [String]?) { match { $u: User { handle: $owner } $u owns $t "
    "$u.visits < $max $t.state in $states } return { $t } }"
)


def test_every_parameter_has_a_value_in_the_end() -> None:
    found = coerce_parameters(QUERY.parameters, {"owner": "ada", "max": "12"})
    assert found == {"owner": "ada", "max": 12, "states": None}


def test_everything_that_is_wrong_is_said_at_once() -> None:
    found = coerce_parameters(QUERY.parameters, {"ownr": "ada", "max": True, "states": ["open", "lost"]})
    assert found == (
        ParameterProblem("ownr", "is not declared; did you mean `owner`?", "/ownr"),
        ParameterProblem("owner", "is missing", "/owner"),
        ParameterProblem("max", "needs a whole number, not true", "/max"),
        ParameterProblem("states", "needs some of blocked, done, open at index 1", "/states/1"),
    )
    assert str(found[1]) == "parameter `owner` is missing"


def test_null_and_nothing_are_the_same_for_a_nullable_parameter_only() -> None:
    assert coerce_parameters(QUERY.parameters, {"owner": "a", "max": None}) == coerce_parameters(
        QUERY.parameters, {"owner": "a"}
    )
    assert coerce_parameters(QUERY.parameters, {"owner": None}) == (
        ParameterProblem("owner", "must not be null", "/owner"),
    )
    assert coerce_parameters((), None) == {}
