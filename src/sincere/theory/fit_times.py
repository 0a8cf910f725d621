"""Steps until networks fit their training labels, by loss and share of random labels, and how they grow with it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sincere.errors import OptionError
from sincere.theory.regression import Estimate, exponential, mean_estimate, polynomial


@dataclass(frozen=True)
class FitTime:
    """One network: how many steps until it fits its training labels."""

    loss: str
    share: float  # of labels that were drawn anew
    seed: int
    steps: int  # the last that was allowed, where it never fitted
    fitted: bool


@dataclass(frozen=True)
class FitTrend:
    """Steps of one loss against the share: lines and parabolas, one for each seed, and what they say together."""

    loss: str
    slope: Estimate  # of the line, steps for a share of 1
    curvature: Estimate  # coefficient of share² in the parabola: above 0 is faster than linear
    linear_r2: float  # of the lines, one for each seed

    @property
    def shape(self) -> str:
        """What the interval of the curvature says."""
        if self.curvature.above_zero:
            return "faster than linear"
        return "slower than linear" if self.curvature.below_zero else "no departure from a line"


class FitTimes:
    """What can be asked of runs with several losses, shares and seeds, whatever the network.

    growth: loss → its steps at the largest share over those at the least one above 0, divided by the same of
    cross-entropy; intervals over seeds. Empty without cross-entropy.
    """

    runs: tuple[FitTime, ...]
    trends: tuple[FitTrend, ...]
    growth: dict[str, Estimate]

    def steps(self, loss: str, share: float) -> tuple[int, ...]:
        """Of one loss and share, by seed."""
        return tuple(run.steps for run in self.runs if (run.loss, run.share) == (loss, share))

    def trend(self, loss: str) -> FitTrend:
        """The trend of one loss."""
        for found in self.trends:
            if found.loss == loss:
                return found
        raise OptionError(f"loss must be one that was run, {[t.loss for t in self.trends]}: got {loss!r}.")

    @property
    def unfitted(self) -> int:
        """Runs that never fitted; their steps are too low, and so is every trend that has them."""
        return sum(not run.fitted for run in self.runs)

    @property
    def shares(self) -> tuple[float, ...]:
        """Of random labels that were tried, in rising order."""
        return tuple(sorted({run.share for run in self.runs}))


def fit_trend(loss: str, runs: Sequence[FitTime]) -> FitTrend:
    """A line and a parabola for each seed. Runs of one seed share their samples, and long runs vary more than short
    ones. Only the seeds are independent of each other and alike, so intervals are over seeds."""
    slopes, curvatures, left, total = [], [], 0.0, 0.0
    own = [run for run in runs if run.loss == loss]
    for seed in sorted({run.seed for run in own}):
        shares = [run.share for run in own if run.seed == seed]
        steps = [float(run.steps) for run in own if run.seed == seed]
        intercept, slope = polynomial(shares, steps, 1)
        slopes.append(slope)
        curvatures.append(polynomial(shares, steps, 2)[2])
        mean = sum(steps) / len(steps)
        left += sum((y - intercept - slope * x) ** 2 for x, y in zip(shares, steps, strict=True))
        total += sum((y - mean) ** 2 for y in steps)
    r2 = 1 - left / total if total else math.nan
    return FitTrend(loss, mean_estimate(slopes), mean_estimate(curvatures), r2)


def fit_growth(losses: Sequence[str], runs: Sequence[FitTime]) -> dict[str, Estimate]:
    """The `growth` of `FitTimes`, by loss."""
    low = min(run.share for run in runs if run.share > 0)
    high = max(run.share for run in runs)
    steps = {(run.loss, run.share, run.seed): max(1, run.steps) for run in runs}
    seeds = sorted({run.seed for run in runs})
    if "cross_entropy" not in losses:
        return {}

    def grown(loss: str, seed: int) -> float:
        return math.log(steps[loss, high, seed] / steps[loss, low, seed])

    return {
        loss: exponential(mean_estimate([grown(loss, seed) - grown("cross_entropy", seed) for seed in seeds]))
        for loss in losses
        if loss != "cross_entropy"
    }
