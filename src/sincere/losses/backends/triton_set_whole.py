"""The kernels of a whole set loss of a batch against itself: what stands around its products of matrices.

`number_ptr` holds nine rows of n floats: an anchor's λ, a, b, c, e and 1/k (triton_set.py), its inverse norm, its loss
and the weight that is counted; then the factor of the mean. `usable_ptr` holds two rows of n bytes: who may be a
contrast, and who may be an anchor.
"""

import triton
import triton.language as tl

from sincere.losses.backends.triton_set import find_row, force
from sincere.losses.backends.triton_tiles import in_precision


@triton.jit
def scale_of(scale, LEARNED: tl.constexpr):
    """τ^(−½): given as a number, or found from the tensor that holds τ."""
    found = scale
    if LEARNED:
        found = tl.div_rn(1.0, tl.sqrt_rn(tl.load(scale).to(tl.float32)))
    return found


@triton.jit
def set_rows_kernel(
    x_ptr, x_stride, label_ptr, views, ignore, scale, rows_ptr, key_ptr, usable_ptr, number_ptr, n, dim,
    WIDE: tl.constexpr, BR: tl.constexpr, KEEP_IGNORED: tl.constexpr, COSINE: tl.constexpr, LEARNED: tl.constexpr,
):  # fmt: skip
    """Classes, who takes part, and rows whose inner products are logits; zeros for rows that take no part.

    As `similarity.unit_rows`: dividing by the largest entry first keeps norms from over- or underflowing, and a zero
    row stays zero.
    """
    row = tl.program_id(0) * BR + tl.arange(0, BR)
    mask = row < n
    label = tl.load(label_ptr + row // views, mask=mask, other=0).to(tl.int64)
    labelled = mask & (label != ignore)
    usable = labelled
    if KEEP_IGNORED:
        usable = mask
    tl.store(key_ptr + row, label, mask=mask)
    tl.store(usable_ptr + row, usable.to(tl.uint8), mask=mask)
    tl.store(usable_ptr + n + row, labelled.to(tl.uint8), mask=mask)
    dims = tl.arange(0, WIDE)
    inside = mask[:, None] & (dims < dim)[None, :]
    at = row.to(tl.int64)[:, None]
    x = tl.load(x_ptr + at * x_stride + dims[None, :], mask=inside & usable[:, None], other=0.0).to(tl.float32)
    if COSINE:
        largest = tl.max(tl.abs(x), axis=1)
        largest = tl.where(largest > 0, largest, 1.0)
        x = tl.div_rn(x, largest[:, None])
        squared = tl.sum(x * x, axis=1)
        # Asked this way round NaN stays.
        length = tl.div_rn(1.0, tl.sqrt_rn(tl.where(squared == 0, 1.0, squared)))
        length = tl.where(squared == 0, 0.0, length)
        x = x * length[:, None]
        tl.store(number_ptr + 6 * n + row, length / largest, mask=mask)
    tl.store(rows_ptr + at * dim + dims[None, :], x * scale_of(scale, LEARNED), mask=inside)


@triton.jit
def set_losses_kernel(
    score_ptr, key_ptr, usable_ptr, number_ptr, first, n,
    BLOCK: tl.constexpr, HELD: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """The losses of the anchors from `first` on, whether each has a positive, and the numbers for their gradients."""
    row = first + tl.program_id(0)
    score_ptr += tl.program_id(0).to(tl.int64) * n
    label, labelled = tl.load(key_ptr + row), tl.load(usable_ptr + n + row) != 0
    number_ptr += row
    value, k = find_row(score_ptr, key_ptr, usable_ptr, label, labelled, row, n, number_ptr, n, BLOCK, HELD, STEPS)
    tl.store(number_ptr + 7 * n, value)
    tl.store(number_ptr + 8 * n, tl.where(k > 0, 1.0, 0.0))


@triton.jit
def set_reduction_kernel(
    usable_ptr, weight_ptr, number_ptr, result_ptr, views, n,
    BLOCK: tl.constexpr, WEIGHTED: tl.constexpr, REDUCTION: tl.constexpr,
):  # fmt: skip
    """The reduced loss, the weights that count in it, and the factor that its mean puts on every anchor."""
    values, weights = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for first in range(0, n, BLOCK):
        row = first + tl.arange(0, BLOCK)
        inside = row < n
        value = tl.load(number_ptr + 7 * n + row, mask=inside, other=0.0)
        valid = tl.load(number_ptr + 8 * n + row, mask=inside, other=0.0) > 0
        counted = valid
        if REDUCTION == "mean_all":
            counted = tl.load(usable_ptr + n + row, mask=inside, other=0) != 0
        weight = tl.full([BLOCK], 1.0, tl.float32)
        if WEIGHTED:
            weight = tl.load(weight_ptr + row // views, mask=inside, other=0.0).to(tl.float32)
        values += tl.where(valid, weight * value, 0.0)
        weight = tl.where(counted, weight, 0.0)
        weights += weight
        tl.store(number_ptr + 8 * n + row, weight, mask=inside)
    factor = 1.0
    if REDUCTION != "sum":
        total = tl.sum(weights)
        factor = tl.div_rn(1.0, tl.where(total > 0, total, 1.0))
    tl.store(result_ptr, tl.sum(values) * factor)
    tl.store(number_ptr + 9 * n, factor)


@triton.jit
def forces_of(s, same, anchor, inside, factor, number_ptr, n, AXIS: tl.constexpr):
    """∂L/∂s by the anchors on one side of a tile; AXIS is the other side."""
    at = number_ptr + anchor
    tilt = tl.expand_dims(tl.load(at, mask=inside, other=0.0), AXIS)
    by_total = tl.expand_dims(tl.load(at + n, mask=inside, other=0.0), AXIS)
    by_square = tl.expand_dims(tl.load(at + 2 * n, mask=inside, other=0.0), AXIS)
    by_variance = tl.expand_dims(tl.load(at + 3 * n, mask=inside, other=0.0), AXIS)
    constant = tl.expand_dims(tl.load(at + 4 * n, mask=inside, other=0.0), AXIS)
    share = tl.load(at + 5 * n, mask=inside, other=0.0)
    weight = tl.expand_dims(factor * tl.load(at + 8 * n, mask=inside, other=0.0) * share, AXIS)
    g = weight * force(s + tilt, same, by_total, by_square, by_variance, constant)
    return tl.where(tl.expand_dims(share, AXIS) > 0, g, 0.0)


@triton.jit
def set_pairs_kernel(
    score_ptr, key_ptr, usable_ptr, number_ptr, grad_ptr, first, last, n,
    BR: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """∂L/∂s_ij + ∂L/∂s_ji in place of the logits of the anchors first..last: logits are symmetric here, so that one
    product gives the gradient of rows that are anchors and contrasts at once. Both terms have one sign."""
    row = first + tl.program_id(0) * BR + tl.arange(0, BR)
    column = tl.program_id(1) * BC + tl.arange(0, BC)
    has_row, has_column = row < last, column < n
    pair = (tl.load(usable_ptr + row, mask=has_row, other=0) != 0)[:, None]
    pair = pair & (tl.load(usable_ptr + column, mask=has_column, other=0) != 0)[None, :]
    pair = pair & (row[:, None] != column[None, :])
    same = tl.load(key_ptr + row, mask=has_row, other=0)[:, None]
    same = same == tl.load(key_ptr + column, mask=has_column, other=0)[None, :]
    at = score_ptr + (row - first).to(tl.int64)[:, None] * n + column[None, :]
    s = tl.load(at, mask=pair, other=float("-inf"))
    factor = tl.load(grad_ptr) * tl.load(number_ptr + 9 * n)
    g = forces_of(s, same, row, has_row, factor, number_ptr, n, 1)
    g += forces_of(s, same, column, has_column, factor, number_ptr, n, 0)
    tl.store(at, tl.where(pair, g, 0.0), mask=has_row[:, None] & has_column[None, :])


@triton.jit
def set_return_kernel(
    gradient_ptr, rows_ptr, usable_ptr, number_ptr, scale, x_grad_ptr, radial_ptr, n, dim,
    WIDE: tl.constexpr, BR: tl.constexpr, COSINE: tl.constexpr, LEARNED: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """∂L/∂embeddings from ∂L/∂rows: the part along the row drops out. That part is ∂L/∂τ's share."""
    row = tl.program_id(0) * BR + tl.arange(0, BR)
    mask = row < n
    usable = tl.load(usable_ptr + row, mask=mask, other=0) != 0
    dims = tl.arange(0, WIDE)
    inside = mask[:, None] & (dims < dim)[None, :]
    at = row.to(tl.int64)[:, None] * dim + dims[None, :]
    # What a row without a part got is not looked at: 0 · NaN would be its gradient.
    g = tl.load(gradient_ptr + at, mask=inside & usable[:, None], other=0.0)
    z = tl.load(rows_ptr + at, mask=inside & usable[:, None], other=0.0)
    radial = tl.sum(g * z, axis=1)
    if LEARNED:
        tl.store(radial_ptr + row, radial, mask=mask)
    root = scale_of(scale, LEARNED)
    g = g * root
    if COSINE:
        inverse = tl.load(number_ptr + 6 * n + row, mask=mask, other=0.0)
        g = (g - (radial / root)[:, None] * z) * inverse[:, None]
    tl.store(x_grad_ptr + at, in_precision(g, x_grad_ptr, INTERPRETED), mask=inside)
