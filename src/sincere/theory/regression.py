"""Straight lines and parabolas through measured points, and t intervals of means."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch

from sincere.errors import InputError, OptionError


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g})"

    @property
    def above_zero(self) -> bool:
        """Does the whole interval lie above 0?"""
        return self.low > 0

    @property
    def below_zero(self) -> bool:
        """Does the whole interval lie below 0?"""
        return self.high < 0


def polynomial(x: Sequence[float], y: Sequence[float], degree: int) -> tuple[float, ...]:
    """Least squares of y on 1, x, … x^degree: its coefficients in this order."""
    if len(x) != len(y) or len(set(x)) <= degree or not all(map(math.isfinite, (*x, *y))):
        raise InputError(f"a polynomial of degree {degree} needs {degree + 1} places, all finite: got x={x}, y={y}.")
    # In fractions: the last digits of LAPACK's answer depend on where in memory the numbers lie.
    points = [(Fraction(float(place)), Fraction(float(value))) for place, value in zip(x, y, strict=True)]
    powers = [sum((place**power for place, _ in points), Fraction(0)) for power in range(2 * degree + 1)]
    moments = [sum((value * place**power for place, value in points), Fraction(0)) for power in range(degree + 1)]
    rows = [[*powers[power : power + degree + 1], moments[power]] for power in range(degree + 1)]
    for own, row in enumerate(rows):  # no pivot is 0: places that differ make a positive definite matrix
        row[:] = [entry / row[own] for entry in row]
        for other in rows[:own] + rows[own + 1 :]:
            other[:] = [entry - other[own] * mine for entry, mine in zip(other, row, strict=True)]
    return tuple(float(row[-1]) for row in rows)


def mean_estimate(values: Sequence[float]) -> Estimate:
    """The mean of independent values with its t interval."""
    if len(values) < 2:
        raise InputError(f"an interval needs at least two values: got {len(values)}.")
    found = torch.tensor(list(values), dtype=torch.float64)
    mean = float(found.mean())
    half = t_quantile(len(values) - 1) * float(found.std()) / len(values) ** 0.5
    return Estimate(mean, mean - half, mean + half)


def exponential(estimate: Estimate) -> Estimate:
    """The estimate of a logarithm as a ratio."""
    return Estimate(math.exp(estimate.value), math.exp(estimate.low), math.exp(estimate.high))


def t_quantile(freedom: int) -> float:
    """Student's t: the quantile that makes a two-sided 95 % interval."""
    return float(needs_scipy().t.ppf(0.975, freedom))


def needs_scipy() -> Any:
    """The module of Student's t. Call this before training, so that a missing scipy is reported at once."""
    try:
        import scipy.stats
    except ImportError as error:
        raise OptionError(
            'intervals over seeds need scipy, which is not installed: pip install "sincere[lab]".'
        ) from error
    return scipy.stats
