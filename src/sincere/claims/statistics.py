"""Figures over several seeds or cases, with their intervals."""

from collections.abc import Sequence
from math import atanh, isfinite, sqrt, tanh
from statistics import fmean, stdev

from sincere.claims.record import Measured
from sincere.errors import InputError, OptionError


def over_seeds(what: str, values: Sequence[float], *, paper: str | None = None, of: str = "seeds") -> Measured:
    """The mean with Student's 95 % interval; without an interval where there is only one value."""
    if not values:
        raise OptionError(f"{what}: there must be at least one value to take the mean of.")
    if not all(map(isfinite, values)):
        raise InputError(f"{what}: every value must be finite to take the mean of: got {list(values)}.")
    mean = fmean(values)
    if len(values) == 1:
        return Measured(what, mean, n=f"1 {of.removesuffix('s')}", paper=paper)
    from scipy.stats import t

    half = float(t.ppf(0.975, len(values) - 1)) * stdev(values) / len(values) ** 0.5
    return Measured(what, mean, mean - half, mean + half, f"{len(values)} {of}", paper)


def wholly_above_zero(measured: Measured) -> bool:
    """The whole interval; a figure without one settles nothing."""
    return measured.low is not None and measured.low > 0


def wholly_below_zero(measured: Measured) -> bool:
    """The whole interval; a figure without one settles nothing."""
    return measured.high is not None and measured.high < 0


def covers_zero(measured: Measured) -> bool:
    return measured.low is not None and measured.high is not None and measured.low <= 0 <= measured.high


def with_fisher_interval(what: str, correlation: float, cases: int, *, paper: str | None = None) -> Measured:
    """A rank correlation with Fisher's interval and the variance of Bonett and Wright (2000), (1 + r²/2)/(n − 3).

    Without an interval where there are fewer than four cases, which leave no variance to speak of.

    >>> print(with_fisher_interval("r", 0.5, 28))
    0.5 (0.1327 to 0.7465)
    """
    if not abs(correlation) <= 1 + 1e-9:
        raise InputError(f"{what}: a correlation lies between −1 and 1: got {correlation}. Does one side never vary?")
    correlation = max(-1.0, min(1.0, correlation))
    if cases < 4:
        return Measured(what, correlation, n=f"{cases} runs", paper=paper)
    if abs(correlation) == 1:
        return Measured(what, correlation, correlation, correlation, f"{cases} runs", paper)
    half = 1.959964 * sqrt((1 + correlation**2 / 2) / (cases - 3))
    low, high = (tanh(atanh(correlation) + side * half) for side in (-1, 1))
    return Measured(what, correlation, low, high, f"{cases} runs", paper)
