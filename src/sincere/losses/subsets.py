"""Sums over all subsets of a given size: log e_k, and how often each element is in such a subset.

e_k(x_1, …, x_m) is the sum over all k-subsets of the product of their x; here x_a = e^{s_a}. Draw each element
independently with probability p_a = σ(s_a + λ), whatever λ is. Then

    log e_k = Σ_a softplus(s_a + λ) − kλ + log Pr[k elements are drawn],

because e^{kλ} e_k is the weight of all draws of size k, and Π_a (1 + e^{s_a + λ}) that of all draws. We take the λ
that draws k elements on average: the probability on the right is then far from zero, so its plain recurrence

    Pr_a[j] = (1 − p_a) Pr_{a−1}[j] + p_a Pr_{a−1}[j − 1]

needs no logarithms and cannot over- or underflow, and for many elements it is so smooth that a formula replaces it.
subset_tree.py takes the steps of the recurrence in another order, in which they are fewer.
"""

from math import pi

import torch
from torch import Tensor

from sincere.losses.backends import transforms

NEWTON_STEPS = 60


def balancing_tilt(s: Tensor, members: Tensor, k: Tensor) -> Tensor:
    """λ with Σ_a σ(s_a + λ) = k, per row; 0 where k is 0 or all, for which there is none.

    Newton's method inside a bracket that is halved wherever Newton would leave it, so flat stretches between
    well-separated scores cost a few steps and never a wrong answer.
    """
    count = members.sum(dim=1)
    solvable = (k > 0) & (k < count)
    share = torch.where(solvable, k.to(s.dtype) / count.clamp(min=1), 0.5)
    centre = share.log() - torch.log1p(-share)
    held = s.masked_fill(~members, -torch.inf)  # so what is no member has p = 0
    low = centre - held.amax(dim=1)
    high = centre - s.masked_fill(~members, torch.inf).amin(dim=1)
    low, high = torch.where(solvable, low, 0), torch.where(solvable, high, 0)
    tilt = (low + high) / 2
    rounding, hidden = 4 * torch.finfo(s.dtype).eps, transforms.hide_values(s)
    if s.dtype == torch.float64 and not hidden:  # most rounds in single precision, where they cost a fraction
        rough = balancing_tilt(s.float(), members, k).double()
        tilt = torch.where((rough > low) & (rough < high), rough, tilt)
    for _ in range(NEWTON_STEPS):
        p = torch.sigmoid(held + tilt.unsqueeze(1))
        excess, variance = p.sum(dim=1) - k, torch.addcmul(p, p, p, value=-1).sum(dim=1)
        low = torch.where(excess < 0, tilt, low)
        high = torch.where(excess > 0, tilt, high)
        newton = tilt - excess / variance
        # The remaining excess may come from rounding the sum, which is k, or λ, which changes the sum by V times as
        # much. The number of elements is no measure: for a million float32, most of them near 0, the tolerance would be
        # half an element.
        enough = rounding * (k + variance * tilt.abs())
        inside = (newton > low) & (newton < high)
        moved = torch.where(inside, newton, (low + high) / 2)
        unsettled = solvable & (excess.abs() > enough)
        tilt = torch.where(unsettled, moved, tilt)
        if not hidden and not bool(unsettled.any()):
            break
    return tilt


def drawing_probabilities(s: Tensor, members: Tensor, tilt: Tensor) -> Tensor:
    """p_a = σ(s_a + λ), and 0 for what is no member."""
    return torch.where(members, torch.sigmoid(s + tilt.unsqueeze(1)), 0)


def count_probability(p: Tensor, k: Tensor) -> Tensor:
    """Pr[k elements are drawn] from the Fourier transform of the count's distribution, without a step per element:

        Pr[k] = (1/M) Σ_j e^{−ikθ_j} Π_a (1 − p_a + p_a e^{iθ_j}),   θ_j = 2πj/M, M > m.

    So a compiled graph is short and serves any number of elements. The error is some machine epsilons of 1, and at the
    balancing tilt the probability is at least about 1/√m. With M odd no factor is zero, so that each has a logarithm.
    """
    half = p.shape[1] // 2 + 1  # M = 2 half + 1: terms j and M − j are conjugates, and that of j = 0 is 1
    angle = torch.arange(1, half + 1, device=p.device).to(p.dtype) * (2 * pi / (2 * half + 1))
    chance = p.unsqueeze(1)
    real = 1 - chance * (2 * (angle / 2).sin().square()).unsqueeze(1)
    imaginary = chance * angle.sin().unsqueeze(1)
    length = (0.5 * (real.square() + imaginary.square()).log().sum(dim=2)).exp()
    phase = torch.atan2(imaginary, real).sum(dim=2) - k.unsqueeze(1) * angle
    return (1 + 2 * (length * phase.cos()).sum(dim=1)) / (2 * half + 1)


