"""Power laws through measured points, with intervals."""

from collections.abc import Sequence

import numpy as np

from sincere.claims.record import Measured
from sincere.errors import InputError


def exponent(
    what: str, x: Sequence[float], y: Sequence[float], *, n: str | None = None, paper: str | None = None
) -> Measured:
    """The exponent b of y = a·x^b by least squares on logarithms, with Student's 95 % interval.

    >>> round(exponent("area", [1, 2, 3, 4], [3, 12, 27, 48]).value, 6)
    2.0
    """
    if len(x) != len(y) or len(x) < 3 or not all(0 < value < np.inf for value in (*x, *y)) or len(set(x)) < 2:
        raise InputError(
            f"{what}: an exponent needs three or more points of positive numbers, not all at one place: "
            f"got x={list(x)}, y={list(y)}."
        )
    from scipy.stats import linregress, t

    found = linregress(np.log(x), np.log(y))
    error = 0.0 if len(set(y)) == 1 else float(found.stderr)  # where y never varies scipy says NaN of a perfect fit
    half = float(t.ppf(0.975, len(x) - 2)) * error
    slope = float(found.slope)
    return Measured(what, slope, slope - half, slope + half, n or f"{len(x)} points", paper)
