"""What a table's labels are called, and columns that may be labels too: learned from, they would tell the class."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from sincere.data.options import Settings
from sincere.data.samples import listed
from sincere.data.tables import Table
from sincere.errors import InputError

LABEL_NAMES = ("label", "labels", "class", "category", "target", "y", "intent", "topic", "species", "coarse_label")
ROWS_A_VALUE = 10  # on average, for a column to have few values


def check_one_label(table: Table, column: str | None, settings: Settings) -> None:
    """Refuse a second usual name of labels among features, unless the caller has named the one with the classes."""
    likely = [name for name in table.columns if name.lower() in LABEL_NAMES]
    if "x" in {name.lower() for name in table.columns}:  # then y is a coordinate
        likely = [name for name in likely if name == column or name.lower() != "y"]
    if settings.label_column is None and len(likely) > 1:
        raise InputError(
            f"{table.path} must have one column of labels: {' and '.join(map(repr, likely))} all look like it. Name "
            f"the one with the classes, as in label_column={column!r}; others are learned from, so remove what tells "
            "the class."
        )


def telling_note(
    table: Table, columns: Mapping[str, npt.NDArray[np.float64]], labels: Sequence[str]
) -> tuple[str, ...]:
    """A note on columns that may be the label in other words: few values, each of them of one class alone."""
    if len(set(labels)) < 2:
        return ()
    telling = []
    for name, numbers in columns.items():
        values = len(np.unique(numbers))
        few = 1 < values * ROWS_A_VALUE <= len(labels)
        if few and values == len(set(zip(numbers.tolist(), labels, strict=True))):
            telling.append(repr(name))
    if not telling:
        return ()
    return (
        f"every value of column {listed(telling, 6)} in {table.path} belongs to one class alone: if that is the label "
        "in other words, it tells what is to be learned, and is to be removed.",
    )
