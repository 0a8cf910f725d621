"""The two kernels that look at every pair: statistics forward, gradient backward; no logit is ever stored.

Rows and columns come sorted by class and padded to whole tiles. For a block of rows, the columns of its classes are one
contiguous range, so the loop over columns falls into three: before the range and after it every pair is a negative, and
a tile needs its product, one exp2 and a sum; only inside the range are places compared.
"""

import triton
import triton.language as tl

from sincere.losses.backends.triton_rows import finish_anchors, finish_rows
from sincere.losses.backends.triton_tiles import (
    add_exponentials,
    class_places,
    class_range,
    jump,
    load_tile,
    log2_total,
    one_class_range,
    operand,
    own_range,
    pair_masks,
    product,
    share_of_exponentials,
    sigmoid,
    softplus_and_sigmoid_sums,
)


@triton.jit
def store_sums(out_ptr, stride, rows, lse_neg, lse_pos, sum_pos, softplus, sigma):
    tl.store(out_ptr + rows, lse_neg)
    tl.store(out_ptr + stride + rows, lse_pos)
    tl.store(out_ptr + 2 * stride + rows, sum_pos)
    tl.store(out_ptr + 3 * stride + rows, softplus)
    tl.store(out_ptr + 4 * stride + rows, sigma)


@triton.jit
def as_negatives(t, bias_ptr, columns, BALANCED: tl.constexpr):
    """Logits of pairs that are negatives: where classes compete alike every contrast has a bias of its own."""
    if BALANCED:
        t += tl.load(bias_ptr + columns)[None, :]
    return t


