"""Proposition 3.1 and 3.2: the f that minimises the loss is the density ratio, up to a constant factor."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from sincere.checks import check_choice
from sincere.defaults import usual_defaults
from sincere.errors import OptionError
from sincere.theory.critic import critic_loss
from sincere.theory.gaussians import Gaussians
from sincere.theory.minimise import free_descent, largest_gradient
from sincere.theory.record import Record

Family = Literal["quadratic", "tabular", "mlp"]
EDGE = 2.5  # the grid covers −EDGE … EDGE + separation, where samples of either density are found
CELLS = 10  # of the tabular family
TOLD_APART = 1e-6  # a mean loss that no anchors give but those whose positives are above all of their negatives


@dataclass(frozen=True)
class DensityRatioFit(Record):
    """log f after the fit against the log ratio of the two known densities; both centred, f has a free factor."""

    loss: str
    family: str
    separation: float
    scale: float
    positives: int
    negatives: int
    samples: int
    seed: int
    grid: Tensor  # places x
    log_f: Tensor  # fitted, centred by the target's and noise's common weight
    log_ratio: Tensor  # true, centred alike
    log_posterior: Tensor  # log of r/(|N| + |P| r), centred alike: where SupCon leads as batches grow
    weight: Tensor  # share of the samples, half target and half noise, at each place
    correlation: float  # of log f and log ratio, weighed
    slope: float  # of log f on log ratio, weighed: 1 where f is the ratio; NaN, as the correlation, of equal densities
    error: float  # largest |log f − log ratio| where samples are: weight at least 1 % of the largest
    rms_error: float  # weighed
    posterior_rms_error: float  # the same against log_posterior
    fitted_value: float  # the loss at the fit
    true_value: float  # the loss of the true ratio on the same samples
    fresh_regret: float  # loss at the fit − loss of the true ratio, on fresh samples: 0 at the minimiser
    fresh_regret_error: float  # its standard error
    converged: bool

    @property
    def told_apart(self) -> bool:
        """Is every positive above every negative? Then a steeper f always has a lower loss: no f is best."""
        return self.fitted_value < TOLD_APART

    def __str__(self) -> str:
        apart = "  the samples are told apart whole: there is no best f, a lower separation or more samples have one"
        return "\n".join(
            [
                f"log f fitted by {self.loss} ({self.family}), {self.samples:,} anchors, |P| = {self.positives}, "
                f"|N| = {self.negatives}, against the log ratio of N({self.separation:g}, {self.scale:g}²) and N(0, 1)",
                f"  slope {self.slope:.4f}, correlation {self.correlation:.5f}",
                f"  error {self.rms_error:.4f} (weighed by density), at most {self.error:.4f}; "
                f"to log r/(|N| + |P| r) {self.posterior_rms_error:.4f}",
                f"  loss {self.fitted_value:.5f}, of the true ratio {self.true_value:.5f}; on fresh samples the fit is "
                f"{self.fresh_regret:+.5f} ± {self.fresh_regret_error:.5f} above it",
                *([apart] if self.told_apart else []),
            ]
        )


@usual_defaults()
def density_ratio_fit(
    loss: Literal["sincere", "infonce", "supcon"] = "sincere",
    *,
    family: Family = "quadratic",
    separation: float = 1.0,
    scale: float = 0.8,
    positives: int = 1,
    negatives: int = 8,
    samples: int = 4000,
    seed: int = 0,
    steps: int = 200,
    tolerance: float = 1e-7,
) -> DensityRatioFit:
    """Fit a positive function f of x by minimising the loss on samples of N(separation, scale²) and N(0, 1).

    Each anchor has its own positives from the target and negatives from the noise, and its logits are log f of them.

    Args:
        loss: "sincere", "infonce" (the first positive alone), or "supcon" for what its denominator does to f.
        family: "quadratic", log f = bx + cx², which holds the truth exactly; "tabular", one number for each of 10
            cells of x, whose ratio is that of the cells' probabilities; "mlp", two hidden layers of 16.
        separation: mean of the target.
        scale: deviation of the target.
        positives: |P| of each anchor.
        negatives: |N| of each anchor.
        samples: anchors.
        seed: of the samples and of the network's start.
        steps: evaluations at most.
        tolerance: of the largest entry of the gradient.
    """
    check_choice("family", family, ("quadratic", "tabular", "mlp"))
    _check_sizes(positives, negatives, samples, steps)
    densities = Gaussians(1, separation, scale)
    generator = torch.Generator().manual_seed(seed)
    x_pos, x_neg = _draw(densities, samples, positives, negatives, generator)
    log_f, parameters = _function(family, separation, generator)
    truth, places, weight = _truth(family, densities)

    def objective() -> Tensor:
        return critic_loss(loss, log_f(x_pos), log_f(x_neg)).mean()

    descent = free_descent(
        objective, parameters, lambda: largest_gradient(objective, parameters), steps=steps, tolerance=tolerance
    )
    with torch.no_grad():
        fitted = _centred(log_f(places), weight)
        ratio = _centred(truth(places), weight)
        posterior = _centred(_log_posterior(truth(places), positives, negatives), weight)
        regret = _regret(loss, log_f, truth, _draw(densities, samples, positives, negatives, generator))
        true_value = float(critic_loss(loss, truth(x_pos), truth(x_neg)).mean())
    slope = float((weight * fitted * ratio).sum() / (weight * ratio.square()).sum())
    seen = weight >= 0.01 * weight.max()
    return DensityRatioFit(
        loss=loss,
        family=family,
        separation=separation,
        scale=scale,
        positives=positives,
        negatives=negatives,
        samples=samples,
        seed=seed,
        grid=places,
        log_f=fitted,
        log_ratio=ratio,
        log_posterior=posterior,
        weight=weight,
        correlation=_correlation(slope, ratio, fitted, weight),
        slope=slope,
        error=float((fitted - ratio)[seen].abs().max()),
        rms_error=math.sqrt(_mean_square(fitted - ratio, weight)),
        posterior_rms_error=math.sqrt(_mean_square(fitted - posterior, weight)),
        fitted_value=_finite(descent.value, densities),
        true_value=true_value,
        fresh_regret=float(regret.mean()),
        fresh_regret_error=float(regret.std() / len(regret) ** 0.5),
        converged=descent.converged,
    )


def _check_sizes(positives: int, negatives: int, samples: int, steps: int) -> None:
    if positives < 1 or negatives < 1 or samples < 2 or steps < 1:
        raise OptionError(
            "positives, negatives and steps must be at least 1, and samples at least 2: "
            f"got positives={positives}, negatives={negatives}, samples={samples}, steps={steps}."
        )


def _finite(value: float, densities: Gaussians) -> float:
    if not math.isfinite(value):
        raise OptionError(
            "separation and scale must be such that f can be fitted in float64: "
            f"got separation={densities.separation:g}, scale={densities.scale:g}, at which the loss became {value}."
        )
    return value


def _log_posterior(log_ratio: Tensor, positives: int, negatives: int) -> Tensor:
    """log r/(|N| + |P| r), from log r."""
    return log_ratio - torch.logaddexp(log_ratio.new_tensor(math.log(negatives)), math.log(positives) + log_ratio)


def _regret(
    loss: str,
    log_f: Callable[[Tensor], Tensor],
    truth: Callable[[Tensor], Tensor],
    fresh: tuple[Tensor, Tensor],
) -> Tensor:
    """By how much the fit's loss is above that of the true ratio, for each fresh anchor."""
    of_fit, of_truth = (critic_loss(loss, *map(log, fresh)) for log in (log_f, truth))
    return of_fit - of_truth


