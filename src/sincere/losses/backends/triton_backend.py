"""The statistics by fused kernels on a GPU: sorting, padding and launching; triton_kernels.py computes.

What a launch needs is a `Side` of rows (each owns its output) and a `Side` of columns (all are looped over): anchors
against contrasts for the statistics and for the anchors' gradient, contrasts against anchors for the contrasts'.
"""

from collections.abc import Collection
from dataclasses import dataclass
from math import log, sqrt

import torch
import triton
from torch import Tensor

from sincere.losses.backends import triton_kernels as kernels
from sincere.losses.backends.saved import Gradients, Problem, Saved
from sincere.losses.relation import Relation
from sincere.losses.statistics import Statistic

TO_BASE_2 = 1 / sqrt(log(2.0))
PAD = 128  # rows are padded to a multiple of every tile's height and width
WIDEST = 256  # embeddings up to this dimension stay in registers; wider ones are read DK at a time
NO_LABEL, NO_COLUMN = -1, -1
# Gradients of logits are some 1/n², below what float16 resolves: they travel times this, over their largest part.
FLOAT16_SCALE = 4096.0
LAST = torch.iinfo(torch.int64).max  # sorts what takes no part behind everything else


@dataclass(frozen=True)
class Tile:
    """Shape and resources of a program."""

    BM: int
    BN: int
    num_warps: int
    num_stages: int


@dataclass(frozen=True)
class Side:
    """One set of rows in class order, padded."""

    rows: Tensor  # (padded, D) in the kernels' precision
    order: Tensor  # (n,) the caller's row at each place
    label: Tensor  # (padded,) int32: where its class begins among the contrasts; NO_LABEL where it has none there
    self_place: Tensor  # (padded,) int32: the row's own place on the other side, or NO_COLUMN
    start: Tensor  # (padded,) int32: where its class begins on the other side
    end: Tensor  # and ends
    count: Tensor  # (1,) int32: rows that take part; they come first

    @property
    def size(self) -> int:
        return self.order.shape[0]


@dataclass(frozen=True)
class Precision:
    """How products are computed."""

    dtype: torch.dtype
    input_precision: str
    in_parts: bool = False  # three products at a time would not fit the registers whole

    @classmethod
    def named(cls, name: str) -> "Precision":
        """That of the embeddings; for float32 torch's own setting decides between TF32 and all digits."""
        if name == "float32" and torch.get_float32_matmul_precision() != "highest":
            name = "tf32"
        return {
            "bfloat16": cls(torch.bfloat16, "ieee"),
            "float16": cls(torch.float16, "ieee"),
            "tf32": cls(torch.float32, "tf32"),
            # Three TF32 products that add up to float32's digits: plain float32 has no tensor cores, and spills.
            "float32": cls(torch.float32, "tf32x3", in_parts=True),
        }[name]


def padded(values: Tensor, fill: float) -> Tensor:
    """Values, with `fill` up to a whole number of tiles."""
    n = values.shape[0]
    out = values.new_full((max(1, triton.cdiv(n, PAD)) * PAD, *values.shape[1:]), fill)
    out[:n] = values
    return out


def padded_width(dim: int, how: Precision) -> tuple[int, int, int]:
    """Stored width; how much of it a product takes at a time; how much of it a program's gradient holds."""
    if dim > WIDEST:
        width = triton.cdiv(dim, 128) * 128
        return width, 32 if how.in_parts else 128, 128
    width = max(16, triton.next_power_of_2(dim))
    return width, min(width, 32) if how.in_parts else width, min(width, 128) if how.in_parts else width


