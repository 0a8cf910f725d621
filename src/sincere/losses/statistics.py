"""The few numbers per anchor that every loss is made of; a backend computes them.

For anchor t with logits s_ta, positives P with weights w (1 unless labels weigh them), negatives N, A = P ∪ N:

    lse_all        log Σ_A e^s
    lse_neg        log Σ_N e^s
    lse_pos        log Σ_P w e^s
    mean_pos       Σ_P w s / Σ_P w
    mean_softplus  Σ_P w softplus(lse_neg + margin − s) / Σ_P w

An empty sum gives −inf for the log-sum-exps and 0 for the means, each with a zero gradient.
"""

from dataclasses import dataclass
from typing import Literal

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
        return self.weight_sum > 0
