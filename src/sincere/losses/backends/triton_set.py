"""The kernels of the set loss by the saddle point: its value, and ∂L/∂s, from rows of logits.

With x = s + λ (sincere.losses.subsets) every element is on one side, x < 0 or x ≥ 0; u ≤ ½ is the smaller and w the
larger of σ(x) and σ(−x), v = u w. Where a network is well trained all u are small, and the first order of everything
cancels: Σ_P softplus(−x) + Σ_N softplus(x) ≈ V ≈ −log Pr, and ∂ℓ/∂s is of second order. So nothing here subtracts
what is nearly equal, and float32 keeps its digits:

    Σ_a σ(x_a) − k      = Σ_below u − Σ_above u + (number above − k)
    log(1 + e^−|x|) − v = 2z² ((3 + z)/(1 + z)² + z (1/3 + z²/5 + z⁴/7 + …)),   z = u/(1 + w)
    T = Σ v (1 − 2p)    = k − number above − Σ_below u²(1 + 2w) + Σ_above u²(1 + 2w)   at the balancing tilt
    p − v (1 − 2p)      = u²(1 + 2w) below, and 1 less that above

One program owns a row. What is no member has the logit −∞ there, with u = v = 0.
"""

import triton
import triton.language as tl

# λ is settled when a step is this small: Newton's next error is half its square, below float32's digits of λ.
# 2⁻²¹ |λ| are four units in λ's last place, which a step cannot be told from.
SMALL_STEP = tl.constexpr(2.0**-13)
LAST_PLACES = tl.constexpr(2.0**-21)


@triton.jit
def load_scores(score_ptr, usable_ptr, own, m, start, BLOCK: tl.constexpr):
    """Logits of the columns from `start` on, −∞ for what is no member; who is one; and the columns."""
    columns = start + tl.arange(0, BLOCK)
    member = (columns < m) & (columns != own)
    member = member & (tl.load(usable_ptr + columns, mask=member, other=0) != 0)
    return tl.load(score_ptr + columns, mask=member, other=float("-inf")), member, columns


@triton.jit
def certainty(x):
    """u and w: the smaller and the larger of σ(x) and σ(−x)."""
    y = tl.exp(-tl.abs(x))
    w = 1.0 / (1.0 + y)
    return y * w, w


@triton.jit
def arctanh_rest(square):
    """(artanh(z)/z − 1)/z² for z² ≤ 1/9: 1/3 + z²/5 + z⁴/7 + … The terms left out are below 2e-8 of the first."""
    rest = square * (1.0 / 15) + 1.0 / 13
    rest = rest * square + 1.0 / 11
    rest = rest * square + 1.0 / 9
    rest = rest * square + 1.0 / 7
    rest = rest * square + 1.0 / 5
    return rest * square + 1.0 / 3


@triton.jit
def bessel(total):
    """log I₀(V), and I₁(V)/I₀(V).

    Up to V = 4 by their power series in V²/4, with log(1 + t) = 2 artanh(t/(2 + t)) while that is precise. Beyond, as
    V − ½ log V + a polynomial in 1/V, and another one: Chebyshev fits, off by at most 6e-8 and 1.2e-7.
    """
    quarter = tl.minimum(total, 4.0) * tl.minimum(total, 4.0) * 0.25
    beyond_one = quarter * 0.0
    half_ratio = beyond_one
    for j in tl.static_range(10):  # Horner, from the tenth term on
        beyond_one = (1.0 + beyond_one) * quarter * (1.0 / ((10 - j) * (10 - j)))
        half_ratio = (1.0 + half_ratio) * quarter * (1.0 / ((10 - j) * (11 - j)))
    z = beyond_one / (2.0 + beyond_one)
    near = 2.0 * z * (1.0 + z * z * arctanh_rest(z * z))
    near = tl.where(beyond_one < 1.0, near, tl.log(1.0 + beyond_one))
    ratio_near = 0.5 * tl.minimum(total, 4.0) * (1.0 + half_ratio) / (1.0 + beyond_one)
    far = tl.maximum(total, 4.0)
    r = 1.0 / far
    log_part = ((241.413719 * r - 274.570613) * r + 114.055831) * r - 21.9599915
    log_part = (((log_part * r + 2.37803512) * r - 0.0578929017) * r + 0.0656962286) * r + 0.124968849
    log_part = log_part * r - 0.918938484
    ratio = ((-487.498398 * r + 552.564739) * r - 228.936568) * r + 44.0357569
    ratio = (((ratio * r - 4.75439967) * r + 0.121147799) * r - 0.131392774) * r - 0.499937724
    ratio = ratio * r + 0.999999902
    # Asked this way round NaN goes the way of large V, whose sum with it stays NaN.
    is_near = total <= 4.0
    return (
        tl.where(is_near, near, total - 0.5 * tl.log(far) + log_part),
        tl.where(is_near, ratio_near, ratio),
    )


