"""The results of bodies: a table that shares what it has with the one before it."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.state import IndexedResults

PAIRS = st.lists(st.tuples(st.integers(0, 1_000), st.integers()), max_size=60)


@given(PAIRS)
def test_a_table_holds_what_a_dictionary_holds_in_the_order_of_its_indexes(pairs: list[tuple[int, int]]) -> None:
    table, known = IndexedResults(), dict[int, int]()
    for index, result in pairs:
        table, known[index] = table.added(index, result), result
    assert table.in_order() == sorted(known.items())
    assert all(table.get(index) == result for index, result in known.items())
    assert table.get(1_001) is None


def test_adding_leaves_the_table_before_it_as_it_was_and_copies_one_block() -> None:
    before = IndexedResults()
    for index in range(1_000):
        before = before.added(index, index)
    after = before.added(1_000, "new")
    assert before.get(1_000) is None
    assert after.get(1_000) == "new"
    shared = [number for number, block in after.blocks.items() if block is before.blocks.get(number)]
    assert len(shared) == len(after.blocks) - 1


def test_tables_with_the_same_results_are_equal_in_whatever_order_they_came() -> None:
    assert IndexedResults().added(1, "a").added(300, "b") == IndexedResults().added(300, "b").added(1, "a")
