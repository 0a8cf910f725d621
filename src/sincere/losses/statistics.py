"""The few numbers per anchor of which most losses are made; a backend computes them.

For anchor t with logits s_ta, positives P with weights w (1 unless labels weigh them), negatives N, A = P ∪ N:

    lse_all        log Σ_A e^s
    lse_neg        log Σ_N e^s
    lse_pos        log Σ_P w e^s
    mean_pos       Σ_P w s / Σ_P w
    mean_softplus  Σ_P w softplus(lse_neg + margin − s) / Σ_P w

An empty sum gives −inf for the log-sum-exps and 0 for the means, each with a zero gradient.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import torch.nn.functional as F
from torch import Tensor

Statistic = Literal["lse_all", "lse_neg", "lse_pos", "mean_pos", "mean_softplus"]


@dataclass(frozen=True)
class RowStatistics:
    """Statistics of n anchors, each (n,); only those that the loss asked for are there."""

    weight_sum: Tensor  # Σ_P w: the number of positives where they weigh alike
    num_neg: Tensor
    values: dict[Statistic, Tensor]

    def __getitem__(self, name: Statistic) -> Tensor:
        return self.values[name]

    @property
    def has_positive(self) -> Tensor:
        """Also True where the sum is NaN: NaN in soft labels must show in the loss, not count as no positives."""
        return ~(self.weight_sum <= 0)


@dataclass(frozen=True)
class Combination:
    """The coefficients of a loss that is linear in the statistics (`losses/combination.py`)."""

    lse_all: float = 0.0
    lse_neg: float = 0.0
    lse_pos: float = 0.0
    mean_pos: float = 0.0
    mean_softplus: float = 0.0
    log_positives: float = 0.0  # of log Σ_P w
    constant: float = 0.0
    margin: float = 0.0  # inside mean_softplus
    needs_negatives: bool = False  # does an anchor without negatives carry no loss

    @property
    def wanted(self) -> tuple[Statistic, ...]:
        """The statistics that it is made of."""
        return tuple(name for name in get_args(Statistic) if self.coefficient(name))

    def coefficient(self, name: Statistic) -> float:
        return float(getattr(self, name))

    def numbers(self) -> list[float]:
        """All fields in their order, as numbers."""
        by_statistic = [self.lse_all, self.lse_neg, self.lse_pos, self.mean_pos, self.mean_softplus]
        rest = [self.log_positives, self.constant, self.margin, self.needs_negatives]
        return [float(number) for number in by_statistic + rest]

    @classmethod
    def of_numbers(cls, numbers: list[float]) -> "Combination":
        """The combination with these `numbers`."""
        names = [*get_args(Statistic), "log_positives", "constant", "margin"]
        return cls(**dict(zip(names, numbers, strict=False)), needs_negatives=bool(numbers[-1]))


def per_anchor(combination: Combination, stats: RowStatistics) -> Tensor:
    """ℓ of every anchor; meaningless where there is no positive."""
    terms = [times(combination.coefficient(name), stats[name]) for name in combination.wanted]
    if combination.log_positives:
        terms.append(times(combination.log_positives, stats.weight_sum.log()))
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total + combination.constant if combination.constant else total


def valid_anchors(combination: Combination, stats: RowStatistics) -> Tensor:
    """Which anchors carry a loss."""
    return stats.has_positive & (stats.num_neg > 0) if combination.needs_negatives else stats.has_positive


def times(coefficient: float, values: Tensor) -> Tensor:
    """coefficient · values, without an operation if the coefficient is 1."""
    return values if coefficient == 1 else coefficient * values


def softplus(x: Tensor) -> Tensor:
    """log(1 + e^x). PyTorch turns linear at 20, where float64 still sees a difference of 2e-9; here at 40."""
    return F.softplus(x, threshold=40.0)