@triton.jit
def survey(
    score_ptr, label_ptr, usable_ptr, label, labelled, own, m, BLOCK: tl.constexpr, HELD: tl.constexpr
):  # fmt: skip
    """Members, positives, the smallest and the largest logit of a row; and its first block of logits."""
    held, member, columns = load_scores(score_ptr, usable_ptr, own, m, 0, BLOCK)
    positive = member & (tl.load(label_ptr + columns, mask=member, other=0) == label)
    count, k = tl.sum(member.to(tl.int32)), tl.sum(positive.to(tl.int32))
    smallest = tl.min(tl.where(member, held, float("inf")))
    largest = tl.max(held)
    if not HELD:
        for start in range(BLOCK, m, BLOCK):
            s, member, columns = load_scores(score_ptr, usable_ptr, own, m, start, BLOCK)
            positive = member & (tl.load(label_ptr + columns, mask=member, other=0) == label)
            count += tl.sum(member.to(tl.int32))
            k += tl.sum(positive.to(tl.int32))
            smallest = tl.minimum(smallest, tl.min(tl.where(member, s, float("inf"))))
            largest = tl.maximum(largest, tl.max(s))
    return count, tl.where(labelled, k, 0), smallest, largest, held


@triton.jit
def balance(score_ptr, usable_ptr, own, m, held, tilt, BLOCK: tl.constexpr, HELD: tl.constexpr):
    """Σ u below and above the threshold, how many are above, and V, at this tilt."""
    if HELD:
        end: tl.constexpr = BLOCK
    else:
        end = m
    below, above = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    variance, number = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.int32)
    for start in range(0, end, BLOCK):
        s = held
        if not HELD:
            s, _, _ = load_scores(score_ptr, usable_ptr, own, m, start, BLOCK)
        x = s + tilt
        # `certainty`, written out: this is the inner loop, and Triton's interpreter is slow at calls.
        y = tl.exp(-tl.abs(x))
        w = 1.0 / (1.0 + y)
        u, is_below = y * w, x < 0
        below += tl.where(is_below, u, 0.0)
        above += tl.where(is_below, 0.0, u)
        number += tl.where(is_below, 0, 1)
        variance += u * w
    return tl.sum(below), tl.sum(above), tl.sum(number), tl.sum(variance)