def sides(anchors: Tensor, contrasts: Tensor | None, relation: Relation, precision: Precision) -> tuple[Side, Side]:
    """Anchors and contrasts in class order; the same `Side` twice for a batch against itself."""
    contrast_keys, contrast_order = torch.where(relation.usable, relation.contrast, LAST).sort(stable=True)
    usable = relation.usable.sum(dim=0, keepdim=True, dtype=torch.int32)
    start = torch.searchsorted(contrast_keys, contrast_keys)
    end = torch.searchsorted(contrast_keys, contrast_keys, right=True)
    if contrasts is None:
        place = torch.arange(contrast_order.shape[0], device=anchors.device)
        side = _side(anchors, contrast_order, start, place, start, end, usable, precision)
        return side, side
    anchor_keys, anchor_order = torch.where(relation.labelled, relation.anchor, LAST).sort(stable=True)
    labelled = relation.labelled.sum(dim=0, keepdim=True, dtype=torch.int32)
    first = torch.searchsorted(contrast_keys, anchor_keys)
    last = torch.searchsorted(contrast_keys, anchor_keys, right=True)
    anchor_label = torch.where((last > first) & (anchor_keys != LAST), first, NO_LABEL)
    anchor_self, contrast_self = _own_places(anchor_order, contrast_order, relation.self_offset)
    anchor_side = _side(anchors, anchor_order, anchor_label, anchor_self, first, last, labelled, precision)
    first = torch.searchsorted(anchor_keys, contrast_keys)
    last = torch.searchsorted(anchor_keys, contrast_keys, right=True)
    return anchor_side, _side(contrasts, contrast_order, start, contrast_self, first, last, usable, precision)


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
    label: Tensor,
    self_place: Tensor,
    start: Tensor,
    end: Tensor,
    count: Tensor,
    precision: Precision,
) -> Side:
    width, _, _ = padded_width(rows.shape[1], precision)
    ordered = rows.new_zeros((max(1, triton.cdiv(order.shape[0], PAD)) * PAD, width), dtype=precision.dtype)
    ordered[: order.shape[0], : rows.shape[1]] = (rows * TO_BASE_2)[order].to(precision.dtype)
    return Side(
        rows=ordered,
        order=order,
        label=padded(label.int(), NO_LABEL - 1),
        self_place=padded(self_place.int(), NO_COLUMN),
        start=padded(start.int(), 0),
        end=padded(end.int(), 0),
        count=count,
    )


