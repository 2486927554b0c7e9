"""What a task packs comes out the same, and panes of single reports at half the size."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.loads.packing import pack, unpack

NAMES = st.sampled_from(["", "a:8080", "b:8080", "ü"])
NUMBERS = st.floats(allow_infinity=True, allow_nan=False)
Row = tuple[str, int, float, float, float | None]
ROWS = st.lists(st.tuples(NAMES, st.integers(0, 3), NUMBERS, NUMBERS, st.none() | NUMBERS), max_size=40)


@given(ROWS, st.booleans())
def test_every_table_comes_out_as_it_went_in(rows: list[Row], one: bool) -> None:
    """`one`: of a single report, so sums and largest values are the same."""
    brokers, ends, sums, largest, others = (list(column) for column in zip(*rows, strict=True)) if rows else [[]] * 5
    table = pa.table(
        {
            "pane_end_ms": pa.array(ends, pa.int64()),
            "rate_max": pa.array(sums if one else largest, pa.float64()),  # before its sum
            "broker": pa.array(brokers, pa.string()),
            "rate_sum": pa.array(sums, pa.float64()),
            "alone_max": pa.array(others, pa.float64()),
            "reports": pa.array(ends, pa.int64()),
        }
    )
    found = unpack(pack(table))
    assert found.schema == table.schema
    assert found.equals(table)


@pytest.mark.parametrize("distinct", [127, 128, 32_767, 32_768, 40_000])
def test_any_number_of_names_fits(distinct: int) -> None:
    table = pa.table({"broker": [f"b{number}" for number in range(distinct)]})
    assert unpack(pack(table)).equals(table)


def test_a_column_of_several_chunks_is_packed_as_one() -> None:
    part = pa.table({"broker": ["a", "b"], "rate_sum": [1.0, 2.0], "rate_max": [1.0, 2.0]})
    table = pa.concat_tables([part, part])
    assert unpack(pack(table)).equals(table)


def test_panes_of_single_reports_take_half_the_bytes() -> None:
    rows = 10_000
    values = [number + 0.5 for number in range(rows)]
    sums = {f"rate{n}_{part}": values for n in range(13) for part in ("sum", "max")}
    names = {"pane_end_ms": [10_000] * rows, "broker": ["broker-1.example:8080"] * rows, "reports": [1] * rows}
    table = pa.table(names | sums)
    assert len(pack(table)) < 0.5 * table.nbytes
