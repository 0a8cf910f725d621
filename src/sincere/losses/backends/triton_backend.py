"""The statistics by fused kernels on a GPU: sorting, padding and launching; triton_kernels.py computes.

What a launch needs is a `Side` of rows (each owns its output) and a `Side` of columns (all are looped over): anchors
against contrasts for the statistics and for the anchors' gradient, contrasts against anchors for the contrasts'.
"""

from collections.abc import Collection
from dataclasses import dataclass
from math import sqrt

import torch
import torch.nn.functional as F
import triton
from torch import Tensor

from sincere.losses.backends.saved import Gradients, Problem, Saved
from sincere.losses.backends.triton_launch import (
    LN2,
    PAD,
    Forces,
    Precision,
    gradient_launch,
    on_device_of,
    padded_width,
    statistics_launch,
)
from sincere.losses.backends.triton_wide import WideGradient
from sincere.losses.relation import LAST, Relation
from sincere.losses.statistics import Statistic

TO_BASE_2 = 1 / sqrt(LN2)
NO_COLUMN = -1
# Gradients of logits are about 1/n², too small for float16: divided by the largest and times this, they fit.
FLOAT16_SCALE = 4096.0


@dataclass(frozen=True)
class Side:
    """One set of rows in class order, padded."""

    rows: Tensor  # (padded, D) in the kernels' precision
    order: Tensor  # (n,) the caller's row at each place
    # (4, padded) int32: the caller's row; where its class starts and ends on the other side (`_class_ranges`); its own
    # place there, or NO_COLUMN.
    places: Tensor
    count: Tensor  # (1,) int32: rows that take part; they come first

    @property
    def size(self) -> int:
        return self.order.shape[0]


def padded(values: Tensor, fill: float) -> Tensor:
    """Values, with `fill` up to a whole number of tiles."""
    n = values.shape[0]
    out = values.new_full((max(1, triton.cdiv(n, PAD)) * PAD, *values.shape[1:]), fill)
    out[:n] = values
    return out


def sides(anchors: Tensor, contrasts: Tensor | None, relation: Relation, precision: Precision) -> tuple[Side, Side]:
    """Anchors and contrasts in class order; the same `Side` twice for a batch against itself."""
    contrast_keys, contrast_order = torch.where(relation.usable, relation.contrast, LAST).sort(stable=True)
    usable = relation.usable.sum(dim=0, keepdim=True, dtype=torch.int32)
    if contrasts is None:
        start = torch.searchsorted(contrast_keys, contrast_keys)
        end = torch.searchsorted(contrast_keys, contrast_keys, right=True)
        place = torch.arange(contrast_order.shape[0], device=anchors.device)
        side = _side(anchors, contrast_order, place, start, end, usable, precision)
        return side, side
    anchor_keys, anchor_order = torch.where(relation.labelled, relation.anchor, LAST).sort(stable=True)
    labelled = relation.labelled.sum(dim=0, keepdim=True, dtype=torch.int32)
    anchor_self, contrast_self = _own_places(anchor_order, contrast_order, relation.self_offset)
    first, last = _class_ranges(anchor_keys, relation.labelled[anchor_order], contrast_keys, usable)
    anchor_side = _side(anchors, anchor_order, anchor_self, first, last, labelled, precision)
    first, last = _class_ranges(contrast_keys, relation.usable[contrast_order], anchor_keys, labelled)
    return anchor_side, _side(contrasts, contrast_order, contrast_self, first, last, usable, precision)


def _class_ranges(keys: Tensor, takes_part: Tensor, others: Tensor, others_count: Tensor) -> tuple[Tensor, Tensor]:
    """Where the classes of `keys` start and end among the other side's keys, of which the first `others_count` count.

    Empty where there are none of a class: at 1 for rows that take part all the same, as negatives, and at 0 for others.
    """
    start = torch.searchsorted(others, keys).minimum(others_count)
    end = torch.searchsorted(others, keys, right=True).minimum(others_count)
    empty = (start == end) | ~takes_part
    at = takes_part.to(start.dtype)
    return torch.where(empty, at, start), torch.where(empty, at, end)


def _own_places(anchor_order: Tensor, contrast_order: Tensor, offset: int | None) -> tuple[Tensor, Tensor]:
    """Where each anchor stands among the contrasts, and each contrast among the anchors."""
    n, m = anchor_order.shape[0], contrast_order.shape[0]
    if offset is None:
        return torch.full_like(anchor_order, NO_COLUMN), torch.full_like(contrast_order, NO_COLUMN)
    place_of_contrast = torch.empty_like(contrast_order).scatter_(
        0, contrast_order, torch.arange(m, device=contrast_order.device)
    )
    anchor_self = place_of_contrast[anchor_order + offset]
    contrast_self = torch.full_like(contrast_order, NO_COLUMN)
    contrast_self[anchor_self] = torch.arange(n, device=anchor_order.device)
    return anchor_self, contrast_self


