"""Whole losses of small batches on a CPU: the value and its gradient at once, by hand.

For some hundred embeddings the number of operations counts more than their arithmetic. Of SINCERE, forward and back,
torch dispatches 159 by the definition, and 68 here. With E = e^s, c_t the share of anchor t in the reduction, and
u_tp = e^margin Σ_N E / E_tp, so that softplus(lse_neg + margin − s) = log(1 + u),

    ∂L/∂s_ta = c_t E_ta (∂lse_all / Σ_A E + (∂lse_neg + ∂mean_softplus · mean_sigma) / Σ_N E)   for a ∈ N,
    ∂L/∂s_tp = c_t (E_tp (∂lse_all / Σ_A E + ∂lse_pos / Σ_P E) + (∂mean_pos − ∂mean_softplus · u/(1 + u)) / |P|).

Logits are within ±32 (`Settings.bounded`), so that nothing overflows without a row maximum. What is out of the ordinary
(zero vectors, unlabelled samples) goes the general way, which has the care for it, and so does a second derivative.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, sqrt
from typing import Any

import torch
from torch import Tensor

from sincere.losses.options import Settings
from sincere.losses.statistics import Combination, RowStatistics, Statistic, per_anchor, times, valid_anchors

SHORTEST, LONGEST = 1e-15, 1e15  # norms whose squares float32 holds with all their digits
Loss = Callable[[Tensor], Tensor]  # of embeddings


def loss(
    combination: Combination, embeddings: Tensor, labels: Tensor, settings: Settings, definition: Loss
) -> Tensor | None:
    """The loss of a batch against itself, or None where it is not of the usual kind. `definition` is the same loss by
    operations that can be differentiated any number of times."""
    rows = embeddings.detach().flatten(0, -2)
    rows = rows if rows.dtype == torch.float64 else rows.float()
    lengths = torch.linalg.vector_norm(rows, dim=1)
    shortest, longest = torch.aminmax(lengths)
    if not (shortest.item() > SHORTEST and longest.item() < LONGEST):  # NaN is neither
        return None
    labels, views = labels.long(), rows.shape[0] // labels.shape[0]
    if (labels == settings.ignore_label).any().item():
        return None
    batch = Rows(rows, lengths, labels.repeat_interleave(views) if views > 1 else labels)
    if not (embeddings.requires_grad and torch.is_grad_enabled()):
        return value_and_gradient(batch, combination, settings, wants_gradient=False)[0]
    value: Tensor = _WholeLoss.apply(embeddings, batch, combination, settings, definition)  # type: ignore[no-untyped-call]
    return value


@dataclass(frozen=True)
class Rows:
    """The embeddings, views folded, with their norms and their labels."""

    rows: Tensor
    lengths: Tensor
    labels: Tensor


class _WholeLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, embeddings: Tensor, batch: Rows, combination: Combination, settings: Settings, definition: Loss
    ) -> Tensor:
        value, of_rows = value_and_gradient(batch, combination, settings, wants_gradient=True)
        assert of_rows is not None  # as it was wanted
        ctx.definition = definition
        ctx.save_for_backward(embeddings, of_rows.view_as(embeddings))
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        embeddings, gradient = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph=True: this derivative will itself be differentiated
            (found,) = torch.autograd.grad(ctx.definition(embeddings), embeddings, grad, create_graph=True)
            return found, None, None, None, None
        return (gradient * grad).to(embeddings.dtype), None, None, None, None  # in half precision after the scale


def value_and_gradient(
    batch: Rows, combination: Combination, settings: Settings, *, wants_gradient: bool
) -> tuple[Tensor, Tensor | None]:
    """L, and ∂L/∂rows if it is wanted."""
    temperature = float(settings.temperature)
    lengths = (batch.lengths * sqrt(temperature)).unsqueeze(1)
    z = batch.rows / lengths  # whose inner products are logits
    pairs = Pairs(torch.mm(z, z.T), batch.labels, combination, wants_gradient)
    stats = pairs.statistics()
    valid = valid_anchors(combination, stats)
    shares = _shares(valid.to(z.dtype), settings.reduction)
    value = torch.where(valid, per_anchor(combination, stats), 0).dot(shares)
    if not wants_gradient:
        return value, None
    of_z = torch.mm(pairs.gradient(shares), z)
    along = torch.linalg.vecdot(of_z, z).unsqueeze(1)  # ‖z‖² is 1/τ, and the length of a row changes nothing
    return value, of_z.addcmul_(z, along, value=-temperature).div_(lengths)


def _shares(valid: Tensor, reduction: str) -> Tensor:
    """c of every anchor: all are labelled, and weigh alike."""
    if reduction == "sum":
        return valid
    return valid / (valid.shape[0] if reduction == "mean_all" else valid.sum().clamp(min=1))


class Pairs:
    """A batch against itself: sums over each anchor's positives and negatives, and the n×n matrices for a gradient.

    Matrices are written over as soon as nothing needs them, `s` first: new memory costs as much as the arithmetic.
    """

    def __init__(self, s: Tensor, labels: Tensor, combination: Combination, wants_gradient: bool) -> None:
        same = labels.unsqueeze(1) == labels
        self.combination, self.positive = combination, same.to(s.dtype).fill_diagonal_(0)
        self.number = self.positive.sum(dim=1)
        self.share = 1 / self.number.clamp(min=1)  # of one positive in a mean over them
        if combination.mean_pos:
            self.mean_pos = torch.linalg.vecdot(s, self.positive) * self.share
        e = s.exp_()
        if combination.lse_all or combination.lse_neg or combination.mean_softplus:
            self.e_of_negatives = e.masked_fill(same, 0)
            self.over_negatives = self.e_of_negatives.sum(dim=1)
        if combination.lse_all or combination.lse_pos:
            self.e_of_positives = e * self.positive
            self.over_positives = self.e_of_positives.sum(dim=1)
        if combination.mean_softplus:
            self._meet_negatives(e, wants_gradient)

    def _meet_negatives(self, e: Tensor, wants_gradient: bool) -> None:
        """The mean of softplus(lse_neg + margin − s) = log(1 + u), and σ of the same, u/(1 + u)."""
        margin = self.combination.margin
        total = exp(margin) * self.over_negatives if margin else self.over_negatives
        u = torch.div(total.unsqueeze(1), e, out=e)
        if wants_gradient:
            one_more = u + 1
            self.sigma = torch.div(u, one_more, out=one_more).mul_(self.positive)
        self.mean_softplus = torch.linalg.vecdot(u.log1p_(), self.positive) * self.share

    def statistics(self) -> RowStatistics:
        """What the loss is a combination of."""
        c, found = self.combination, dict[Statistic, Tensor]()
        if c.lse_all:
            found["lse_all"] = (self.over_negatives + self.over_positives).log()
        if c.lse_neg:
            found["lse_neg"] = self.over_negatives.log()
        if c.lse_pos:
            found["lse_pos"] = self.over_positives.log()
        if c.mean_pos:
            found["mean_pos"] = self.mean_pos
        if c.mean_softplus:
            found["mean_softplus"] = self.mean_softplus
        return RowStatistics(self.number, self.number.shape[0] - 1 - self.number, found)

    def gradient(self, shares: Tensor) -> Tensor:
        """∂L/∂s_ta + ∂L/∂s_at of every pair, by the formula above; the matrices are used up."""
        c, share = self.combination, (shares * self.share).unsqueeze(1)
        among_negatives, among_positives = self._coefficients(shares)
        if among_negatives:
            found = self.e_of_negatives.mul_(_total(among_negatives).unsqueeze(1))
        else:
            found = torch.zeros_like(self.positive)
        if among_positives:
            found.addcmul_(self.e_of_positives, _total(among_positives).unsqueeze(1))
        if c.mean_pos:
            found.addcmul_(self.positive, share, value=c.mean_pos)
        if c.mean_softplus:
            found.addcmul_(self.sigma, share, value=-c.mean_softplus)
        return torch.add(found, found.T, out=self.positive)

    def _coefficients(self, shares: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """What E_ta is multiplied by in the gradient, for each anchor: of negatives, and of positives."""
        c = self.combination
        negatives, positives = [], []
        if c.lse_all:
            total = _or_one(self.over_negatives + self.over_positives)
            negatives.append(times(c.lse_all, shares) / total)
            positives.append(times(c.lse_all + c.lse_pos, shares) / total)
        if c.lse_neg:
            negatives.append(times(c.lse_neg, shares) / _or_one(self.over_negatives))
        if c.mean_softplus:
            mean_sigma = self.sigma.sum(dim=1) * self.share
            negatives.append(times(c.mean_softplus, shares) * mean_sigma / _or_one(self.over_negatives))
        if c.lse_pos:
            # 1/Σ_P is 1/Σ_A, which was counted above, and Σ_N/(Σ_A Σ_P): of L_in that is what is left in tight classes.
            rest = self.over_negatives / total if c.lse_all else 1
            positives.append(times(c.lse_pos, shares) * rest / _or_one(self.over_positives))
        return negatives, positives


def _total(terms: list[Tensor]) -> Tensor:
    return sum(terms[1:], terms[0])


def _or_one(total: Tensor) -> Tensor:
    """An empty sum has no gradient; whatever it divides is 0."""
    return torch.where(total > 0, total, 1)
