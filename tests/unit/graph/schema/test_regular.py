"""Regular expressions of `@check`."""

from penstock.graph.schema.regular import compile_pattern, matches


def test_a_value_matches_as_a_whole() -> None:
    compiled = compile_pattern("[a-z]+|x1")
    assert not isinstance(compiled, str)
    assert matches(compiled, "abc")
    assert matches(compiled, "x1")
    assert not matches(compiled, "a1")
    assert not matches(compiled, "abc\n")


def test_a_pattern_that_is_not_valid_is_explained() -> None:
    assert isinstance(compile_pattern("("), str)
