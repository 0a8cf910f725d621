"""What operators hand to their engines, and what a forward pass leaves for the backward pass: numbers per anchor."""

from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor

from sincere.losses.relation import Relation


def refuse_second_derivative(ctx: Any = None, *_: Any) -> NoReturn:
    """What autograd meets when it differentiates the backward pass of an operator that was written by hand."""
    raise RuntimeError(
        'backend="tiled" and backend="triton" can be differentiated once. For a second derivative pass backend="dense".'
    )


def refuse_forward_mode(ctx: Any = None, *_: Any) -> NoReturn:
    """What forward mode meets there: an operator would drop the tangents without a word, and the derivative be 0."""
    raise RuntimeError(
        'backend="tiled" and backend="triton" have no derivative in forward mode (torch.func.jvp, forward_ad). '
        'Pass backend="dense".'
    )


@dataclass(frozen=True)
class Problem:
    """What an engine gets: rows whose inner products are logits, and who is whose positive."""

    anchors: Tensor
    contrasts: Tensor | None  # None: the anchors themselves
    relation: Relation
    margin: float
    bounded: bool  # is |s| ≤ 32 known for every pair
    precision: str  # in which the embeddings came: "bfloat16", "float16" or "float32"

    @property
    def contrast_rows(self) -> Tensor:
        return self.anchors if self.contrasts is None else self.contrasts


@dataclass(frozen=True)
class Saved:
    """Statistics of every anchor, each (n,). Those that were not wanted hold what an empty sum would."""

    weight_sum: Tensor
    num_neg: Tensor
    lse_all: Tensor
    lse_neg: Tensor
    lse_pos: Tensor
    mean_pos: Tensor
    mean_softplus: Tensor
    mean_sigma: Tensor  # Σ_P w σ(lse_neg + margin − s) / Σ_P w = ∂mean_softplus/∂lse_neg

    @classmethod
    def empty(cls, like: Tensor) -> "Saved":
        """Fresh arrays for as many anchors as `like` has rows."""
        n = like.shape[0]
        return cls(
            weight_sum=like.new_zeros(n),
            num_neg=like.new_zeros(n, dtype=torch.int64),
            lse_all=like.new_full((n,), -torch.inf),
            lse_neg=like.new_full((n,), -torch.inf),
            lse_pos=like.new_full((n,), -torch.inf),
            mean_pos=like.new_zeros(n),
            mean_softplus=like.new_zeros(n),
            mean_sigma=like.new_zeros(n),
        )

    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        return (
            self.weight_sum,
            self.num_neg,
            self.lse_all,
            self.lse_neg,
            self.lse_pos,
            self.mean_pos,
            self.mean_softplus,
            self.mean_sigma,
        )

    @property
    def safe_weight_sum(self) -> Tensor:
        """Σw, or 1 for an anchor without positives, whose gradient is zero anyway."""
        return torch.where(self.weight_sum > 0, self.weight_sum, 1)


@dataclass(frozen=True)
class Gradients:
    """∂L/∂statistic for every anchor, each (n,); None for those that the loss does not use."""

    lse_all: Tensor | None
    lse_neg: Tensor | None
    lse_pos: Tensor | None
    mean_pos: Tensor | None
    mean_softplus: Tensor | None

    def given(self) -> list[Tensor]:
        """Those that the loss does use."""
        every = (self.lse_all, self.lse_neg, self.lse_pos, self.mean_pos, self.mean_softplus)
        return [grad for grad in every if grad is not None]

    def through_lse_neg(self, saved: Saved) -> Tensor | None:
        """lse_neg counts by itself and inside mean_softplus."""
        inside = None if self.mean_softplus is None else self.mean_softplus * saved.mean_sigma
        if inside is None or self.lse_neg is None:
            return self.lse_neg if inside is None else inside
        return self.lse_neg + inside
