"""log Σ_{i ≤ k} e^{s_i} for every k of a row, with derivatives of any order.

torch.logcumsumexp has a gradient that takes logarithms of what flows back, so that its second derivative is NaN as
soon as a zero does. Here, with W_ik = e^{s_i − y_k} for i ≤ k, which is at most 1:

    P(v)_k = Σ_{i ≤ k} W_ik v_i      the derivative in direction v
    R(g)_i = Σ_{k ≥ i} W_ik g_k      what flows back

and the derivatives of both are made of P and R again.
"""

from typing import Any

import torch
from torch import Tensor


def cumulative_logsumexp(s: Tensor, *, bounded: bool = False) -> Tensor:
    """Along the last dimension of s (r, m); `bounded` where |s| ≤ 32 is known, so that e^s needs no care."""
    if bounded:
        return s.exp().cumsum(dim=-1).log()
    if torch.compiler.is_compiling():  # which differentiates once
        return s.logcumsumexp(dim=-1)
    return _Cumulative.apply(s)  # type: ignore[no-any-return, no-untyped-call]


def flowing_back(g: Tensor, s: Tensor, sums: Tensor, *, bounded: bool) -> Tensor:
    """R(g), for whoever differentiates by hand; `sums` are the cumulative ones of s."""
    if bounded:
        return s.exp() * (g * (-sums).exp()).flip(-1).cumsum(dim=-1).flip(-1)
    return _Back.forward(g, s)


def _signed(values: Tensor, exponents: Tensor, *, reverse: bool) -> Tensor:
    """log of the cumulative sums of values · e^exponents, of the positive values and of the negative ones."""
    parts = torch.stack([values, -values]).clamp(min=0).log() + exponents
    if reverse:
        return parts.flip(-1).logcumsumexp(dim=-1).flip(-1)
    return parts.logcumsumexp(dim=-1)


class _KeepsInputs(torch.autograd.Function):
    """For derivatives in either direction; `vmap` sees through it."""

    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)


class _Cumulative(_KeepsInputs):
    @staticmethod
    def forward(s: Tensor) -> Tensor:
        return s.logcumsumexp(dim=-1)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return _Back.apply(grads[0], *ctx.saved_tensors)  # type: ignore[no-untyped-call]

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return _Along.apply(tangents[0], *ctx.saved_tensors)  # type: ignore[no-untyped-call]


class _Along(_KeepsInputs):
    """P."""

    @staticmethod
    def forward(v: Tensor, s: Tensor) -> Tensor:
        sums: Tensor = (_signed(v, s, reverse=False) - s.logcumsumexp(dim=-1)).exp()
        return sums[0] - sums[1]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        v, s = ctx.saved_tensors
        u = grads[0]
        back = _Back.apply(u, s)  # type: ignore[no-untyped-call]
        return back, v * back - _Back.apply(u * _Along.apply(v, s), s)  # type: ignore[no-untyped-call]

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        v, s = ctx.saved_tensors
        dv, ds = tangents
        moved: Tensor = _Along.apply(dv + v * ds, s)  # type: ignore[no-untyped-call]
        return moved - _Along.apply(v, s) * _Along.apply(ds, s)  # type: ignore[no-untyped-call]


class _Back(_KeepsInputs):
    """R."""

    @staticmethod
    def forward(g: Tensor, s: Tensor) -> Tensor:
        sums: Tensor = (_signed(g, -s.logcumsumexp(dim=-1), reverse=True) + s).exp()
        return sums[0] - sums[1]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        g, s = ctx.saved_tensors
        v = grads[0]
        along = _Along.apply(v, s)  # type: ignore[no-untyped-call]
        return along, v * _Back.apply(g, s) - _Back.apply(g * along, s)  # type: ignore[no-untyped-call]

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        g, s = ctx.saved_tensors
        dg, ds = tangents
        moved: Tensor = _Back.apply(dg - g * _Along.apply(ds, s), s)  # type: ignore[no-untyped-call]
        return moved + ds * _Back.apply(g, s)  # type: ignore[no-untyped-call]
