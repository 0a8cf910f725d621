"""The set loss of anchors whose logits are given, and its derivative.

With λ the balancing tilt and x = s + λ (sincere.losses.subsets),

    k ℓ = Σ_{p∈P} softplus(−x_p) + Σ_{n∈N} softplus(x_n) + log Pr[k elements are drawn]:

a logistic loss of members against non-members at the threshold that expects k members, and a term that takes back what
the logistic loss charges for not knowing that there are exactly k. Nothing large is subtracted from anything large.
"""

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch import Tensor

from sincere.losses import subset_tree, subsets
from sincere.losses.backends import transforms
from sincere.losses.backends.transforms import LastDerivative, OneByOne
from sincere.losses.statistics import softplus

# Numbers that the exact method holds at once: 2²¹ float64 are 16 MiB.
HELD_AT_ONCE = 1 << 21


def refuse_second_derivative(ctx: Any = None, *_: Any) -> NoReturn:
    raise RuntimeError(
        'the set loss can be differentiated once here. For a second derivative pass backend="dense" and method="exact".'
    )


def refuse_forward_mode(ctx: Any = None, *_: Any) -> NoReturn:
    raise RuntimeError(
        "the set loss has no derivative in forward mode here (torch.func.jvp, linearize, forward_ad). "
        'Pass backend="dense" and method="exact".'
    )


def exact_values_by_autograd(s: Tensor, positive: Tensor, members: Tensor, k: Tensor) -> Tensor:
    """The definition: plain operations, differentiable any number of times."""
    dtype, has_choice = s.dtype, _has_choice(members, k)
    # A row with nothing to choose counts 0, but its logits could still underflow on the way to it, and so could the
    # probability of k: none of no members are drawn for certain.
    s = _exact_precision(torch.where(has_choice.unsqueeze(1), s, 0))
    tilt = subsets.balancing_tilt(s.detach(), members, k) if s.numel() else s.sum(dim=1)
    p = subsets.drawing_probabilities(s, members & has_choice.unsqueeze(1), tilt)
    log_probability = subset_tree.exact_log_probability(p, torch.where(has_choice, k, 0))
    return _values(s, positive, members, k, tilt, log_probability).to(dtype)


def values_of_logits(s: Tensor, positive: Tensor, members: Tensor, k: Tensor, method: str) -> Tensor:
    """ℓ of the anchors whose logits are the rows of `s`; differentiable once."""
    if not torch.compiler.is_compiling():
        function: Any = _ValuesOfLogits
    elif method == "exact":
        return exact_values_by_autograd(s, positive, members, k)  # for the other one would look at the largest k
    else:
        function = _CompiledValues
    values: Tensor = function.apply(s, positive, members, k, method)[0]
    return values


def _values(s: Tensor, positive: Tensor, members: Tensor, k: Tensor, tilt: Tensor, log_probability: Tensor) -> Tensor:
    """ℓ from the formula above; 0 where there is nothing to choose."""
    x = s + tilt.unsqueeze(1)
    logistic = torch.where(members, softplus(torch.where(positive, -x, x)), 0).sum(dim=1)
    total = (logistic + log_probability) / k.clamp(min=1)
    return torch.where(_has_choice(members, k), total, 0)


def _has_choice(members: Tensor, k: Tensor) -> Tensor:
    return (k > 0) & (k < members.sum(dim=1))


def _exact_precision(s: Tensor) -> Tensor:
    """Probabilities of many draws want float64; Apple's GPUs have none."""
    return s if s.device.type == "mps" else s.double()


class _ValuesOfLogits(OneByOne):
    """ℓ of given logits, with the derivative written by hand: inclusion probabilities, and no graph of the steps."""

    @staticmethod
    def forward(s: Tensor, positive: Tensor, members: Tensor, k: Tensor, method: str) -> Any:
        return values_of_block(s, positive, members, k, method)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        *tensors, ctx.method = inputs
        ctx.save_for_backward(*tensors, output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Any) -> Any:
        (of_logits,) = _GradientOfLogits.apply(*ctx.saved_tensors, grad, ctx.method)  # type: ignore[no-untyped-call]
        return of_logits, None, None, None, None

    jvp = staticmethod(refuse_forward_mode)


class _GradientOfLogits(LastDerivative):
    """That derivative, which has none itself. `once_differentiable` says so only where `grad` needs a gradient, and
    would let a second derivative pass that leaves out what changes with `s`."""

    @staticmethod
    def forward(*inputs: Any) -> Any:
        return (gradient_of_block(*inputs),)

    backward = staticmethod(refuse_second_derivative)
    jvp = staticmethod(refuse_forward_mode)


class _CompiledValues(torch.autograd.Function):
    """The same for torch.compile, which takes no function with a `vmap` or a `jvp` of its own."""

    forward = staticmethod(_ValuesOfLogits.forward)
    setup_context = staticmethod(_ValuesOfLogits.setup_context)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Any) -> Any:
        s, positive, members, k, tilt = ctx.saved_tensors
        return gradient_of_block(s, positive, members, k, tilt, grad, ctx.method), None, None, None, None


def values_of_block(s: Tensor, positive: Tensor, members: Tensor, k: Tensor, method: str) -> tuple[Tensor, Tensor]:
    """ℓ and λ of the anchors whose logits are the rows of `s`."""
    if s.numel() == 0:
        return s.sum(dim=1), s.sum(dim=1)
    exact = method == "exact"
    scores = _exact_precision(s) if exact else s
    tilt = subsets.balancing_tilt(scores, members, k)
    p = subsets.drawing_probabilities(scores, members, tilt)
    log_probability = (
        _in_blocks(subset_tree.exact_log_probability, p, k) if exact else subsets.saddle_log_probability(p)
    )
    return _values(scores, positive, members, k, tilt, log_probability).to(s.dtype), tilt.to(s.dtype)


def gradient_of_block(
    s: Tensor, positive: Tensor, members: Tensor, k: Tensor, tilt: Tensor, grad: Tensor, method: str
) -> Tensor:
    """∂L/∂s = ∂L/∂ℓ · (π − [is positive]) / k."""
    if s.numel() == 0:
        return torch.zeros_like(s)
    exact = method == "exact"
    scores = _exact_precision(s) if exact else s
    p = subsets.drawing_probabilities(scores, members, tilt.to(scores.dtype))
    inclusion = _in_blocks(subset_tree.inclusion, p, k).to(s.dtype) if exact else subsets.saddle_inclusion(p)
    per_member = torch.where(_has_choice(members, k), grad / k.clamp(min=1), 0)
    return torch.where(members, inclusion - positive.to(s.dtype), 0) * per_member.unsqueeze(1)


def _in_blocks(of_rows: Callable[[Tensor, Tensor], Tensor], p: Tensor, k: Tensor) -> Tensor:
    """The results of all rows, computed for a few at a time where k may be looked at."""
    if transforms.hide_values(p):
        return of_rows(p, k)
    rows = max(1, HELD_AT_ONCE // subset_tree.numbers_held(p.shape[1], int(k.max())))
    starts = range(0, p.shape[0], rows)
    return torch.cat([of_rows(p[start : start + rows], k[start : start + rows]) for start in starts])
