"""The kernels of the `triton` backend: one pass over the logits forward, one backward, no logit ever stored.

Rows and contrasts come sorted by class and padded to whole tiles. For a block of rows, the contrasts of its classes are
one contiguous range, so the loop over contrasts falls into three: before the range and after it every pair is a
negative, and a tile needs its product, one exp2 and a sum; only inside the range are labels looked at.

Logits here are in base 2: t = s·log₂e, so that e^s = 2^t. BOUNDED promises |s| ≤ 40; then sums of e^s fit float32 and
no maximum is needed. Otherwise a running maximum per row keeps every exponent ≤ 0.
"""

import triton
import triton.language as tl

LN2 = tl.constexpr(0.6931471805599453)
LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def load_tile(ptr, first, dims, width: tl.constexpr, ROWS: tl.constexpr, UPCAST: tl.constexpr):
    """ROWS rows of a padded matrix, from `first` on. Only that scalar moves with a loop; the rest is set up once.

    The interpreter multiplies bfloat16 wrongly, so there the tile becomes float32.
    """
    start = ptr + tl.cast(first, tl.int64) * width
    tile = tl.load(start + tl.arange(0, ROWS)[:, None] * width + dims[None, :])
    if UPCAST:
        tile = tile.to(tl.float32)
    return tile


@triton.jit
def product(
    a_ptr, a, first_row, c_ptr, first_column,
    D: tl.constexpr, DK: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    PRECISION: tl.constexpr, UPCAST: tl.constexpr,
):  # fmt: skip
    """A tile of base-2 logits. Rows up to DK wide stay in registers (`a`); wider ones are read again, DK at a time."""
    dims = tl.arange(0, DK)
    if D == DK:
        t = tl.dot(a, tl.trans(load_tile(c_ptr, first_column, dims, D, BN, UPCAST)), input_precision=PRECISION)
    else:
        t = tl.zeros([BM, BN], dtype=tl.float32)
        for k in range(0, D, DK):
            part = load_tile(a_ptr, first_row, dims + k, D, BM, UPCAST)
            c = load_tile(c_ptr, first_column, dims + k, D, BN, UPCAST)
            t = tl.dot(part, tl.trans(c), t, input_precision=PRECISION)
    return t


@triton.jit
def class_range(start_ptr, end_ptr, rows, count, BN: tl.constexpr):
    """Whole tiles of contrasts that may hold a positive of these rows."""
    low = tl.min(tl.load(start_ptr + rows))
    high = tl.max(tl.load(end_ptr + rows))
    low = tl.minimum(low, count) // BN * BN
    high = tl.maximum(tl.minimum(high, count), low)
    return low, tl.cdiv(high - low, BN) * BN + low


@triton.jit
def one_class_range(start_ptr, end_ptr, self_ptr, rows):
    """Contrasts that are one class with all of these rows, and the range in which the rows themselves stand."""
    own = tl.load(self_ptr + rows)
    return tl.max(tl.load(start_ptr + rows)), tl.min(tl.load(end_ptr + rows)), tl.min(own), tl.max(own)


@triton.jit
def all_positive(j, pure_low, pure_high, self_low, self_high, BN: tl.constexpr):
    """Is the tile at column j one class with all of its rows, and none of them itself? Then it needs no label."""
    return (j >= pure_low) & (j + BN <= pure_high) & ((j > self_high) | (j + BN <= self_low))


@triton.jit
def add_exponentials(total, top, t, BOUNDED: tl.constexpr):
    """total · 2^top + Σ 2^t as a new (total, top); −inf entries of t count nothing."""
    if BOUNDED:
        return total + tl.sum(tl.exp2(t), axis=1), top
    higher = tl.maximum(top, tl.max(t, axis=1))
    safe = tl.where(higher == float("-inf"), 0.0, higher)
    return total * tl.exp2(top - safe) + tl.sum(tl.exp2(t - safe[:, None]), axis=1), higher


@triton.jit
def log_total(total, top, BOUNDED: tl.constexpr):
    """Natural log of total · 2^top; −inf where nothing was added."""
    log2 = tl.log2(tl.where(total > 0, total, 1.0))
    if not BOUNDED:
        log2 += tl.where(top == float("-inf"), 0.0, top)
    return tl.where(total > 0, log2 * LN2, float("-inf"))


