"""The kernel that writes ∂L/∂s of pairs, tile by tile, for rows too wide to be worked with whole (triton_wide.py)."""

import triton
import triton.language as tl

from sincere.losses.backends.triton_kernels import (
    anchor_numbers,
    exponential,
    negative_gradient,
    negative_numbers,
    positive_gradient,
)
from sincere.losses.backends.triton_tiles import class_places, class_range, in_precision, load_tile, pair_masks


@triton.jit
def pair_gradient_kernel(
    a_ptr, c_ptr, place_ptr, count_ptr, row_ptr, column_ptr, pair_ptr, first, row_stride, column_stride, count_at,
    D: tl.constexpr, DK: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BOUNDED: tl.constexpr, BALANCED: tl.constexpr, SIDES: tl.constexpr, PUSH: tl.constexpr, PULL: tl.constexpr,
    PRECISION: tl.constexpr, UPCAST: tl.constexpr,
):  # fmt: skip
    """∂L/∂s of one tile of pairs, rows from `first` on against columns; 0 for those that are no pairs.

    `row_ptr` and `column_ptr` hold seven numbers per anchor, or eight, as in `gradient_kernel`.
    """
    own_row = tl.program_id(0) * BM
    j = tl.program_id(1) * BN
    rows, columns = first + own_row + tl.arange(0, BM), j + tl.arange(0, BN)
    dims = tl.arange(0, DK)
    t = tl.zeros([BM, BN], dtype=tl.float32)
    for k in range(0, D, DK):
        a = load_tile(a_ptr, first + own_row, dims + k, D, BM, UPCAST)
        c = load_tile(c_ptr, j, dims + k, D, BN, UPCAST)
        t = tl.dot(a, tl.trans(c), t, input_precision=PRECISION)
    count = tl.load(count_ptr + count_at)
    start, end, own = class_places(place_ptr, row_stride, rows)
    low, high = class_range(start, end, count, BN)
    row_negative = negative_numbers(row_ptr, row_stride, rows, BOUNDED, BALANCED)
    column_negative = negative_numbers(column_ptr, column_stride, columns, BOUNDED, BALANCED)
    e = exponential(t, BOUNDED)
    g = negative_gradient(t, e, row_negative, column_negative, BOUNDED, BALANCED, SIDES)
    if (j + BN > count) | ((j + BN > low) & (j < high)):
        positive, negative = pair_masks(start, end, own, columns, count)
        row = anchor_numbers(row_ptr, row_stride, rows, PUSH, PULL)
        column = anchor_numbers(column_ptr, column_stride, columns, PUSH, PULL)
        pulled = positive_gradient(t, e, row, column, BOUNDED, SIDES, PUSH, PULL)
        g = tl.where(positive, pulled, tl.where(negative, g, 0.0))
    target = pair_ptr + (own_row + tl.arange(0, BM)).to(tl.int64)[:, None] * column_stride + columns[None, :]
    tl.store(target, in_precision(g, pair_ptr, UPCAST))
