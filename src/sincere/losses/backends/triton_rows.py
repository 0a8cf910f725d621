"""What follows inside the two kernels that look at every pair: a loss of statistics, embeddings' gradients of rows'.

`number_ptr` holds ten rows of floats: an anchor's seven coefficients, inverse norms, programs' shares of the loss, the
factor of its mean. `place_ptr` is explained in triton_order.py.
"""

import triton
import triton.language as tl

from sincere.losses.backends.triton_tiles import LN2, class_places, in_precision, value_of

# Coefficients travel times this, because float16 would lose numbers of size 1/n; a power of two costs no digit.
SCALE = tl.constexpr(4096.0)


@triton.jit
def log2_sum(a, b):
    """log₂(2^a + 2^b)."""
    top = tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
    safe = tl.where(top == float("-inf"), 0.0, top)
    return top + tl.log2(tl.where(top == float("-inf"), 1.0, tl.exp2(a - safe) + tl.exp2(b - safe)))


@triton.jit
def finite(lse):
    """The log-sum-exp, and 0 for an empty sum: nobody uses it then, but no NaN may come of it."""
    return tl.where(lse == float("-inf"), 0.0, lse)


@triton.jit
def through(lse, lse_all, own, of_all: tl.constexpr, BOUNDED: tl.constexpr):
    """∂ℓ/∂lse, directly and by way of lse_all; where BOUNDED times 2^−lse."""
    total = own + tl.zeros_like(lse)
    if of_all != 0:
        total += of_all * tl.exp2(tl.minimum(finite(lse) - finite(lse_all), 0.0))
    if BOUNDED:
        total *= tl.exp2(-finite(lse))
    return tl.where(lse == float("-inf"), 0.0, total)


