"""The statistics by fused kernels on a GPU: sorting, padding and launching; triton_kernels.py computes.

What a launch needs is a `Side` of rows (each owns its output) and a `Side` of columns (all are looped over): anchors
against contrasts for the statistics and for the anchors' gradient, contrasts against anchors for the contrasts'.
"""

from collections.abc import Collection
from dataclasses import dataclass
from math import log, sqrt
from typing import Any

import torch
import triton
from torch import Tensor

from sincere.losses.backends import triton_kernels as kernels
from sincere.losses.backends.saved import Gradients, Problem, Saved
from sincere.losses.relation import Relation
from sincere.losses.statistics import Statistic

LN2 = log(2.0)
TO_BASE_2 = 1 / sqrt(LN2)
PAD = 128  # rows are padded to a multiple of every tile's height and width
WIDEST = 256  # embeddings up to this dimension stay in registers; wider ones are read DK at a time
NO_COLUMN = -1
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
    # (4, padded) int32: the caller's row; where its class starts and ends on the other side, empty where it has none
    # there; its own place there, or NO_COLUMN.
    places: Tensor
    count: Tensor  # (1,) int32: rows that take part; they come first

    @property
    def size(self) -> int:
        return self.order.shape[0]


@dataclass(frozen=True)
class FusedLoss:
    """What the two kernels need to go from embeddings to a loss and back, beyond statistics and their gradient."""

    coefficients: tuple[float, ...]  # of lse_all, lse_neg, lse_pos, mean_pos, mean_softplus, log|P|, 1; needs negatives
    reduction: str
    weighted: bool
    cosine: bool
    learned: bool  # is the temperature a tensor


@dataclass(frozen=True)
class Precision:
    """How products are computed."""

    dtype: torch.dtype
    input_precision: str
    in_parts: bool = False  # three products at a time would not fit the registers whole

    @classmethod
    def named(cls, name: str, unit_rows: bool) -> "Precision":
        """That of the embeddings; for float32 torch's own setting decides between TF32 and all digits.

        Float16 keeps as many digits as TF32, at twice the speed; normalised rows cannot leave its range.
        """
        if name == "float32" and torch.get_float32_matmul_precision() != "highest":
            name = "float16" if unit_rows else "tf32"
        return PRECISIONS[name]


PRECISIONS = {
    "bfloat16": Precision(torch.bfloat16, "ieee"),
    "float16": Precision(torch.float16, "ieee"),
    "tf32": Precision(torch.float32, "tf32"),
    # Three TF32 products that add up to float32's digits: plain float32 has no tensor cores, and spills.
    "float32": Precision(torch.float32, "tf32x3", in_parts=True),
}


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
    if contrasts is None:
        start = torch.searchsorted(contrast_keys, contrast_keys)
        end = torch.searchsorted(contrast_keys, contrast_keys, right=True)
        place = torch.arange(contrast_order.shape[0], device=anchors.device)
        side = _side(anchors, contrast_order, place, start, end, usable, precision)
        return side, side
    anchor_keys, anchor_order = torch.where(relation.labelled, relation.anchor, LAST).sort(stable=True)
    labelled = relation.labelled.sum(dim=0, keepdim=True, dtype=torch.int32)
    first = torch.searchsorted(contrast_keys, anchor_keys)
    last = torch.searchsorted(contrast_keys, anchor_keys, right=True)
    last = torch.where(anchor_keys == LAST, first, last)
    anchor_self, contrast_self = _own_places(anchor_order, contrast_order, relation.self_offset)
    anchor_side = _side(anchors, anchor_order, anchor_self, first, last, labelled, precision)
    first = torch.searchsorted(anchor_keys, contrast_keys)
    last = torch.searchsorted(anchor_keys, contrast_keys, right=True)
    last = torch.where(contrast_keys == LAST, first, last)
    return anchor_side, _side(contrasts, contrast_order, contrast_self, first, last, usable, precision)


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
    totals = launch_statistics(rows, columns, anchors.shape[1], problem.margin, bounded, wanted, how)
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


def launch_statistics(
    rows: Side, columns: Side, dim: int, margin: float, bounded: bool, wanted: Collection[Statistic], how: Precision
) -> Tensor:
    """Five sums per row, (5, padded): lse_neg, lse_pos, Σ_P s in base 2; Σ_P softplus, Σ_P σ."""
    size = rows.rows.shape[0]
    out = torch.empty((5, size), dtype=torch.float32, device=rows.rows.device)
    launch = statistics_launch(size, dim, bounded, wanted, how)
    unused = rows.places
    launch(
        rows.rows, columns.rows, rows.places, columns.count, out, unused, unused, unused,
        size, 0, margin / LN2, 1, 0, size,
    )  # fmt: skip
    return out


