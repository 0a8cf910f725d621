"""The set loss of every anchor: from all logits at once (dense), or from blocks of rows (tiled, or by kernels)."""

from typing import Any

import torch
from torch import Tensor

from sincere.losses.backends import select, transforms
from sincere.losses.backends.row_blocks import row_blocks
from sincere.losses.backends.set_logits import (
    exact_values_by_autograd,
    gradient_of_block,
    refuse_forward_mode,
    refuse_second_derivative,
    values_of_block,
    values_of_logits,
)
from sincere.losses.backends.transforms import LastDerivative, OneByOne
from sincere.losses.gather import largest_of_all
from sincere.losses.pairs import Pairs
from sincere.losses.relation import Relation

# "auto" is exact up to this m·k, for instance 1,024 contrasts and 32 positives. There it took five times as long as the
# saddle point on one CPU core, and 14 times as long as SINCERE (docs/set-loss.md). The saddle point beyond errs by at
# most 0.0403/k, as far as we could find.
EXACT_UP_TO = 1 << 15
# Where a look at k would cost too much, "auto" is exact up to so many contrasts, whatever the labels.
EXACT_CONTRASTS = 64
NUMBERS_OF_KERNELS = 6  # for each anchor, in place of the tilt: triton_set.py says which
KERNELS = "kernels"  # the saddle point by kernels, as a method of the operators below


def set_values(pairs: Pairs, method: str) -> tuple[Tensor, Tensor]:
    """ℓ and k of every anchor.

    "auto" takes kernels for the saddle point on a GPU (`_kernels_take`). It does not take the dense backend, whose
    graph holds every level of the tree, unless torch.func asks for derivatives that the tiled one does not have;
    for a similarity of the caller's own it starts from the caller's matrix.
    """
    backend = pairs.settings.backend
    if backend == "auto" and transforms.ask_for_more_than_a_gradient(pairs.anchors, pairs.contrasts):
        backend = "dense"
    elif _kernels_take(pairs, method):
        return _tiled_values(pairs, KERNELS)
    if method == "auto" and len(pairs.counts) > 1:
        method = _method_of_all(pairs)
    if pairs.matrix is None and backend != "dense":
        return _tiled_values(pairs, method)
    s = pairs.logits()
    positive = pairs.relation.weights() > 0
    members = pairs.relation.others()
    k = positive.sum(dim=1)
    if method == "auto" and (torch.compiler.is_compiling() or s.is_meta):
        method = "saddle"  # the largest k is data, and a compiled graph may not look at it
    if method == "auto" and transforms.hide_values(s):  # nor may a trace, nor vmap, which holds many of them
        method = "exact" if _is_exact_for_any_labels(s.shape[1]) else "saddle"
    method = resolve_method(method, s.shape[1], k)
    if method == "exact" and backend == "dense":
        return exact_values_by_autograd(s, positive, members, k), k
    return values_of_logits(s, positive, members, k, method), k


def _kernels_take(pairs: Pairs, method: str) -> bool:
    """On a GPU the largest k is not looked at, since that would wait for the device. "auto" is exact there for batches
    so small that they would be, whatever their labels; backend="triton" knows the saddle point alone."""
    if not select.kernels_take_sets(pairs, method):
        return False
    chosen = method == "saddle" or pairs.settings.backend == "triton"
    # Asked last: the answer would tie a graph that torch.compile or torch.export makes to a range of sizes.
    return chosen or not _is_exact_for_any_labels(pairs.relation.contrasts)


def _is_exact_for_any_labels(contrasts: int) -> bool:
    """Is "auto" exact without a look at k?"""
    return contrasts <= EXACT_CONTRASTS


def _tiled_values(pairs: Pairs, method: str) -> tuple[Tensor, Tensor]:
    """ℓ and k of every anchor, in memory linear in n; differentiable once."""
    contrasts = pairs.anchors if pairs.contrasts is None else pairs.contrasts
    operator: Any = _forward if torch.compiler.is_compiling() else _SetValues.apply
    values, k, _ = operator(pairs.anchors, contrasts, *pairs.relation.arguments(), method)
    return values, k


def resolve_method(method: str, contrasts: int, k: Tensor) -> str:
    if method != "auto":
        return method
    largest = int(k.max()) if k.numel() else 0
    return "exact" if contrasts * largest <= EXACT_UP_TO else "saddle"


def _method_of_all(pairs: Pairs) -> str:
    """What one process would choose for all anchors: those of this one alone may have a smaller k."""
    largest = largest_of_all(_positives_per_anchor(pairs.relation))
    return resolve_method("auto", pairs.relation.contrasts, torch.tensor([largest]))


