"""Theorem 3 on densities with a known divergence: log|N| − L against KL(target ‖ noise).

With the exact density ratio as critic the loss is known to be at least log(|N| + 1) − KL, a little more than the
theorem says: with r the ratio and m the mean of r over the |N| + 1 samples in question,
KL − (log(|N| + 1) − L) = E[m log m] over samples of the noise alone, which Jensen's inequality puts above 0. This
gap falls as |N| grows. (The paper's proof replaces E log Σ r by log E Σ r, Eq. 30 and 31; that step goes the other
way, and the theorem holds all the same.) Any other critic has a larger loss (Prop. 3.2), and so a lower bound.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sincere.checks import check_temperature
from sincere.defaults import usual_defaults
from sincere.errors import OptionError
from sincere.losses.floors import simplex_gap
from sincere.tables import columns
from sincere.theory.critic import critic_loss
from sincere.theory.gaussians import Gaussians
from sincere.theory.record import Record


@dataclass(frozen=True)
class KlBoundPoint:
    """log|N| − L for one loss, one |N| and one temperature of the critic."""

    loss: str  # "infonce": one positive; "sincere": all of them; "supcon": read as if the theorem were about it
    negatives: int
    temperature: float  # scores are log r / temperature: 1 is the exact critic
    bound: float  # mean of log|N| − ℓ over the anchors
    error: float  # its standard error
    gain: float | None  # by how much more than with the next smaller |N|, on the same samples; None for the first
    gain_error: float | None

    @property
    def ceiling(self) -> float:
        """log|N|: what no critic exceeds."""
        return math.log(self.negatives)


@dataclass(frozen=True)
class KlBoundCurve(Record):
    """The bound as |N| grows, against the truth."""

    dim: int
    separation: float
    scale: float
    positives: int
    samples: int  # anchors, each with positives and negatives of its own
    seed: int
    divergence: float  # the true KL(target ‖ noise), in nats
    points: tuple[KlBoundPoint, ...]

    def of(self, loss: str, temperature: float = 1.0) -> tuple[KlBoundPoint, ...]:
        """One curve, by |N|."""
        return tuple(point for point in self.points if (point.loss, point.temperature) == (loss, temperature))

    @property
    def worst(self) -> float:
        """The largest (bound − KL)/standard error of any point: above 3 would speak against the theorem."""
        return max(_in_errors(point.bound - self.divergence, point.error) for point in self.points)

    def tightens(self, loss: str, temperature: float = 1.0) -> float:
        """The least gain over its standard error along one curve: above 0 where every |N| brought more."""
        gains = [(point.gain, point.gain_error) for point in self.of(loss, temperature)]
        return min(
            (_in_errors(gain, error) for gain, error in gains if gain is not None and error is not None),
            default=math.nan,
        )

    def __str__(self) -> str:
        title = (
            f"KL(target ‖ noise) = {self.divergence:.4f} nats, {self.dim} dimensions, |P| = {self.positives}, "
            f"{self.samples:,} anchors; log|N| − L ± standard error"
        )
        curves = sorted({(point.loss, point.temperature) for point in self.points}, key=lambda c: (c[1], c[0]))
        sizes = sorted({point.negatives for point in self.points})
        table: list[tuple[str, ...]] = [("|N|", *(f"{loss} (τ = {tau:g})" for loss, tau in curves), "log|N|")]
        for size in sizes:
            found = {(p.loss, p.temperature): p for p in self.points if p.negatives == size}
            cells = (f"{found[curve].bound:.3f} ± {found[curve].error:.3f}" for curve in curves)
            table.append((str(size), *cells, f"{math.log(size):.3f}"))
        return "\n".join([title, *columns(table)])


@usual_defaults()
def kl_bound_on_gaussians(
    *,
    dim: int = 2,
    separation: float = 2.0,
    scale: float = 1.0,
    negatives: Sequence[int] = (1, 4, 16, 64, 256, 1024),
    positives: int = 8,
    losses: Sequence[str] = ("infonce", "sincere", "supcon"),
    temperatures: Sequence[float] = (1.0,),
    samples: int = 2000,
    seed: int = 0,
) -> KlBoundCurve:
    """log|N| − L on samples of two Gaussians, with the true log density ratio over a temperature as critic.

    Every |N| uses the first |N| of the same negatives, so that gains between them are paired.
    """
    sizes = sorted(set(negatives))
    if not losses or not temperatures:
        raise OptionError(
            f"there must be a loss and a temperature: got losses={tuple(losses)}, temperatures={tuple(temperatures)}."
        )
    if not sizes or sizes[0] < 1 or positives < 1 or samples < 2:
        raise OptionError(
            "negatives and positives must be at least 1, and samples at least 2: "
            f"got negatives={tuple(negatives)}, positives={positives}, samples={samples}."
        )
    densities = Gaussians(dim, separation, scale)
    generator = torch.Generator().manual_seed(seed)
    of_positives = densities.log_ratio(densities.target(samples, positives, generator=generator))
    of_negatives = densities.log_ratio(densities.noise(samples, sizes[-1], generator=generator))
    points = [
        point
        for temperature in temperatures
        for loss in losses
        for point in _curve(loss, temperature, of_positives, of_negatives, sizes)
    ]
    return KlBoundCurve(
        dim=dim,
        separation=separation,
        scale=scale,
        positives=positives,
        samples=samples,
        seed=seed,
        divergence=densities.divergence,
        points=tuple(points),
    )


def _curve(
    loss: str, temperature: float, of_positives: Tensor, of_negatives: Tensor, sizes: Sequence[int]
) -> list[KlBoundPoint]:
    points: list[KlBoundPoint] = []
    before: Tensor | None = None
    for size in sizes:
        values = math.log(size) - critic_loss(loss, of_positives, of_negatives[:, :size], temperature=temperature)
        bound, error = _mean_and_error(values)
        gain, gain_error = (None, None) if before is None else _mean_and_error(values - before)
        points.append(KlBoundPoint(loss, size, temperature, bound, error, gain, gain_error))
        before = values
    return points


def _in_errors(difference: float, error: float) -> float:
    """A difference in standard errors; infinite where there is no error, as with two equal densities."""
    return difference / error if error else math.copysign(math.inf, difference) if difference else 0.0


def _mean_and_error(values: Tensor) -> tuple[float, float]:
    return float(values.mean()), float(values.std() / len(values) ** 0.5)


def kl_bound_ceiling(*, classes: int, negatives: int, temperature: float) -> float:
    """The largest log|N| − SINCERE that embeddings on a sphere can show: its value at the regular simplex.

    log|N| − log(1 + |N| e^{−g}) with g = K/((K−1)τ): close to log|N| while that is below g, and never above g. So a
    high temperature caps the divergence that can be seen, whatever |N| is.

    >>> round(kl_bound_ceiling(classes=10, negatives=921, temperature=0.1), 3)
    6.812
    """
    check_temperature(temperature)
    if negatives < 1 or classes < 2:
        raise OptionError(
            f"there must be at least two classes and one negative: got classes={classes}, negatives={negatives}."
        )
    gap = simplex_gap(classes, temperature)
    return -math.log(1 / negatives + math.exp(-gap))