def statistics_launch(
    size: int, dim: int, bounded: bool, wanted: Collection[Statistic], how: Precision, loss: FusedLoss | None = None
) -> "Launch":
    """The statistics kernel for so many rows of a padded side, and the loss right behind it where one is given."""
    width, dk, _ = padded_width(dim, how)
    tile = statistics_tile(dk, how.dtype, size)
    constants = {
        "D": width, "DK": dk, "BM": tile.BM, "BN": tile.BN, "BOUNDED": bounded,
        "POSITIVES": bool({"lse_all", "lse_pos", "mean_pos"} & set(wanted)), "SOFTPLUS": "mean_softplus" in wanted,
        "PRECISION": how.input_precision, "UPCAST": interpreted(), "LOSS": None, "WEIGHTED": False, "REDUCTION": "none",
    }  # fmt: skip
    if loss is not None:
        constants |= {"LOSS": loss.coefficients, "WEIGHTED": loss.weighted, "REDUCTION": loss.reduction}
    return Launch(kernels.statistics_kernel, (size // tile.BM, 1, 1), constants, tile.num_warps, tile.num_stages)


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
        table[[0, 2, 4, 6]] *= scale
    else:
        scale = None
    ordered = padded(table[:, rows.order].T, 0.0).T.contiguous()
    if contrasts is None:
        own = _gradient_of(rows, rows, (ordered, ordered), "both", anchors, bounded, how, grads)
        return own if scale is None else own / scale, None
    nothing = ordered.new_zeros(7, columns.rows.shape[0])
    as_anchor = _gradient_of(rows, columns, (ordered, nothing), "row", anchors, bounded, how, grads)
    as_contrast = _gradient_of(columns, rows, (nothing, ordered), "column", contrasts, bounded, how, grads)
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


def _gradient_of(
    rows: Side,
    columns: Side,
    tables: tuple[Tensor, Tensor],
    anchors_on: str,
    like: Tensor,
    bounded: bool,
    how: Precision,
    grads: Gradients,
) -> Tensor:
    """The gradient of `rows`, back in the caller's order."""
    pulls = grads.mean_softplus is not None
    pushes = any(grad is not None for grad in (grads.lse_all, grads.lse_pos, grads.mean_pos))
    size, row_table, column_table = rows.rows.shape[0], *tables
    out = torch.empty(rows.rows.shape, dtype=torch.float32, device=like.device)
    launch = gradient_launch(size, like.shape[1], bounded, anchors_on, how, pushes, pulls)
    unused = rows.places
    launch(
        rows.rows, columns.rows, rows.places, columns.count, row_table, column_table, out,
        unused, unused, unused, unused, unused, size, column_table.shape[1], 0, 1.0, 1, size, 1,
    )  # fmt: skip
    result = torch.zeros_like(like)
    taking_part = torch.arange(rows.size, device=like.device) < rows.count
    gradient = torch.where(taking_part.unsqueeze(1), out[: rows.size, : like.shape[1]], 0)
    result[rows.order] = (gradient * (1 / TO_BASE_2)).to(like.dtype)
    return result


def gradient_launch(
    size: int,
    dim: int,
    bounded: bool,
    anchors_on: str,
    how: Precision,
    pushes: bool,
    pulls: bool,
    back_to: FusedLoss | None = None,
) -> "Launch":
    """The gradient kernel for so many rows of a padded side, back to the caller's rows where a fused loss is given."""
    width, dk, do = padded_width(dim, how)
    tile = gradient_tile(dk, how.dtype, size)
    constants = {
        "D": width, "DK": dk, "DO": do, "BM": tile.BM, "BN": tile.BN, "BOUNDED": bounded, "SIDES": anchors_on,
        "PUSH": pushes, "PULL": pulls, "PRECISION": how.input_precision, "UPCAST": interpreted(),
        "RETURN": False, "COSINE": False, "LEARNED": False,
    }  # fmt: skip
    if back_to is not None:
        constants |= {"RETURN": True, "COSINE": back_to.cosine, "LEARNED": back_to.learned}
    grid = (size // tile.BM, width // do, 1)
    return Launch(kernels.gradient_kernel, grid, constants, tile.num_warps, tile.num_stages)


class Launch:
    """A kernel with its grid and constants, for arguments that differ in nothing but addresses from call to call.

    What Triton looks at before every launch (types, sizes, alignments) is looked at once: on a slow CPU that is most of
    what a launch costs.
    """

    def __init__(
        self, kernel: Any, grid: tuple[int, int, int], constants: dict[str, Any], warps: int = 4, stages: int = 3
    ) -> None:
        self.kernel, self.grid, self.constants = kernel, grid, constants
        self.options = {"num_warps": warps, "num_stages": stages}
        self.values = tuple(constants.values())
        self.compiled: Any = None

    def __call__(self, *arguments: Any) -> None:
        if self.compiled is not None:
            self.compiled(*arguments, *self.values)
            return
        names = self.kernel.arg_names[len(arguments) :]
        assert names == list(self.constants), f"constants must come in the kernel's order, {names}"
        compiled = self.kernel[self.grid](*arguments, **self.constants, **self.options)
        if not interpreted():
            self.compiled = compiled[self.grid]


def interpreted() -> bool:
    """Are the kernels run by Triton's interpreter, on the CPU?"""
    return not isinstance(kernels.statistics_kernel, triton.runtime.JITFunction)


def statistics_tile(width: int, dtype: torch.dtype, rows: int) -> Tile:
    """What a sweep on an H200 found best (benchmarks/gpu_tiles.py)."""
    if dtype == torch.float32 or width > 128:
        return Tile(64, 64, 4, 2)
    if rows <= 6144:
        return Tile(32, 128, 4, 3)
    return Tile(128, 64, 8, 3) if rows > 32768 else Tile(64, 64, 4, 4)


def gradient_tile(width: int, dtype: torch.dtype, rows: int) -> Tile:
    if dtype == torch.float32:
        return Tile(64, 32, 4, 2)
    if width > 128:
        return Tile(64, 32, 4, 2)
    return Tile(32, 128, 4, 3) if rows <= 6144 else Tile(64, 128, 4, 2)