# The saddle point's corrections hold for large V, where their denominators must be V² and V³. As V → 0 the truth is
# −V − (3/2)Q + V²/4 to second order: log(e^{−V} I₀(V)) has the V terms, the ½ gives −(3/2)Q, and T² is of fourth order
# there. So both ends are right, and their gradients too. The other constants (0.7, 0.6, 0.4) are free; they come from
# a coarse grid, judged by the largest error (docs/set-loss.md). Both denominators are positive for all V ≥ 0.


def _spread_scale(total: Tensor) -> Tensor:
    """D = V² − 0.7 V + ½, the denominator of the correction by Q."""
    return total.square() - 0.7 * total + 0.5


def _skew_scale(total: Tensor) -> Tensor:
    """E = V³ − 0.6 V² + 0.4, the denominator of the correction by T²."""
    return total.pow(3) - 0.6 * total.square() + 0.4


def saddle_log_probability(p: Tensor) -> Tensor:
    """log Pr[k elements are drawn] at the balancing tilt, by a saddle point that stays finite:

        log(e^{−V} I₀(V)) − ¾ Q / D − (5/24) T² / E,   D = V² − 0.7 V + ½, E = V³ − 0.6 V² + 0.4,

    with v = p(1 − p), V = Σv, Q = Σv², T = Σv(1 − 2p).

    The textbook's −½ log 2πV is right for large V and explodes as V → 0, just where training leads. There the elements
    drawn against the odds and those left out against the odds are two Poisson counts of mean V/2, which agree with
    probability e^{−V} I₀(V); and for large V that is 1/√(2πV) again. The other terms are the next order of the
    saddle point, (κ₄ − V)/8V² − 5κ₃²/24V³ with κ₄ = V − 6Q and κ₃ = T, with denominators that stay away from zero.
    """
    v = p * (1 - p)
    total, squares, skew = v.sum(dim=1), v.square().sum(dim=1), (v * (1 - 2 * p)).sum(dim=1)
    agreement: Tensor = torch.special.i0e(total)
    return agreement.log() - 0.75 * squares / _spread_scale(total) - 5 / 24 * skew.square() / _skew_scale(total)


def saddle_inclusion(p: Tensor) -> Tensor:
    """π_a as the derivative of that formula with respect to s_a, clamped to [0, 1], where the true one lies.

    λ follows s, so the derivative of any Σ_b h(p_b) is v_a (h'(p_a) − Σ_b v_b h'(p_b) / V); with c(p) = the formula's
    partial derivatives times h' of V, Q and T, π_a = p_a + v_a (c(p_a) − Σ_b v_b c(p_b) / V).
    """
    v, slope = p * (1 - p), 1 - 2 * p
    total = v.sum(dim=1, keepdim=True)
    squares, skew = v.square().sum(dim=1, keepdim=True), (v * slope).sum(dim=1, keepdim=True)
    spread_scale, skew_scale = _spread_scale(total), _skew_scale(total)
    by_total: Tensor = (
        torch.special.i1e(total) / torch.special.i0e(total)
        - 1
        + 0.75 * squares * (2 * total - 0.7) / spread_scale.square()
        + 5 / 24 * skew.square() * (3 * total.square() - 1.2 * total) / skew_scale.square()
    )
    by_squares, by_skew = -0.75 / spread_scale, -5 / 12 * skew / skew_scale
    c = by_total * slope + by_squares * 2 * v * slope + by_skew * (1 - 6 * v)
    mean = (v * c).sum(dim=1, keepdim=True) / torch.where(total > 0, total, 1)
    return (p + v * (c - mean)).clamp(0, 1)