@triton.jit
def statistics_kernel(
    a_ptr, c_ptr, place_ptr, count_ptr, out_ptr, label_ptr, weight_ptr, result_ptr, bias_ptr,
    stride, count_at, margin, views, ignore, n,
    D: tl.constexpr, DK: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BOUNDED: tl.constexpr, BALANCED: tl.constexpr, POSITIVES: tl.constexpr, SOFTPLUS: tl.constexpr,
    PRECISION: tl.constexpr, UPCAST: tl.constexpr, LOSS: tl.constexpr, WEIGHTED: tl.constexpr, REDUCTION: tl.constexpr,
):  # fmt: skip
    """For BM rows, one below the other in `out`: lse_neg, lse_pos and Σ_P t in base 2, and Σ_P softplus and Σ_P σ of
    lse_neg + margin − s. Or, where LOSS gives the coefficients of a loss, that loss at once (`finish_anchors`)."""
    first_row = tl.program_id(0) * BM
    rows = first_row + tl.arange(0, BM)
    count = tl.load(count_ptr + count_at)
    start, end, own = class_places(place_ptr, stride, rows)
    low, high = class_range(start, end, count, BN)
    pure_low, pure_high = one_class_range(start, end, low, high, BN)
    whole = count // BN * BN
    a = load_tile(a_ptr, first_row, tl.arange(0, DK), D, BM, UPCAST)
    neg, pos, sum_pos = tl.zeros([BM], tl.float32), tl.zeros([BM], tl.float32), tl.zeros([BM], tl.float32)
    top_neg, top_pos = tl.full([BM], float("-inf"), tl.float32), tl.full([BM], float("-inf"), tl.float32)

    for j in range(0, low, BN):
        t = product(a_ptr, a, first_row, c_ptr, j, D, DK, BM, BN, PRECISION, UPCAST)
        t = as_negatives(t, bias_ptr, j + tl.arange(0, BN), BALANCED)
        neg, top_neg = add_exponentials(neg, top_neg, t, BOUNDED)
    for j in range(high, whole, BN):
        t = product(a_ptr, a, first_row, c_ptr, j, D, DK, BM, BN, PRECISION, UPCAST)
        t = as_negatives(t, bias_ptr, j + tl.arange(0, BN), BALANCED)
        neg, top_neg = add_exponentials(neg, top_neg, t, BOUNDED)
    # Tiles with masks: the classes' own range, without the tiles that hold positives alone unless those are asked for;
    # then the last tile if it is not whole and lies behind that range.
    tail = tl.maximum(high, whole)
    left_out = pure_high
    if POSITIVES:
        left_out = pure_low
    for step in range((high - low - (left_out - pure_low)) // BN + (count > tail).to(tl.int32)):
        j = jump(low + step * BN, pure_low, left_out)
        j = tl.where(j < high, j, tail)
        t = product(a_ptr, a, first_row, c_ptr, j, D, DK, BM, BN, PRECISION, UPCAST)
        columns = j + tl.arange(0, BN)
        positive, negative = pair_masks(start, end, own, columns, count)
        against = as_negatives(t, bias_ptr, columns, BALANCED)
        neg, top_neg = add_exponentials(neg, top_neg, tl.where(negative, against, float("-inf")), BOUNDED)
        if POSITIVES:
            pos, top_pos = add_exponentials(pos, top_pos, tl.where(positive, t, float("-inf")), BOUNDED)
            sum_pos += tl.sum(tl.where(positive, t, 0.0), axis=1)

    lse_neg = log2_total(neg, top_neg, BOUNDED)
    lse_pos = log2_total(pos, top_pos, BOUNDED)
    total_softplus, total_sigma = tl.zeros([BM], tl.float32), tl.zeros([BM], tl.float32)
    if SOFTPLUS:
        gap = lse_neg + margin
        own_low, own_high = own_range(own, pure_low, pure_high, BN)
        for step in range((pure_high - pure_low - (own_high - own_low)) // BN):
            j = jump(pure_low + step * BN, own_low, own_high)
            t = product(a_ptr, a, first_row, c_ptr, j, D, DK, BM, BN, PRECISION, UPCAST)
            softplus, sigma = softplus_and_sigmoid_sums(gap[:, None] - t, BM, BN)
            total_softplus += softplus
            total_sigma += sigma
        for step in range((high - low - (pure_high - pure_low) + (own_high - own_low)) // BN):
            j = jump(jump(low + step * BN, pure_low, own_low), own_high, pure_high)
            t = product(a_ptr, a, first_row, c_ptr, j, D, DK, BM, BN, PRECISION, UPCAST)
            positive, _ = pair_masks(start, end, own, j + tl.arange(0, BN), count)
            x = tl.where(positive, gap[:, None] - t, float("-inf"))
            softplus, sigma = softplus_and_sigmoid_sums(x, BM, BN)
            total_softplus += softplus
            total_sigma += sigma
    if LOSS is None:
        store_sums(out_ptr, stride, rows, lse_neg, lse_pos, sum_pos, total_softplus, total_sigma)
    else:
        finish_anchors(
            rows, lse_neg, lse_pos, sum_pos, total_softplus, total_sigma,
            place_ptr, label_ptr, weight_ptr, out_ptr, result_ptr, stride, views, ignore, margin, n,
            LOSS[0], LOSS[1], LOSS[2], LOSS[3], LOSS[4], LOSS[5], LOSS[6], LOSS[7],
            WEIGHTED, REDUCTION, BOUNDED, BM,
        )  # fmt: skip


@triton.jit
def share_of_negatives(t, e, push, push_lse, weight, BOUNDED: tl.constexpr, BALANCED: tl.constexpr):
    """∂L/∂s of negatives from the anchors of one side; where BALANCED, `weight` is of the contrasts on the other."""
    if BALANCED:
        if BOUNDED:
            push = push * weight
        else:
            t += weight
    return share_of_exponentials(t, e, push, push_lse, BOUNDED)


@triton.jit
def negative_gradient(t, e, row, column, BOUNDED: tl.constexpr, BALANCED: tl.constexpr, SIDES: tl.constexpr):
    """∂L/∂s of negatives, from the anchors among the rows, among the columns, or both."""
    push, push_lse, weight = row
    column_push, column_push_lse, column_weight = column
    push, push_lse, weight = push[:, None], push_lse[:, None], weight[:, None]
    column_push, column_push_lse = column_push[None, :], column_push_lse[None, :]
    column_weight = column_weight[None, :]
    if SIDES == "row":
        g = share_of_negatives(t, e, push, push_lse, column_weight, BOUNDED, BALANCED)
    elif SIDES == "column":
        g = share_of_negatives(t, e, column_push, column_push_lse, weight, BOUNDED, BALANCED)
    elif BOUNDED:
        if BALANCED:
            push, column_push = push * column_weight, column_push * weight
        g = e * (push + column_push)
    else:
        g = share_of_negatives(t, e, push, push_lse, column_weight, BOUNDED, BALANCED)
        g += share_of_negatives(t, e, column_push, column_push_lse, weight, BOUNDED, BALANCED)
    return g


@triton.jit
def negative_numbers(ptr, stride, at, BOUNDED: tl.constexpr, BALANCED: tl.constexpr):
    """push, its lse and weight of the samples `at`, as anchors and as negatives of others; what is not used is not
    read."""
    push = tl.load(ptr + at)
    push_lse, weight = push, push
    if not BOUNDED:
        push_lse = tl.load(ptr + stride + at)
    if BALANCED:
        weight = tl.load(ptr + 7 * stride + at)
    return push, push_lse, weight


@triton.jit
def exponential(t, BOUNDED: tl.constexpr):
    """2^t where it cannot overflow; elsewhere nobody asks for it."""
    if BOUNDED:
        return tl.exp2(t)
    return t


@triton.jit
def pull_of_one(t, e, pull, gap, BOUNDED: tl.constexpr):
    """r σ(gap − s) of the anchors of one side: σ = 1/(1 + 2^t F) where F = 2^−gap stands for the gap."""
    if BOUNDED:
        return pull / (1 + e * gap)
    return pull * sigmoid(gap - t)


@triton.jit
def pull_of_both(e, pull, gap, other_pull, other_gap):
    """r_i σ_i + r_j σ_j with one exponential and one division."""
    mine, others = 1 + e * gap, 1 + e * other_gap
    return (pull * others + other_pull * mine) / (mine * others)


@triton.jit
def anchor_numbers(ptr, stride, at, PUSH: tl.constexpr, PULL: tl.constexpr):
    """push, its lse, pull, gap, mean of the anchors `at`; what the loss does not use is not read."""
    push = tl.zeros(at.shape, tl.float32)
    push_lse, pull, gap, mean = push, push, push, push
    if PUSH:
        push, push_lse = tl.load(ptr + 2 * stride + at), tl.load(ptr + 3 * stride + at)
        mean = tl.load(ptr + 6 * stride + at)
    if PULL:
        pull, gap = tl.load(ptr + 4 * stride + at), tl.load(ptr + 5 * stride + at)
    return push, push_lse, pull, gap, mean


@triton.jit
def positive_gradient(
    t, e, row, column, BOUNDED: tl.constexpr, SIDES: tl.constexpr, PUSH: tl.constexpr, PULL: tl.constexpr
):
    """∂L/∂s of positives: push e^(s − lse_pos) − pull σ(gap − s) + mean, of every side that has anchors."""
    push, push_lse, pull, gap, mean = row
    column_push, column_push_lse, column_pull, column_gap, column_mean = column
    g = tl.zeros_like(t)
    if PUSH and SIDES != "column":
        g += share_of_exponentials(t, e, push[:, None], push_lse[:, None], BOUNDED) + mean[:, None]
    if PUSH and SIDES != "row":
        g += share_of_exponentials(t, e, column_push[None, :], column_push_lse[None, :], BOUNDED)
        g += column_mean[None, :]
    if PULL and SIDES == "both" and BOUNDED:
        g -= pull_of_both(e, pull[:, None], gap[:, None], column_pull[None, :], column_gap[None, :])
    else:
        if PULL and SIDES != "column":
            g -= pull_of_one(t, e, pull[:, None], gap[:, None], BOUNDED)
        if PULL and SIDES != "row":
            g -= pull_of_one(t, e, column_pull[None, :], column_gap[None, :], BOUNDED)
    return g


@triton.jit
def logits_and_columns(
    a_ptr, a, first_row, c_ptr, j, dims,
    D: tl.constexpr, DK: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    PRECISION: tl.constexpr, UPCAST: tl.constexpr,
):  # fmt: skip
    """A tile of logits and the columns that it is to be multiplied with: read once where they are the same numbers."""
    c = load_tile(c_ptr, j, dims, D, BN, UPCAST)
    if D == DK:
        t = tl.dot(a, tl.trans(c), input_precision=PRECISION)
    else:
        t = product(a_ptr, a, first_row, c_ptr, j, D, DK, BM, BN, PRECISION, UPCAST)
    return t, c


@triton.jit
def gradient_kernel(
    a_ptr, c_ptr, place_ptr, count_ptr, row_ptr, column_ptr, out_ptr,
    x_ptr, factor_ptr, grad_ptr, radial_ptr, number_ptr, row_stride, column_stride, count_at,
    temperature, x_stride, n, dim,
    D: tl.constexpr, DK: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BOUNDED: tl.constexpr, BALANCED: tl.constexpr, SIDES: tl.constexpr, PUSH: tl.constexpr, PULL: tl.constexpr,
    PRECISION: tl.constexpr, UPCAST: tl.constexpr,
    RETURN: tl.constexpr, COSINE: tl.constexpr, LEARNED: tl.constexpr,
):  # fmt: skip
    """Σ_j ∂L/∂s_ij · column_j for BM rows; RETURN: as ∂L/∂embeddings, by `finish_rows`.

    `row_ptr` and `column_ptr` hold seven numbers per anchor, one below the other (`coefficients` in triton_backend.py),
    and where BALANCED an eighth per contrast, its weight as a negative; SIDES says which of the two are anchors. Each
    program owns its rows of the result, so nothing is added by two programs at once.
    """
    first_row = tl.program_id(0) * BM
    rows = first_row + tl.arange(0, BM)
    dims = tl.arange(0, D)
    count = tl.load(count_ptr + count_at)
    start, end, own = class_places(place_ptr, row_stride, rows)
    low, high = class_range(start, end, count, BN)
    whole = count // BN * BN
    a = load_tile(a_ptr, first_row, tl.arange(0, DK), D, BM, UPCAST)
    row_negative = negative_numbers(row_ptr, row_stride, rows, BOUNDED, BALANCED)
    out = tl.zeros([BM, D], tl.float32)

    for j in range(0, low, BN):
        columns = j + tl.arange(0, BN)
        t, c = logits_and_columns(a_ptr, a, first_row, c_ptr, j, dims, D, DK, BM, BN, PRECISION, UPCAST)
        column_negative = negative_numbers(column_ptr, column_stride, columns, BOUNDED, BALANCED)
        e = exponential(t, BOUNDED)
        g = negative_gradient(t, e, row_negative, column_negative, BOUNDED, BALANCED, SIDES)
        out = tl.dot(operand(g, c, PRECISION), c, out, input_precision=PRECISION)
    for j in range(high, whole, BN):
        columns = j + tl.arange(0, BN)
        t, c = logits_and_columns(a_ptr, a, first_row, c_ptr, j, dims, D, DK, BM, BN, PRECISION, UPCAST)
        column_negative = negative_numbers(column_ptr, column_stride, columns, BOUNDED, BALANCED)
        e = exponential(t, BOUNDED)
        g = negative_gradient(t, e, row_negative, column_negative, BOUNDED, BALANCED, SIDES)
        out = tl.dot(operand(g, c, PRECISION), c, out, input_precision=PRECISION)
    row = anchor_numbers(row_ptr, row_stride, rows, PUSH, PULL)
    pure_low, pure_high = one_class_range(start, end, low, high, BN)
    own_low, own_high = own_range(own, pure_low, pure_high, BN)
    for step in range((pure_high - pure_low - (own_high - own_low)) // BN):
        j = jump(pure_low + step * BN, own_low, own_high)
        t, c = logits_and_columns(a_ptr, a, first_row, c_ptr, j, dims, D, DK, BM, BN, PRECISION, UPCAST)
        column = anchor_numbers(column_ptr, column_stride, j + tl.arange(0, BN), PUSH, PULL)
        g = positive_gradient(t, exponential(t, BOUNDED), row, column, BOUNDED, SIDES, PUSH, PULL)
        out = tl.dot(operand(g, c, PRECISION), c, out, input_precision=PRECISION)
    tail = tl.maximum(high, whole)
    masked = (high - low - (pure_high - pure_low) + (own_high - own_low)) // BN
    for step in range(masked + (count > tail).to(tl.int32)):
        j = jump(jump(low + step * BN, pure_low, own_low), own_high, pure_high)
        j = tl.where(j < high, j, tail)
        columns = j + tl.arange(0, BN)
        t, c = logits_and_columns(a_ptr, a, first_row, c_ptr, j, dims, D, DK, BM, BN, PRECISION, UPCAST)
        positive, negative = pair_masks(start, end, own, columns, count)
        column_negative = negative_numbers(column_ptr, column_stride, columns, BOUNDED, BALANCED)
        column = anchor_numbers(column_ptr, column_stride, columns, PUSH, PULL)
        e = exponential(t, BOUNDED)
        pushed = negative_gradient(t, e, row_negative, column_negative, BOUNDED, BALANCED, SIDES)
        pulled = positive_gradient(t, e, row, column, BOUNDED, SIDES, PUSH, PULL)
        g = tl.where(positive, pulled, tl.where(negative, pushed, 0.0))
        out = tl.dot(operand(g, c, PRECISION), c, out, input_precision=PRECISION)
    if RETURN:
        finish_rows(
            out, rows, x_ptr, x_stride, place_ptr, number_ptr, factor_ptr, grad_ptr, temperature, out_ptr, radial_ptr,
            row_stride, n, dim, COSINE, LEARNED, UPCAST,
        )  # fmt: skip
    else:
        tl.store(out_ptr + rows.to(tl.int64)[:, None] * D + dims[None, :], out)