@triton.jit
def softplus_and_sigmoid(x):
    """log(1 + e^x) and 1/(1 + e^−x). Below 1e-3 the series keeps digits that 1 + y would lose."""
    y = tl.exp2(-tl.abs(x) * LOG2E)
    softplus = tl.maximum(x, 0.0) + tl.where(y < 1e-3, y * (1 - 0.5 * y), tl.log2(1 + y) * LN2)
    return softplus, tl.where(x >= 0, 1.0, y) / (1 + y)


@triton.jit
def sigmoid(x):
    y = tl.exp2(-tl.abs(x) * LOG2E)
    return tl.where(x >= 0, 1.0, y) / (1 + y)


@triton.jit
def pair_masks(row_label, row_self, label_ptr, columns, count):
    """Positive and negative pairs of a tile."""
    inside = columns < count
    same = row_label[:, None] == tl.load(label_ptr + columns)[None, :]
    positive = same & (columns[None, :] != row_self[:, None]) & inside[None, :]
    return positive, (same == 0) & inside[None, :]


@triton.jit
def statistics_kernel(
    a_ptr, c_ptr, row_label_ptr, column_label_ptr, self_ptr, start_ptr, end_ptr, count_ptr,
    lse_neg_ptr, lse_pos_ptr, sum_pos_ptr, softplus_ptr, sigma_ptr, margin,
    D: tl.constexpr, DK: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BOUNDED: tl.constexpr, POSITIVES: tl.constexpr, SOFTPLUS: tl.constexpr,
    PRECISION: tl.constexpr, UPCAST: tl.constexpr,
):  # fmt: skip
    """lse_neg, lse_pos, Σ_P s, and Σ_P softplus and Σ_P σ of lse_neg + margin − s, for BM rows."""
    first_row = tl.program_id(0) * BM
    rows = first_row + tl.arange(0, BM)
    count = tl.load(count_ptr)
    row_label, row_self = tl.load(row_label_ptr + rows), tl.load(self_ptr + rows)
    low, high = class_range(start_ptr, end_ptr, rows, count, BN)
    pure_low, pure_high, self_low, self_high = one_class_range(start_ptr, end_ptr, self_ptr, rows)
    whole = count // BN * BN
    a = load_tile(a_ptr, first_row, tl.arange(0, DK), D, BM, UPCAST)
    neg, pos, sum_pos = tl.zeros([BM], tl.float32), tl.zeros([BM], tl.float32), tl.zeros([BM], tl.float32)
    top_neg, top_pos = tl.full([BM], float("-inf"), tl.float32), tl.full([BM], float("-inf"), tl.float32)

    for j in range(0, low, BN):
        t = product(a_ptr, a, first_row, c_ptr, j, D, DK, BM, BN, PRECISION, UPCAST)
        neg, top_neg = add_exponentials(neg, top_neg, t, BOUNDED)
    for j in range(high, whole, BN):
        t = product(a_ptr, a, first_row, c_ptr, j, D, DK, BM, BN, PRECISION, UPCAST)
        neg, top_neg = add_exponentials(neg, top_neg, t, BOUNDED)
    # Tiles with labels: the classes' own range, then the last tile if it is not whole and lies behind that range.
    tail = tl.maximum(high, whole)
    for step in range((high - low) // BN + (count > tail).to(tl.int32)):
        j = tl.where(low + step * BN < high, low + step * BN, tail)
        columns = j + tl.arange(0, BN)
        if all_positive(j, pure_low, pure_high, self_low, self_high, BN):
            if POSITIVES:
                t = product(a_ptr, a, first_row, c_ptr, j, D, DK, BM, BN, PRECISION, UPCAST)
                pos, top_pos = add_exponentials(pos, top_pos, t, BOUNDED)
                sum_pos += tl.sum(t, axis=1)
        else:
            t = product(a_ptr, a, first_row, c_ptr, j, D, DK, BM, BN, PRECISION, UPCAST)
            positive, negative = pair_masks(row_label, row_self, column_label_ptr, columns, count)
            neg, top_neg = add_exponentials(neg, top_neg, tl.where(negative, t, float("-inf")), BOUNDED)
            if POSITIVES:
                pos, top_pos = add_exponentials(pos, top_pos, tl.where(positive, t, float("-inf")), BOUNDED)
                sum_pos += tl.sum(tl.where(positive, t, 0.0), axis=1)

    lse_neg = log_total(neg, top_neg, BOUNDED)
    tl.store(lse_neg_ptr + rows, lse_neg)
    tl.store(lse_pos_ptr + rows, log_total(pos, top_pos, BOUNDED))
    tl.store(sum_pos_ptr + rows, sum_pos * LN2)
    if SOFTPLUS:
        total_softplus, total_sigma = tl.zeros([BM], tl.float32), tl.zeros([BM], tl.float32)
        for j in range(low, high, BN):
            columns = j + tl.arange(0, BN)
            t = product(a_ptr, a, first_row, c_ptr, j, D, DK, BM, BN, PRECISION, UPCAST)
            softplus, sigma = softplus_and_sigmoid((lse_neg + margin)[:, None] - t * LN2)
            if all_positive(j, pure_low, pure_high, self_low, self_high, BN):
                total_softplus += tl.sum(softplus, axis=1)
                total_sigma += tl.sum(sigma, axis=1)
            else:
                positive, _ = pair_masks(row_label, row_self, column_label_ptr, columns, count)
                total_softplus += tl.sum(tl.where(positive, softplus, 0.0), axis=1)
                total_sigma += tl.sum(tl.where(positive, sigma, 0.0), axis=1)
        tl.store(softplus_ptr + rows, total_softplus)
        tl.store(sigma_ptr + rows, total_sigma)


@triton.jit
def share_of_exponentials(t, coefficient, lse, BOUNDED: tl.constexpr):
    """coefficient · e^(s − lse); where BOUNDED the coefficient already holds e^(−lse)."""
    if BOUNDED:
        return coefficient * tl.exp2(t)
    # A pair outside the sum that lse is of may exceed it; its result is masked, but must not be inf.
    return coefficient * tl.exp2(tl.minimum(t - lse, 0.0))


@triton.jit
def negative_gradient(t, row, row_lse, column, column_lse, BOUNDED: tl.constexpr, SIDES: tl.constexpr):
    """∂L/∂s of negatives, from the anchors among the rows, among the columns, or both."""
    if SIDES == "row":
        g = share_of_exponentials(t, row[:, None], row_lse[:, None], BOUNDED)
    elif SIDES == "column":
        g = share_of_exponentials(t, column[None, :], column_lse[None, :], BOUNDED)
    elif BOUNDED:
        g = tl.exp2(t) * (row[:, None] + column[None, :])
    else:
        g = share_of_exponentials(t, row[:, None], row_lse[:, None], BOUNDED)
        g += share_of_exponentials(t, column[None, :], column_lse[None, :], BOUNDED)
    return g


@triton.jit
def column_coefficients(ptr, stride, columns, BOUNDED: tl.constexpr):
    """What the columns bring to their negatives; without a bound their log-sum-exp too."""
    coefficient = tl.load(ptr + columns)
    lse = coefficient
    if not BOUNDED:
        lse = tl.load(ptr + stride + columns)
    return coefficient, lse


@triton.jit
def positive_gradient(t, ptr, stride, at, BOUNDED: tl.constexpr, PUSH: tl.constexpr, PULL: tl.constexpr):
    """∂L/∂s of positives from the anchors of one side: push e^(s − lse_pos) − pull σ(gap − s) + mean."""
    g = tl.zeros_like(t) + tl.load(ptr + 6 * stride + at)
    if PUSH:
        g += share_of_exponentials(t, tl.load(ptr + 2 * stride + at), tl.load(ptr + 3 * stride + at), BOUNDED)
    if PULL:
        g -= tl.load(ptr + 4 * stride + at) * sigmoid(tl.load(ptr + 5 * stride + at) - t * LN2)
    return g


@triton.jit
def gradient_kernel(
    a_ptr, c_ptr, row_label_ptr, column_label_ptr, self_ptr, start_ptr, end_ptr, count_ptr,
    row_ptr, column_ptr, row_stride, column_stride, out_ptr,
    D: tl.constexpr, DK: tl.constexpr, DO: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BOUNDED: tl.constexpr, SIDES: tl.constexpr, PUSH: tl.constexpr, PULL: tl.constexpr,
    PRECISION: tl.constexpr, UPCAST: tl.constexpr,
):  # fmt: skip
    """Σ_j ∂L/∂s_ij · contrast_j for BM rows and DO of their dimensions.

    `row_ptr` and `column_ptr` hold seven numbers per anchor (`coefficients` in triton_backend.py); SIDES says which of
    the two are anchors. Each program owns its rows of the result, so nothing is added by two programs at once.
    """
    first_row = tl.program_id(0) * BM
    rows = first_row + tl.arange(0, BM)
    dims = tl.program_id(1) * DO + tl.arange(0, DO)
    count = tl.load(count_ptr)
    low, high = class_range(start_ptr, end_ptr, rows, count, BN)
    pure_low, pure_high, self_low, self_high = one_class_range(start_ptr, end_ptr, self_ptr, rows)
    whole = count // BN * BN
    a = load_tile(a_ptr, first_row, tl.arange(0, DK), D, BM, UPCAST)
    row_neg, row_lse = tl.load(row_ptr + rows), tl.load(row_ptr + row_stride + rows)
    out = tl.zeros([BM, DO], tl.float32)

    for j in range(0, low, BN):
        columns = j + tl.arange(0, BN)
        t = product(a_ptr, a, first_row, c_ptr, j, D, DK, BM, BN, PRECISION, UPCAST)
        column_neg, column_lse = column_coefficients(column_ptr, column_stride, columns, BOUNDED)
        g = negative_gradient(t, row_neg, row_lse, column_neg, column_lse, BOUNDED, SIDES)
        c = load_tile(c_ptr, j, dims, D, BN, UPCAST)
        out = tl.dot(g.to(c.dtype), c, out, input_precision=PRECISION)
    for j in range(high, whole, BN):
        columns = j + tl.arange(0, BN)
        t = product(a_ptr, a, first_row, c_ptr, j, D, DK, BM, BN, PRECISION, UPCAST)
        column_neg, column_lse = column_coefficients(column_ptr, column_stride, columns, BOUNDED)
        g = negative_gradient(t, row_neg, row_lse, column_neg, column_lse, BOUNDED, SIDES)
        c = load_tile(c_ptr, j, dims, D, BN, UPCAST)
        out = tl.dot(g.to(c.dtype), c, out, input_precision=PRECISION)

    row_label, row_self = tl.load(row_label_ptr + rows), tl.load(self_ptr + rows)
    tail = tl.maximum(high, whole)
    for step in range((high - low) // BN + (count > tail).to(tl.int32)):
        j = tl.where(low + step * BN < high, low + step * BN, tail)
        columns = j + tl.arange(0, BN)
        t = product(a_ptr, a, first_row, c_ptr, j, D, DK, BM, BN, PRECISION, UPCAST)
        g = tl.zeros_like(t)
        if SIDES != "column":
            g += positive_gradient(t, row_ptr, row_stride, rows[:, None], BOUNDED, PUSH, PULL)
        if SIDES != "row":
            g += positive_gradient(t, column_ptr, column_stride, columns[None, :], BOUNDED, PUSH, PULL)
        if not all_positive(j, pure_low, pure_high, self_low, self_high, BN):
            positive, negative = pair_masks(row_label, row_self, column_label_ptr, columns, count)
            column_neg, column_lse = column_coefficients(column_ptr, column_stride, columns, BOUNDED)
            n = negative_gradient(t, row_neg, row_lse, column_neg, column_lse, BOUNDED, SIDES)
            g = tl.where(positive, g, tl.where(negative, n, 0.0))
        c = load_tile(c_ptr, j, dims, D, BN, UPCAST)
        out = tl.dot(g.to(c.dtype), c, out, input_precision=PRECISION)
    tl.store(out_ptr + rows.to(tl.int64)[:, None] * D + dims[None, :], out)