def _draw(
    densities: Gaussians, samples: int, positives: int, negatives: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    of_target = densities.target(samples, positives, generator=generator).squeeze(-1)
    return of_target, densities.noise(samples, negatives, generator=generator).squeeze(-1)


def _function(
    family: Family, separation: float, generator: torch.Generator
) -> tuple[Callable[[Tensor], Tensor], list[Tensor]]:
    """log f with its free parameters; it starts at 0 everywhere."""
    if family == "quadratic":
        line = torch.zeros(2, dtype=torch.float64, requires_grad=True)
        return (lambda x: line[0] * x + line[1] * x.square()), [line]
    if family == "tabular":
        table = torch.zeros(CELLS, dtype=torch.float64, requires_grad=True)
        return (lambda x: table[torch.bucketize(x, _edges(separation))]), [table]
    sizes = ((16, 1), (16,), (16, 16), (16,), (1, 16))
    free = [
        (torch.randn(*size, dtype=torch.float64, generator=generator) / size[-1] ** 0.5).requires_grad_()
        for size in sizes
    ]

    def network(x: Tensor) -> Tensor:
        hidden = torch.tanh(nn.functional.linear(x.unsqueeze(-1), free[0], free[1]))
        hidden = torch.tanh(nn.functional.linear(hidden, free[2], free[3]))
        return nn.functional.linear(hidden, free[4]).squeeze(-1)

    return network, free


def _edges(separation: float) -> Tensor:
    """Between the cells of the tabular family; the outer two are open."""
    return torch.linspace(-1.0, 1.0 + separation, CELLS - 1, dtype=torch.float64)


def _truth(family: Family, densities: Gaussians) -> tuple[Callable[[Tensor], Tensor], Tensor, Tensor]:
    """The true log ratio as a function of x, the grid, and the share of ½ target + ½ noise at its places."""
    separation, scale = densities.separation, densities.scale
    if family != "tabular":
        places = torch.linspace(-EDGE, EDGE + separation, 121, dtype=torch.float64)
        weight = _normal_density(places, separation, scale) + _normal_density(places, 0.0, 1.0)
        return (lambda x: densities.log_ratio(x.unsqueeze(-1))), places, weight / weight.sum()
    edges = _edges(separation)
    of_target, of_noise = _cell_shares((edges - separation) / scale), _cell_shares(edges)
    if not bool((of_target > 0).all()) or not bool((of_noise > 0).all()):
        raise OptionError(
            "each cell of the tabular family must have some of either density, or its log ratio is infinite: "
            f"got scale={scale}, separation={separation}. Take a wider target, or another family."
        )
    table = of_target.log() - of_noise.log()
    width = edges[1] - edges[0]
    places = torch.cat([edges[:1] - width, edges]) + width / 2
    return (lambda x: table[torch.bucketize(x, edges)]), places, (of_target + of_noise) / 2


def _normal_density(x: Tensor, mean: float, deviation: float) -> Tensor:
    return torch.exp(-((x - mean) / deviation).square() / 2) / deviation


def _cell_shares(edges: Tensor) -> Tensor:
    below = torch.special.ndtr(edges)
    return torch.cat([below[:1], below.diff(), torch.special.ndtr(-edges[-1:])])


def _centred(values: Tensor, weight: Tensor) -> Tensor:
    return values - (weight * values).sum()


def _correlation(slope: float, ratio: Tensor, fitted: Tensor, weight: Tensor) -> float:
    """From the slope of log f on log ratio; NaN where f is the same everywhere, as at its start."""
    own = _mean_square(fitted, weight)
    return slope * math.sqrt(_mean_square(ratio, weight) / own) if own else math.nan


def _mean_square(values: Tensor, weight: Tensor) -> float:
    return float((weight * values.square()).sum())