def _positives_per_anchor(relation: Relation) -> Tensor:
    """k of every anchor without an n×m array, to choose the method by."""
    blocks = [relation.weights(rows).gt(0).sum(dim=1) for rows in row_blocks(relation)]
    return torch.cat(blocks) if blocks else relation.labelled.new_zeros(0, dtype=torch.int64)


class _SetValues(OneByOne):
    """The operator below for eager code."""

    @staticmethod
    def forward(*inputs: Any) -> Any:
        return _forward(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        _setup_context(ctx, inputs, output)
        ctx.mark_non_differentiable(*output[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        *tensors, k, tilt = ctx.saved_tensors
        found = _GradientOfRows.apply(*tensors, *ctx.options, k, tilt, grad.contiguous())  # type: ignore[no-untyped-call]
        return (*found, *[None] * 7)

    jvp = staticmethod(refuse_forward_mode)


class _GradientOfRows(LastDerivative):
    """Its backward pass, which has no derivative itself."""

    @staticmethod
    def forward(*inputs: Any) -> Any:
        return _backward(*inputs)

    backward = staticmethod(refuse_second_derivative)
    jvp = staticmethod(refuse_forward_mode)


def _kernels() -> Any:
    """Triton is imported when it is first used."""
    from sincere.losses.backends import triton_set_launch

    return triton_set_launch


@torch.library.custom_op("sincere::set_values", mutates_args=())
def _forward(
    anchors: Tensor,
    contrasts: Tensor,
    anchor_labels: Tensor,
    contrast_labels: Tensor,
    usable: Tensor,
    labelled: Tensor,
    kind: str,
    self_offset: int,
    method: str,
) -> tuple[Tensor, Tensor, Tensor]:
    relation = Relation.from_arguments(anchor_labels, contrast_labels, usable, labelled, kind, self_offset)
    if method == KERNELS:
        with torch.autocast(anchors.device.type, enabled=False):
            return _kernels().forward(anchors, contrasts, relation)  # type: ignore[no-any-return]
    k = _positives_per_anchor(relation)
    method = resolve_method(method, relation.contrasts, k)
    values, tilt = anchors.new_zeros(anchors.shape[0]), anchors.new_zeros(anchors.shape[0])
    with torch.autocast(anchors.device.type, enabled=False):
        for rows in row_blocks(relation):
            s = anchors[rows] @ contrasts.T
            positive, members = relation.weights(rows) > 0, relation.others(rows)
            values[rows], tilt[rows] = values_of_block(s, positive, members, k[rows], method)
    return values, k, tilt


@torch.library.custom_op("sincere::set_values_backward", mutates_args=())
def _backward(
    anchors: Tensor,
    contrasts: Tensor,
    anchor_labels: Tensor,
    contrast_labels: Tensor,
    usable: Tensor,
    labelled: Tensor,
    kind: str,
    self_offset: int,
    method: str,
    k: Tensor,
    tilt: Tensor,
    grad: Tensor,
) -> tuple[Tensor, Tensor]:
    relation = Relation.from_arguments(anchor_labels, contrast_labels, usable, labelled, kind, self_offset)
    if method == KERNELS:
        with torch.autocast(anchors.device.type, enabled=False):
            return _kernels().backward(anchors, contrasts, relation, tilt, grad)  # type: ignore[no-any-return]
    method = resolve_method(method, relation.contrasts, k)
    anchor_grad, contrast_grad = torch.zeros_like(anchors), torch.zeros_like(contrasts)
    with torch.autocast(anchors.device.type, enabled=False):
        for rows in row_blocks(relation):
            s = anchors[rows] @ contrasts.T
            positive, members = relation.weights(rows) > 0, relation.others(rows)
            g = gradient_of_block(s, positive, members, k[rows], tilt[rows], grad[rows], method)
            anchor_grad[rows] = g @ contrasts
            contrast_grad.addmm_(g.T, anchors[rows])
    return anchor_grad, contrast_grad


@_forward.register_fake
def _(anchors: Tensor, *arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    n, by_kernels = anchors.shape[0], arguments[-1] == KERNELS
    left = anchors.new_empty(NUMBERS_OF_KERNELS, n) if by_kernels else anchors.new_empty(n)
    return anchors.new_empty(n), anchors.new_empty(n, dtype=torch.int64), left


@_backward.register_fake
def _(anchors: Tensor, contrasts: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(anchors), torch.empty_like(contrasts)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    tensors, ctx.options = inputs[:6], inputs[6:]
    _, k, tilt = output
    ctx.save_for_backward(*tensors, k, tilt)


def _differentiate(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    *tensors, k, tilt = ctx.saved_tensors
    anchor_grad, contrast_grad = _backward(*tensors, *ctx.options, k, tilt, grad.contiguous())
    return (anchor_grad, contrast_grad, *[None] * 7)


_forward.register_autograd(_differentiate, setup_context=_setup_context)
_backward.register_autograd(refuse_second_derivative)
