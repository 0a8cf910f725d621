"""Rank-N-Contrast by blocks of rows, as operators of our own: the backward pass computes the logits again.

Each block writes its part of a result that was allocated beforehand, and keeps nothing else. Small tensors that stayed
between the large ones of the blocks would keep the C library from reusing their memory, and a process would grow with
n². torch.compile takes the operators whole, whatever the number of rows.
"""

from typing import Any

import torch
from torch import Tensor

from sincere.losses.backends.rank_logits import Ranking, gradient_of_logits, values_by_graph, values_of_logits
from sincere.losses.backends.row_blocks import row_blocks
from sincere.losses.backends.saved import refuse_second_derivative
from sincere.losses.backends.transforms import LastDerivative, OneByOne
from sincere.losses.relation import Relation

TENSORS = 6  # the first arguments of the operators: anchors, contrasts, and the tensors of a relation


def tiled_values(anchors: Tensor, contrasts: Tensor, relation: Relation, ranking: Ranking) -> tuple[Tensor, Tensor]:
    """ℓ of every anchor, and how many contrasts its mean is over."""
    operator: Any = _forward if torch.compiler.is_compiling() else _RankValues.apply
    options = (ranking.spared, ranking.power, ranking.bounded)
    values, counted = operator(anchors, contrasts, *relation.arguments(), *options)
    return values, counted


class _RankValues(OneByOne):
    """The operator below for eager code."""

    @staticmethod
    def forward(*inputs: Any) -> Any:
        return _forward(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        _setup_context(ctx, inputs, output)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # somebody will differentiate this again
            return _by_graph(ctx, grad)
        found = _Gradient.apply(*ctx.saved_tensors, grad.contiguous(), *ctx.options)  # type: ignore[no-untyped-call]
        return (*found, *[None] * (TENSORS - 2 + len(ctx.options)))


class _Gradient(LastDerivative):
    """Its backward pass, where nobody asks for a second one."""

    @staticmethod
    def forward(*inputs: Any) -> Any:
        return _backward(*inputs)

    backward = staticmethod(refuse_second_derivative)


def _by_graph(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """The backward pass by autograd, in the memory of the dense backend, and differentiable as often as one likes."""
    anchors, contrasts, own, other, usable, labelled = ctx.saved_tensors
    kind, offset, spared, power, bounded = ctx.options
    # Views, since both may be one tensor, and each has a gradient of its own.
    given = (anchors.view_as(anchors), contrasts.view_as(contrasts))
    relation = Relation.from_arguments(own, other, usable, labelled, kind, offset)
    values, _ = values_by_graph(*given, relation, Ranking(spared, power, bounded))
    wanted = [tensor for tensor, needed in zip(given, ctx.needs_input_grad[:2], strict=True) if needed]
    found = iter(torch.autograd.grad(values, wanted, grad, create_graph=True))
    grads = [next(found) if needed else None for needed in ctx.needs_input_grad[:2]]
    return (*grads, *[None] * (TENSORS - 2 + len(ctx.options)))


@torch.library.custom_op("sincere::rank_values", mutates_args=())
def _forward(
    anchors: Tensor,
    contrasts: Tensor,
    anchor_labels: Tensor,
    contrast_labels: Tensor,
    usable: Tensor,
    labelled: Tensor,
    kind: str,
    self_offset: int,
    spared: bool,
    power: float,
    bounded: bool,
) -> tuple[Tensor, Tensor]:
    relation = Relation.from_arguments(anchor_labels, contrast_labels, usable, labelled, kind, self_offset)
    values, counted = anchors.new_zeros(anchors.shape[0]), labelled.new_zeros(labelled.shape, dtype=torch.int64)
    with torch.autocast(anchors.device.type, enabled=False):
        for rows in row_blocks(relation):
            s = anchors[rows] @ contrasts.T
            values[rows], counted[rows] = values_of_logits(s, relation, rows, Ranking(spared, power, bounded))
    return values, counted


@torch.library.custom_op("sincere::rank_values_backward", mutates_args=())
def _backward(
    anchors: Tensor,
    contrasts: Tensor,
    anchor_labels: Tensor,
    contrast_labels: Tensor,
    usable: Tensor,
    labelled: Tensor,
    grad: Tensor,
    kind: str,
    self_offset: int,
    spared: bool,
    power: float,
    bounded: bool,
) -> tuple[Tensor, Tensor]:
    relation = Relation.from_arguments(anchor_labels, contrast_labels, usable, labelled, kind, self_offset)
    anchor_grad, contrast_grad = torch.empty_like(anchors), torch.zeros_like(contrasts)
    with torch.autocast(anchors.device.type, enabled=False):
        for rows in row_blocks(relation):
            s = anchors[rows] @ contrasts.T
            g = gradient_of_logits(s, grad[rows], relation, rows, Ranking(spared, power, bounded))
            torch.mm(g, contrasts, out=anchor_grad[rows])
            contrast_grad.addmm_(g.T, anchors[rows])
    return anchor_grad, contrast_grad


@_forward.register_fake
def _(anchors: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return anchors.new_empty(anchors.shape[0]), anchors.new_empty(anchors.shape[0], dtype=torch.int64)


@_backward.register_fake
def _(anchors: Tensor, contrasts: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(anchors), torch.empty_like(contrasts)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.options = inputs[TENSORS:]
    ctx.save_for_backward(*inputs[:TENSORS])


def _differentiate(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    found = _backward(*ctx.saved_tensors, grad.contiguous(), *ctx.options)
    return (*found, *[None] * (TENSORS - 2 + len(ctx.options)))


_forward.register_autograd(_differentiate, setup_context=_setup_context)
_backward.register_autograd(refuse_second_derivative)