def _side(
    rows: Tensor,
    order: Tensor,
    self_place: Tensor,
    start: Tensor,
    end: Tensor,
    count: Tensor,
    precision: Precision,
) -> Side:
    width, _, _ = padded_width(rows.shape[1], precision)
    ordered = rows.new_zeros((max(1, triton.cdiv(order.shape[0], PAD)) * PAD, width), dtype=precision.dtype)
    ordered[: order.shape[0], : rows.shape[1]] = (rows * TO_BASE_2)[order].to(precision.dtype)
    if precision.input_precision == "tf32":
        # To nearest, as `to_tf32` does: tensor cores cut the other bits off. NaN has to stay what it is.
        bits, broken = ordered.view(torch.int32), ordered.isnan()
        bits.add_(0x1000).bitwise_and_(-0x2000)
        ordered.masked_fill_(broken, torch.nan)
    return Side(
        rows=ordered,
        order=order,
        places=padded(torch.stack([order, start, end, self_place], dim=1).int(), NO_COLUMN).T.contiguous(),
        count=count,
    )


def forward(problem: Problem, wanted: Collection[Statistic]) -> Saved:
    """The wanted statistics of every anchor."""
    anchors, relation, bounded = problem.anchors, problem.relation, problem.bounded
    saved = Saved.empty(anchors)
    if anchors.shape[0] == 0:
        return saved
    how = Precision.named(problem.precision, problem.bounded)
    rows, columns = sides(anchors, problem.contrasts, relation, how)
    bias = _ordered_bias(relation, columns)
    totals = launch_statistics(rows, columns, bias, anchors.shape[1], problem.margin, bounded, wanted, how)
    lse_neg, lse_pos, sum_pos, softplus, sigma = totals
    lse_neg, lse_pos, sum_pos = lse_neg * LN2, lse_pos * LN2, sum_pos * LN2
    n = rows.size
    _, start, end, own = rows.places[:, :n]
    has_self = (own != NO_COLUMN).int()
    same = end - start - has_self
    positives = torch.where(relation.labelled[rows.order], same, 0).to(anchors.dtype)
    divisor = positives.clamp(min=1)
    saved.weight_sum[rows.order] = positives
    saved.num_neg[rows.order] = (columns.count - has_self - same).long()
    saved.lse_neg[rows.order] = lse_neg[:n]
    saved.lse_pos[rows.order] = lse_pos[:n]
    saved.lse_all[rows.order] = torch.logaddexp(lse_neg[:n], lse_pos[:n])
    saved.mean_pos[rows.order] = sum_pos[:n] / divisor
    if "mean_softplus" in wanted:
        saved.mean_softplus[rows.order] = softplus[:n] / divisor
        saved.mean_sigma[rows.order] = sigma[:n] / divisor
    return saved


def _ordered_bias(relation: Relation, columns: Side) -> Tensor | None:
    """What is added to a contrast's logits where it is a negative, in the contrasts' order; None where nothing is."""
    bias = relation.negative_bias
    return None if bias is None else padded(bias[columns.order].float(), 0.0)


def launch_statistics(
    rows: Side,
    columns: Side,
    bias: Tensor | None,
    dim: int,
    margin: float,
    bounded: bool,
    wanted: Collection[Statistic],
    how: Precision,
) -> Tensor:
    """Five sums per row, (5, padded): lse_neg, lse_pos, Σ_P s in base 2; Σ_P softplus, Σ_P σ."""
    size = rows.rows.shape[0]
    out = torch.empty((5, size), dtype=torch.float32, device=rows.rows.device)
    launch = statistics_launch(size, dim, bounded, wanted, how, balanced=bias is not None)
    unused = rows.places
    with on_device_of(out):
        launch(
            rows.rows, columns.rows, rows.places, columns.count, out, unused, unused, unused,
            unused if bias is None else bias / LN2, size, 0, margin / LN2, 1, 0, size,
        )  # fmt: skip
    return out


def backward(problem: Problem, saved: Saved, grads: Gradients) -> tuple[Tensor, Tensor | None]:
    """∂L/∂anchors and ∂L/∂contrasts; None for a batch against itself, where the former holds both."""
    anchors, contrasts, relation, bounded = problem.anchors, problem.contrasts, problem.relation, problem.bounded
    if anchors.shape[0] == 0 or problem.contrast_rows.shape[0] == 0:
        return torch.zeros_like(anchors), None if contrasts is None else torch.zeros_like(contrasts)
    how = Precision.named(problem.precision, problem.bounded)
    rows, columns = sides(anchors, problem.contrasts, relation, how)
    table = coefficients(saved, grads, problem.margin, bounded)
    if how.dtype == torch.float16:
        grads_size = torch.stack([g.abs().max() for g in grads.given()]).max()
        scale = torch.where(grads_size > 0, FLOAT16_SCALE / grads_size, 1)
        table[::2] *= scale
    else:
        scale = None
    bias = _ordered_bias(relation, columns)
    own, others = _tables(table, rows, columns, bias, bounded)
    balanced = bias is not None
    if contrasts is None:
        gradient = _gradient_of(rows, rows, (own, own), "both", anchors, bounded, how, grads, balanced)
        return gradient if scale is None else gradient / scale, None
    as_anchor = _gradient_of(rows, columns, (own, others), "row", anchors, bounded, how, grads, balanced)
    as_contrast = _gradient_of(columns, rows, (others, own), "column", contrasts, bounded, how, grads, balanced)
    return (as_anchor, as_contrast) if scale is None else (as_anchor / scale, as_contrast / scale)


