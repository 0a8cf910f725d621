"""Bootstrap intervals: how far a figure would move with another test set of the same size.

A draw takes n of the n samples with replacement. It is written as how often each sample came, so that all draws of all
figures are one product of matrices, and two models on one test set meet the same draws when they share a seed.
Everything runs on the CPU: the same seed gives the same interval on every machine.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from sincere.checks import is_integral
from sincere.errors import OptionError
from sincere.evaluate.record import Estimate
from sincere.nearest.precision import full_precision

CELLS = 2**20  # counts held at once: few enough for the processor's cache
LEAST_DRAWS = 100  # the outer 2.5 % are then two or three of them
OUTER = ((1 - 0.95) / 2, 1 - (1 - 0.95) / 2)  # the quantiles between which 95 % lie


def resampled_counts(n: int, *, draws: int, seed: int) -> Iterator[Tensor]:
    """How often each of n samples came in each draw: float64 (some draws, n), every row adds up to n."""
    if not is_integral(draws) or draws < LEAST_DRAWS:
        raise OptionError(
            f"draws must be a whole number of at least {LEAST_DRAWS} for an interval: got {draws!r}. "
            "The papers use 1,000."
        )
    generator = torch.Generator().manual_seed(seed)
    step = max(1, CELLS // max(1, n))
    for start in range(0, draws, step):
        rows = min(step, draws - start)
        chosen = torch.randint(n, (rows, n), generator=generator, dtype=torch.int32, device="cpu")
        chosen += n * torch.arange(rows, dtype=torch.int32, device="cpu").unsqueeze(1)
        yield torch.bincount(chosen.flatten(), minlength=rows * n).view(rows, n).double()


@full_precision()
def resampled_means(values: Tensor, *, draws: int, seed: int) -> Tensor:
    """The mean of each column of `values` (n, m) in each draw, float64 (draws, m)."""
    values = values.cpu().double()  # sums in float32 would put the interval of a steady figure beside it
    parts = [counts @ values for counts in resampled_counts(values.shape[0], draws=draws, seed=seed)]
    return torch.cat(parts) / values.shape[0]


def resampled_class_means(values: Tensor, labels: Tensor, *, classes: int, draws: int, seed: int) -> Tensor:
    """The mean within each class of each column of `values` (n, m), float64 (draws, m, classes).

    NaN where a draw holds no sample of the class.
    """
    labels, values = labels.cpu(), values.cpu().double()
    parts = []
    for counts in resampled_counts(labels.shape[0], draws=draws, seed=seed):
        by_sample = counts.T.contiguous()
        sizes = by_sample.new_zeros(classes, counts.shape[0]).index_add_(0, labels, by_sample)
        sums = [torch.zeros_like(sizes).index_add_(0, labels, by_sample * column.unsqueeze(1)) for column in values.T]
        parts.append(torch.stack([(total / sizes).T for total in sums], dim=1))
    return torch.cat(parts)


def estimated(value: float, resampled: Tensor) -> Estimate:
    """A figure with its interval, from its value in each draw (draws,)."""
    return Estimate(value, *percentile_interval(resampled))


def percentile_interval(resampled: Tensor) -> tuple[float, float]:
    """The middle 95 % of the draws of one figure (draws,)."""
    found = resampled[~resampled.isnan()]
    if not found.numel():
        return float("nan"), float("nan")
    low, high = torch.quantile(found, found.new_tensor(OUTER)).tolist()
    return low, high
