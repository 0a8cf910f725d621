"""Features by their names: tables and data frames may have their columns in any order."""

from collections.abc import Collection, Sequence

import numpy as np
from torch import Tensor

from sincere.data.samples import listed
from sincere.errors import InputError


def names_of_columns(values: object) -> tuple[str, ...] | None:
    """The names of a data frame's columns; None of what has none, or has the same twice."""
    names = () if isinstance(values, (Tensor, np.ndarray)) else tuple(getattr(values, "columns", ()))
    named = names and all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
    return names if named else None


def places_of_columns(
    wanted: Sequence[str], own: Sequence[str], spare: Collection[str] = (), *, whose: str
) -> list[int]:
    """Where the features of these names are: another table may have its columns in another order, and `spare` ones."""
    missing, more = ([n for n in these if n not in those] for these, those in ((wanted, own), (own, {*wanted, *spare})))
    if missing or more:
        raise InputError(
            f"{whose} columns must be those to train on, {listed([repr(name) for name in wanted], 8)}: "
            + " and ".join(
                f"it {what} {listed([repr(name) for name in names], 8)}"
                for what, names in (("lacks", missing), ("also has", more))
                if names
            )
            + ". Rename or remove them."
        )
    return [own.index(name) for name in wanted]