def coefficients(saved: Saved, grads: Gradients, margin: float, bounded: bool) -> Tensor:
    """Seven numbers per anchor: push of negatives and its lse, push of positives and its lse, pull, gap, constant.

    Log-sum-exps and gap are in base 2. Where `bounded`, pushes hold e^(−lse) already, and gap stands as e^(−gap).
    ∂lse_all reaches negatives and positives through their own log-sum-exps, which are never above it.
    """
    zero = torch.zeros_like(saved.lse_neg)

    def finite(lse: Tensor) -> Tensor:
        return torch.where(lse == -torch.inf, 0, lse)

    def through(lse: Tensor, own: Tensor | None) -> Tensor:
        total = zero if own is None else own
        if grads.lse_all is not None:
            total = total + grads.lse_all * (finite(lse) - finite(saved.lse_all)).clamp(max=0).exp()
        total = torch.where(lse == -torch.inf, 0, total)
        return total * (-finite(lse)).exp() if bounded else total

    share = 1 / saved.safe_weight_sum
    no_negatives = saved.lse_neg == -torch.inf
    gap = torch.where(no_negatives, 0, saved.lse_neg + margin)
    pull = zero if grads.mean_softplus is None else torch.where(no_negatives, 0, grads.mean_softplus * share)
    return torch.stack(
        [
            through(saved.lse_neg, grads.through_lse_neg(saved)),
            finite(saved.lse_neg) / LN2,
            through(saved.lse_pos, grads.lse_pos),
            finite(saved.lse_pos) / LN2,
            pull,
            (-gap).exp() if bounded else gap / LN2,
            zero if grads.mean_pos is None else grads.mean_pos * share,
        ]
    )


def _tables(numbers: Tensor, rows: Side, columns: Side, bias: Tensor | None, bounded: bool) -> tuple[Tensor, Tensor]:
    """Numbers of the anchors in their order, 0 for contrasts that are no anchors; below them where there is a bias each
    contrast's weight as a negative, where `bounded`, or the bias in base 2."""
    if bias is not None:
        numbers = F.pad(numbers, (0, 0, 0, 1))
    own = padded(numbers[:, rows.order].T, 0.0).T.contiguous()
    others = own if rows is columns else own.new_zeros(len(own), columns.rows.shape[0])
    if bias is not None:
        others[-1] = bias.exp() if bounded else bias / LN2
    return own, others


def _gradient_of(
    rows: Side,
    columns: Side,
    tables: tuple[Tensor, Tensor],
    anchors_on: str,
    like: Tensor,
    bounded: bool,
    how: Precision,
    grads: Gradients,
    balanced: bool,
) -> Tensor:
    """The gradient of `rows`, back in the caller's order."""
    pulls = grads.mean_softplus is not None
    pushes = any(grad is not None for grad in (grads.lse_all, grads.lse_pos, grads.mean_pos))
    size, row_table, column_table = rows.rows.shape[0], *tables
    out = torch.empty(rows.rows.shape, dtype=torch.float32, device=like.device)
    dim, forces = like.shape[1], Forces(bounded, anchors_on, how, pushes, pulls, balanced)
    with on_device_of(out):
        if out.shape[1] > padded_width(dim, how)[2]:
            wide = WideGradient(size, column_table.shape[1], dim, forces)
            wide(rows.rows, columns.rows, rows.places, columns.count, row_table, column_table, out, 0)
        else:
            launch, unused = gradient_launch(size, dim, forces), rows.places
            launch(
                rows.rows, columns.rows, rows.places, columns.count, row_table, column_table, out,
                unused, unused, unused, unused, unused, size, column_table.shape[1], 0, 1.0, 1, size, 1,
            )  # fmt: skip
    result = torch.zeros_like(like)
    taking_part = torch.arange(rows.size, device=like.device) < rows.count
    gradient = torch.where(taking_part.unsqueeze(1), out[: rows.size, : like.shape[1]], 0)
    result[rows.order] = (gradient * (1 / TO_BASE_2)).to(like.dtype)
    return result