@triton.jit
def balancing_tilt(
    score_ptr, usable_ptr, own, m, held, count, k, smallest, largest,
    BLOCK: tl.constexpr, HELD: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """λ with Σ_a σ(s_a + λ) = k; 0 where k is 0 or all.

    Newton's method in a bracket, as in `subsets.balancing_tilt`. Between well-separated scores, where as many are above
    as should be, both sums are exponentials of λ, and the logarithm of their ratio leads to the balance in one step,
    where Newton's method takes steps of at most 1.
    """
    unsettled = (k > 0) & (k < count)
    centre = tl.log(tl.where(unsettled, k, 1).to(tl.float32) / tl.where(unsettled, count - k, 1).to(tl.float32))
    low = tl.where(unsettled, centre - largest, 0.0)
    high = tl.where(unsettled, centre - smallest, 0.0)
    tilt = 0.5 * (low + high)
    rounds = 0
    while unsettled & (rounds < STEPS):
        below, above, number, variance = balance(score_ptr, usable_ptr, own, m, held, tilt, BLOCK, HELD)
        excess = (below - above) + (number - k).to(tl.float32)
        low = tl.where(excess < 0, tilt, low)
        high = tl.where(excess > 0, tilt, high)
        between = (number == k) & (tl.abs(excess) > 0.5 * variance)
        step = tl.where(between, 0.5 * tl.log(below / above), excess / variance)
        step = tl.where(excess == 0, 0.0, step)
        small = SMALL_STEP + LAST_PLACES * tl.abs(tilt)
        moved = tilt - step
        inside = (moved > low) & (moved < high)
        # A step that is no number ends the search: what made it so shows in the value.
        unsettled = tl.abs(step) > small
        tilt = tl.where(unsettled & (inside == 0), 0.5 * (low + high), moved)
        rounds += 1
    return tilt


@triton.jit
def sums_at(
    score_ptr, label_ptr, usable_ptr, label, own, m, held, tilt,
    BLOCK: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Logistic loss less V, number above, V, Q = Σ v², T without the counts, and Σ v² (1 − 2p)."""
    if HELD:
        end: tl.constexpr = BLOCK
    else:
        end = m
    logistic, variance = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    squares, skew = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    square_skew, number = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.int32)
    for start in range(0, end, BLOCK):
        s = held
        if not HELD:
            s, _, _ = load_scores(score_ptr, usable_ptr, own, m, start, BLOCK)
        x = s + tilt
        columns = start + tl.arange(0, BLOCK)
        # What is no member has x = −∞, and counts as a negative whatever its label.
        same = tl.load(label_ptr + columns, mask=columns < m, other=0) == label
        positive = same & (x != float("-inf"))
        u, w = certainty(x)
        is_below = x < 0
        v, z = u * w, u / (1.0 + w)
        more = 2.0 * z * z * ((3.0 + z) / ((1.0 + z) * (1.0 + z)) + z * arctanh_rest(z * z))
        logistic += more + tl.where(positive == is_below, tl.abs(x), 0.0)
        variance += v
        squares += v * v
        skew += tl.where(is_below, -u, u) * u * (1.0 + 2.0 * w)
        square_skew += v * v * tl.where(is_below, w - u, u - w)
        number += tl.where(is_below, 0, 1)
    return tl.sum(logistic), tl.sum(number), tl.sum(variance), tl.sum(squares), tl.sum(skew), tl.sum(square_skew)


@triton.jit
def find_row(
    score_ptr, label_ptr, usable_ptr, label, labelled, own, m, number_ptr, n,
    BLOCK: tl.constexpr, HELD: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """ℓ and k of one anchor; and six numbers for its gradient, stored n apart: see `force`.

    The corrections are those of `subsets.saddle_log_probability` and `saddle_inclusion`, with the first order, which
    cancels, taken out on both sides.
    """
    count, k, smallest, largest, held = survey(
        score_ptr, label_ptr, usable_ptr, label, labelled, own, m, BLOCK, HELD
    )  # fmt: skip
    tilt = balancing_tilt(
        score_ptr, usable_ptr, own, m, held, count, k, smallest, largest, BLOCK, HELD, STEPS
    )  # fmt: skip
    logistic, number, total, squares, skew, square_skew = sums_at(
        score_ptr, label_ptr, usable_ptr, label, own, m, held, tilt, BLOCK, HELD
    )  # fmt: skip
    skew += (k - number).to(tl.float32)
    log_bessel, ratio = bessel(total)
    spread_scale = (total - 0.7) * total + 0.5
    skew_scale = (total - 0.6) * total * total + 0.4
    of_squares, of_skew = 0.75 / spread_scale, skew / skew_scale
    value = logistic + log_bessel - of_squares * squares - 5.0 / 24 * skew * of_skew
    by_total = ratio + of_squares * squares * (2.0 * total - 0.7) / spread_scale
    by_total += 5.0 / 24 * of_skew * of_skew * (3.0 * total - 1.2) * total
    by_square, by_skew = -2.0 * of_squares, -5.0 / 12 * of_skew
    mean = skew * (1.0 - by_total) - by_square * square_skew - by_skew * (total - 6.0 * squares)
    mean = tl.where(total == 0, 0.0, mean / total)

    has_choice = (k > 0) & (k < count)
    share = tl.where(has_choice, 1.0 / tl.maximum(k, 1).to(tl.float32), 0.0)
    tl.store(number_ptr, tilt)
    tl.store(number_ptr + n, by_total)
    tl.store(number_ptr + 2 * n, by_square)
    tl.store(number_ptr + 3 * n, -6.0 * by_skew)
    tl.store(number_ptr + 4 * n, by_skew + mean)
    tl.store(number_ptr + 5 * n, share)
    return tl.where(has_choice, value * share, 0.0), k


@triton.jit
def set_values_kernel(
    score_ptr, anchor_label_ptr, label_ptr, usable_ptr, labelled_ptr, value_ptr, k_ptr, number_ptr,
    first, n, m, offset,
    BLOCK: tl.constexpr, HELD: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """ℓ and k of the anchors from `first` on, and six numbers for the gradient of each."""
    row = first + tl.program_id(0)
    score_ptr += tl.program_id(0).to(tl.int64) * m
    label, labelled = tl.load(anchor_label_ptr + row), tl.load(labelled_ptr + row) != 0
    value, k = find_row(
        score_ptr, label_ptr, usable_ptr, label, labelled, row + offset, m, number_ptr + row, n, BLOCK, HELD, STEPS
    )  # fmt: skip
    tl.store(value_ptr + row, value)
    tl.store(k_ptr + row, k.to(tl.int64))


@triton.jit
def force(x, positive, by_total, by_square, by_variance, constant):
    """π − [is positive], for x = s + λ and the numbers a, b, c and e that the forward pass left.

    π is d below the threshold and 1 − d above it, d = u²(1 + 2w) + v ((a + b v)(w − u) ± (c v + e)) in [0, 1].
    """
    u, w = certainty(x)
    is_below, v = x < 0, u * w
    side = tl.where(is_below, 1.0, -1.0)
    d = u * u * (1.0 + 2.0 * w) + v * ((by_total + by_square * v) * (w - u) + side * (by_variance * v + constant))
    # Scores are known to leave [0, 1] by rounding alone, and this loss must not repel. Asked this way round NaN stays.
    d = tl.where(d < 0, 0.0, d)
    d = tl.where(d > 1, 1.0, d)
    return side * d + (tl.where(is_below, 0.0, 1.0) - tl.where(positive, 1.0, 0.0))


@triton.jit
def set_gradient_kernel(
    score_ptr, anchor_label_ptr, label_ptr, usable_ptr, grad_ptr, number_ptr,
    first, n, m, offset,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """∂L/∂s = ∂L/∂ℓ · (π − [is positive]) / k in place of the logits."""
    row = first + tl.program_id(0)
    score_ptr += tl.program_id(0).to(tl.int64) * m
    number_ptr += row
    tilt, by_total, by_square = tl.load(number_ptr), tl.load(number_ptr + n), tl.load(number_ptr + 2 * n)
    by_variance, constant = tl.load(number_ptr + 3 * n), tl.load(number_ptr + 4 * n)
    share = tl.load(number_ptr + 5 * n)
    s, member, columns = load_scores(score_ptr, usable_ptr, row + offset, m, tl.program_id(1) * BLOCK, BLOCK)
    positive = tl.load(label_ptr + columns, mask=member, other=0) == tl.load(anchor_label_ptr + row)
    pull = force(s + tilt, positive, by_total, by_square, by_variance, constant)
    g = tl.where(member, tl.load(grad_ptr + row) * share * pull, 0.0)
    tl.store(score_ptr + columns, tl.where(share > 0, g, 0.0), mask=columns < m)
