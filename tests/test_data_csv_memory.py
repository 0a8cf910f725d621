"""A CSV of numbers is read in little more memory than it takes as a file."""

import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest

from sincere.data.columns import TextColumn
from sincere.data.options import Settings
from sincere.data.tables import ROWS_AT_ONCE, read_table
from sincere.data.tabular import read_tabular
from sincere.errors import InputError


def test_memory_of_reading_numbers(tmp_path):
    rows, width = 20 * ROWS_AT_ONCE + 5, 32
    values = np.random.default_rng(0).standard_normal((rows, width))
    path = tmp_path / "numbers.csv"
    np.savetxt(path, values, "%.7f", ",", header=",".join(f"f{i}" for i in range(width - 1)) + ",label", comments="")
    tracemalloc.start()
    try:
        table = read_table(path, Settings(label_column="label"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Two pieces of 21 are lists of strings at a moment. As strings all of it was 7.7 times the file.
    assert peak < 3 * path.stat().st_size
    samples = read_tabular(table, Settings(label_column="label")).train
    expected = np.round(values[:, :-1], 7).astype(np.float32)
    np.testing.assert_allclose(samples.inputs.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("long", ["", "x" * 5000, "käfer"], ids=["short", "long", "not ASCII"])
def test_a_column_is_a_list_of_its_texts(long):
    texts = [f"{number}" * (number % 4) for number in range(23)]
    texts[7] = long
    column = TextColumn(5)
    for first in range(0, len(texts), 5):
        column.append_piece(texts[first : first + 5])
    assert isinstance(column, Sequence)
    assert list(column) == texts
    assert [column[place] for place in range(len(texts))] == texts
    assert (column[-1], column[3:12:2], len(column)) == (texts[-1], texts[3:12:2], len(texts))
    with pytest.raises(IndexError):
        column[len(texts)]


def test_messages_name_the_line_beyond_the_first_piece(tmp_path):
    path = tmp_path / "odd.csv"
    good = [f"{number}.5,{number % 2}\n" for number in range(ROWS_AT_ONCE + 10)]
    line = ROWS_AT_ONCE + 7
    path.write_text("".join(["value,label\n", *good[: line - 2], "1,2,3\n", *good]))
    with pytest.raises(InputError, match=rf"must have 2 fields in every row.*line {line} has 3"):
        read_table(path, Settings())
    path.write_text("".join(["value,other,label\n", *(f"1,{row}" for row in good[: line - 2]), "1,word,0\n"]))
    with pytest.raises(InputError, match=rf"column 'other'.*line {line} holds 'word'"):
        read_tabular(read_table(path, Settings()), Settings())