def forward(problem: Problem, wanted: Collection[Statistic]) -> Saved:
    """The wanted statistics of every anchor."""
    anchors, relation, bounded = problem.anchors, problem.relation, problem.bounded
    saved = Saved.empty(anchors)
    if anchors.shape[0] == 0:
        return saved
    how = Precision.named(problem.precision)
    rows, columns = sides(anchors, problem.contrasts, relation, how)
    lse_neg, lse_pos, sum_pos, softplus, sigma = rows.rows.new_empty((5, rows.rows.shape[0]), dtype=torch.float32)
    _, dk, _ = padded_width(anchors.shape[1], how)
    tile = statistics_tile(dk, how.dtype)
    kernels.statistics_kernel[(rows.rows.shape[0] // tile.BM,)](
        rows.rows, columns.rows, rows.label, columns.label, rows.self_place, rows.start, rows.end, columns.count,
        lse_neg, lse_pos, sum_pos, softplus, sigma, problem.margin,
        D=rows.rows.shape[1], DK=dk, BM=tile.BM, BN=tile.BN, BOUNDED=bounded,
        POSITIVES=bool({"lse_all", "lse_pos", "mean_pos"} & set(wanted)), SOFTPLUS="mean_softplus" in wanted,
        PRECISION=how.input_precision, UPCAST=interpreted(), num_warps=tile.num_warps, num_stages=tile.num_stages,
    )  # fmt: skip
    n = rows.size
    has_self = (rows.self_place[:n] != NO_COLUMN).int()
    same = torch.where(rows.label[:n] == NO_LABEL, 0, rows.end[:n] - rows.start[:n] - has_self)
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


def backward(problem: Problem, saved: Saved, grads: Gradients) -> tuple[Tensor, Tensor | None]:
    """∂L/∂anchors and ∂L/∂contrasts; None for a batch against itself, where the former holds both."""
    anchors, contrasts, relation, bounded = problem.anchors, problem.contrasts, problem.relation, problem.bounded
    if anchors.shape[0] == 0 or problem.contrast_rows.shape[0] == 0:
        return torch.zeros_like(anchors), None if contrasts is None else torch.zeros_like(contrasts)
    how = Precision.named(problem.precision)
    rows, columns = sides(anchors, problem.contrasts, relation, how)
    table = coefficients(saved, grads, problem.margin, bounded)
    if how.dtype == torch.float16:
        grads_size = torch.stack([g.abs().max() for g in grads.given()]).max()
        scale = torch.where(grads_size > 0, FLOAT16_SCALE / grads_size, 1)
        table[[0, 2, 4, 6]] *= scale
    else:
        scale = None
    ordered = padded(table[:, rows.order].T, 0.0).T.contiguous()
    if contrasts is None:
        own = _launch(rows, rows, ordered, ordered, "both", anchors, bounded, how, grads)
        return own if scale is None else own / scale, None
    nothing = ordered.new_zeros(7, columns.rows.shape[0])
    as_anchor = _launch(rows, columns, ordered, nothing, "row", anchors, bounded, how, grads)
    as_contrast = _launch(columns, rows, nothing, ordered, "column", contrasts, bounded, how, grads)
    return (as_anchor, as_contrast) if scale is None else (as_anchor / scale, as_contrast / scale)


def coefficients(saved: Saved, grads: Gradients, margin: float, bounded: bool) -> Tensor:
    """Seven numbers per anchor: push of negatives and its lse, push of positives and its lse, pull, gap, constant.

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

    in_base_2 = 1 / log(2.0)
    share = 1 / saved.safe_weight_sum
    return torch.stack(
        [
            through(saved.lse_neg, grads.through_lse_neg(saved)),
            finite(saved.lse_neg) * in_base_2,
            through(saved.lse_pos, grads.lse_pos),
            finite(saved.lse_pos) * in_base_2,
            zero if grads.mean_softplus is None else grads.mean_softplus * share,
            torch.where(saved.lse_neg == -torch.inf, -1e30, saved.lse_neg + margin),
            zero if grads.mean_pos is None else grads.mean_pos * share,
        ]
    )


def _launch(
    rows: Side,
    columns: Side,
    row_table: Tensor,
    column_table: Tensor,
    sides_with_anchors: str,
    like: Tensor,
    bounded: bool,
    how: Precision,
    grads: Gradients,
) -> Tensor:
    """The gradient of `rows`, back in the caller's order."""
    out = torch.empty(rows.rows.shape, dtype=torch.float32, device=like.device)
    width, dk, do = padded_width(like.shape[1], how)
    # With neither, the kernel for half precision does not compile (triton 3.6), so an empty push stays in.
    pushes, pulls = grads.lse_all is not None or grads.lse_pos is not None, grads.mean_softplus is not None
    tile = gradient_tile(dk, how.dtype)
    kernels.gradient_kernel[(rows.rows.shape[0] // tile.BM, width // do)](
        rows.rows, columns.rows, rows.label, columns.label, rows.self_place, rows.start, rows.end, columns.count,
        row_table, column_table, row_table.shape[1], column_table.shape[1], out,
        D=width, DK=dk, DO=do, BM=tile.BM, BN=tile.BN, BOUNDED=bounded, SIDES=sides_with_anchors,
        PUSH=pushes or not pulls, PULL=pulls,
        PRECISION=how.input_precision, UPCAST=interpreted(), num_warps=tile.num_warps, num_stages=tile.num_stages,
    )  # fmt: skip
    result = torch.zeros_like(like)
    taking_part = torch.arange(rows.size, device=like.device) < rows.count
    gradient = torch.where(taking_part.unsqueeze(1), out[: rows.size, : like.shape[1]], 0)
    result[rows.order] = (gradient * (1 / TO_BASE_2)).to(like.dtype)
    return result


def interpreted() -> bool:
    """Are the kernels run by Triton's interpreter, on the CPU?"""
    return not isinstance(kernels.statistics_kernel, triton.runtime.JITFunction)


def statistics_tile(width: int, dtype: torch.dtype) -> Tile:
    """What a sweep on an H200 found best (benchmarks/gpu_tiles.py)."""
    if dtype == torch.float32:
        return Tile(64, 64, 4, 2)
    return Tile(64, 64, 4, 3) if width <= 128 else Tile(64, 64, 4, 2)


def gradient_tile(width: int, dtype: torch.dtype) -> Tile:
    if dtype == torch.float32:
        return Tile(64, 32, 4, 2)
    return Tile(64, 64, 4, 2) if width <= 128 else Tile(64, 32, 4, 2)
