"""Tables that fit into a width."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.terminal.styled_text import Text
from penstock.cli.terminal.tables import GAP_CELLS, Column, table_lines

TABLES = st.integers(1, 5).flatmap(
    lambda count: st.tuples(
        st.lists(
            st.builds(Column, st.text("abc", max_size=6), st.integers(1, 6), st.booleans()),
            min_size=count,
            max_size=count,
        ),
        st.lists(st.lists(st.text("ab 日", max_size=20), min_size=count, max_size=count), max_size=5),
    )
)


def drawn(columns: list[Column], rows: list[list[str]], width: int) -> list[str]:
    return [line.plain for line in table_lines(columns, [[Text(cell) for cell in row] for row in rows], width)]


@given(TABLES, st.integers(1, 100))
def test_lines_are_equally_wide_and_fit_if_the_least_widths_do(
    table: tuple[list[Column], list[list[str]]], width: int
) -> None:
    columns, rows = table
    lines = table_lines(columns, [[Text(cell) for cell in row] for row in rows], width)
    assert len(lines) == len(rows) + 1
    [cells] = {line.cells for line in lines}
    least = sum(column.least for column in columns) + GAP_CELLS * (len(columns) - 1)
    assert cells <= max(width, least)
    if any(column.grows for column in columns) and width >= least:
        assert cells == width


def test_the_widest_column_gives_way_first_and_none_below_its_least_width() -> None:
    rows = [["a" * 10, "b" * 20, "c" * 4]]
    columns = [Column("x"), Column("y"), Column("z", least=4)]
    assert drawn(columns, rows, 38)[1] == f"{'a' * 10}  {'b' * 20}  cccc"
    assert drawn(columns, rows, 30)[1] == f"{'a' * 10}  {'b' * 11}…  cccc"
    assert drawn(columns, rows, 16)[1] == "aaa…  bbb…  cccc"
    assert drawn(columns, rows, 3)[1] == "…  …  cccc"


def test_columns_that_grow_share_the_room_and_wide_characters_are_aligned() -> None:
    columns = [Column("id", grows=True), Column("what", grows=True), Column("since")]
    lines = drawn(columns, [["日本", "x", "1 s"], ["ab", "yy", "20 s"]], 30)
    assert lines == [
        "id          what         since",
        "日本        x            1 s  ",
        "ab          yy           20 s ",
    ]


def test_headings_are_left_out_or_have_a_style() -> None:
    rows = [[Text("a")]]
    assert [line.plain for line in table_lines([Column("h")], rows, 9, heading_style=None)] == ["a"]
    heading, _ = table_lines([Column("h")], rows, 9, heading_style="dim")
    assert list(heading.parts()) == [("h", "dim")]
    assert table_lines([Column("h")], [], 9)[0].plain == "h"