@triton.jit
def finish_anchors(
    place, lse_neg, lse_pos, sum_pos, softplus, sigma,
    place_ptr, label_ptr, weight_ptr, number_ptr, result_ptr, stride, views, ignore, margin, n,
    ALL: tl.constexpr, NEG: tl.constexpr, POS: tl.constexpr, MEAN: tl.constexpr, SOFT: tl.constexpr,
    LOG_COUNT: tl.constexpr, CONSTANT: tl.constexpr, NEEDS_NEGATIVES: tl.constexpr, WEIGHTED: tl.constexpr,
    REDUCTION: tl.constexpr, BOUNDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The loss of every anchor, the seven numbers that its gradient needs, and this program's share of the total."""
    mask = place < n
    source = tl.load(place_ptr + place)
    label = tl.load(label_ptr + source // views, mask=mask, other=0).to(tl.int64)
    start, end, _ = class_places(place_ptr, stride, place)
    labelled = mask & (label != ignore)
    positives = tl.where(labelled, end - start - 1, 0)
    valid = positives > 0
    if NEEDS_NEGATIVES:
        valid = valid & (tl.load(place_ptr + 4 * stride) > end - start)
    share = tl.where(valid, 1.0 / tl.maximum(positives, 1).to(tl.float32), 0.0)
    lse_all = log2_sum(lse_neg, lse_pos)
    value = tl.full([BLOCK], CONSTANT, tl.float32) + LOG_COUNT * tl.log2(tl.maximum(positives, 1).to(tl.float32)) * LN2
    of_neg = tl.full([BLOCK], NEG, tl.float32) + SOFT * sigma * share
    if ALL != 0:
        value += ALL * LN2 * finite(lse_all)
    if NEG != 0:
        value += NEG * LN2 * finite(lse_neg)
    if POS != 0:
        value += POS * LN2 * finite(lse_pos)
    value += MEAN * sum_pos * LN2 * share + SOFT * softplus * share
    weight = tl.full([BLOCK], 1.0, tl.float32)
    if WEIGHTED:
        weight = tl.load(weight_ptr + source // views, mask=mask, other=0.0).to(tl.float32)
    value = tl.where(valid, weight * value, 0.0)
    if REDUCTION == "none":
        tl.store(result_ptr + source, value, mask=mask)
    else:
        counted = valid
        if REDUCTION == "mean_all":
            counted = labelled
        add_to_total(
            tl.sum(value), tl.sum(tl.where(counted, weight, 0.0)), place_ptr, number_ptr, result_ptr, stride, REDUCTION
        )

    weight = tl.where(valid, weight * SCALE, 0.0)
    gap = finite(lse_neg + margin)
    if BOUNDED:
        gap = tl.exp2(-gap)
    pull = tl.where(lse_neg == float("-inf"), 0.0, weight * SOFT * share)
    tl.store(number_ptr + place, weight * through(lse_neg, lse_all, of_neg, ALL, BOUNDED))
    tl.store(number_ptr + stride + place, finite(lse_neg))
    tl.store(number_ptr + 2 * stride + place, weight * through(lse_pos, lse_all, POS, ALL, BOUNDED))
    tl.store(number_ptr + 3 * stride + place, finite(lse_pos))
    tl.store(number_ptr + 4 * stride + place, pull)
    tl.store(number_ptr + 5 * stride + place, gap)
    tl.store(number_ptr + 6 * stride + place, weight * MEAN * share)


@triton.jit
def add_to_total(value, weight, place_ptr, number_ptr, result_ptr, stride, REDUCTION: tl.constexpr):
    """The loss, and the factor that its mean puts on every anchor, by whichever program comes last.

    It adds the programs' shares in their order, so the result does not depend on who that is.
    """
    programs = tl.num_programs(0)
    shares = number_ptr + 8 * stride
    tl.store(shares + 2 * tl.program_id(0), value)
    tl.store(shares + 2 * tl.program_id(0) + 1, weight)
    tl.debug_barrier()
    finished = tl.atomic_add(place_ptr + 4 * stride + 1, 1, sem="acq_rel")
    if finished == programs - 1:
        values, weights = tl.zeros([128], tl.float32), tl.zeros([128], tl.float32)
        for first in range(0, programs, 128):
            at = first + tl.arange(0, 128)
            values += tl.load(shares + 2 * at, mask=at < programs, other=0.0, volatile=True)
            weights += tl.load(shares + 2 * at + 1, mask=at < programs, other=0.0, volatile=True)
        factor = 1.0
        if REDUCTION != "sum":
            total = tl.sum(weights)
            factor = 1.0 / tl.where(total > 0, total, 1.0)
        tl.store(result_ptr, tl.sum(values) * factor)
        tl.store(number_ptr + 9 * stride, factor)


@triton.jit
def finish_rows(
    g, place, x_ptr, x_stride, place_ptr, number_ptr, factor_ptr, grad_ptr, temperature, result_ptr, radial_ptr,
    stride, n, dim,
    COSINE: tl.constexpr, LEARNED: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """∂L/∂embeddings from ∂L/∂(normalised rows): the part along the row drops out. That part is ∂L/∂τ's share."""
    dims = tl.arange(0, g.shape[1])
    mask = place < n
    source = tl.load(place_ptr + place, mask=mask, other=0).to(tl.int64)
    inside = mask[:, None] & (dims < dim)[None, :]
    taking_part = place < tl.load(place_ptr + 4 * stride)
    factor = tl.load(factor_ptr) * tl.load(grad_ptr).to(tl.float32) / SCALE
    g = tl.where(taking_part[:, None], g * (factor * tl.sqrt(1.0 / value_of(temperature, LEARNED) * LN2)), 0.0)
    # What a row without a part holds is not looked at: 0 · NaN would be its gradient.
    needed = inside & taking_part[:, None]
    x = tl.load(x_ptr + source[:, None] * x_stride + dims[None, :], mask=needed, other=0.0).to(tl.float32)
    inverse = tl.load(number_ptr + 7 * stride + place)
    z = x * inverse[:, None]
    radial = tl.sum(g * z, axis=1)
    if COSINE:
        g = (g - radial[:, None] * z) * inverse[:, None]
    tl.store(result_ptr + source[:, None] * dim + dims[None, :], in_precision(g, result_ptr, INTERPRETED), mask=inside)
    if LEARNED:
        tl.store(radial_ptr + place, radial, mask=mask)


@triton.jit
def return_kernel(
    gradient_ptr, x_ptr, x_stride, place_ptr, number_ptr, factor_ptr, grad_ptr, temperature, result_ptr, radial_ptr,
    stride, n, dim,
    D: tl.constexpr, WIDE: tl.constexpr, BR: tl.constexpr,
    COSINE: tl.constexpr, LEARNED: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """`finish_rows` for embeddings whose gradient several programs have written, part by part."""
    place = tl.program_id(0) * BR + tl.arange(0, BR)
    dims = tl.arange(0, WIDE)
    at = gradient_ptr + place.to(tl.int64)[:, None] * D + dims[None, :]
    g = tl.load(at, mask=(place < n)[:, None] & (dims < dim)[None, :], other=0.0)
    finish_rows(
        g, place, x_ptr, x_stride, place_ptr, number_ptr, factor_ptr, grad_ptr, temperature, result_ptr, radial_ptr,
        stride, n, dim, COSINE, LEARNED, INTERPRETED,
    )  # fmt: skip
