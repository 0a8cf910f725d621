"""The statistics as operators of our own, which forget the logits and compute them again in the backward pass.

An engine does the work: `tiled` on any device, `triton` on a GPU. The operators are registered with torch.library, so
torch.compile takes them whole (`fullgraph=True`) and never looks inside. Eager code differentiates them by two
autograd.Functions, which the transforms of torch.func take (transforms.py).
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from sincere.losses.backends import tiled
from sincere.losses.backends.saved import Gradients, Problem, Saved, refuse_forward_mode, refuse_second_derivative
from sincere.losses.backends.transforms import LastDerivative, OneByOne
from sincere.losses.pairs import Pairs
from sincere.losses.relation import Relation, exchanged
from sincere.losses.statistics import RowStatistics, Statistic

TENSORS = 7  # the first arguments of both operators, which are saved for the backward pass

STATISTICS: tuple[Statistic, ...] = ("lse_all", "lse_neg", "lse_pos", "mean_pos", "mean_softplus")


def row_statistics(pairs: Pairs, wanted: Collection[Statistic], margin: float, engine: str) -> RowStatistics:
    """The wanted statistics of every anchor; differentiable once."""
    operator: Any = _forward if torch.compiler.is_compiling() else _Statistics.apply
    relation = pairs.relation
    if engine == "triton":
        anchor, contrast = (
            exchanged(labels, pairs.settings.ignore_label) for labels in (relation.anchor, relation.contrast)
        )
        relation = replace(relation, anchor=anchor, contrast=contrast)
    outputs = operator(
        pairs.anchors,
        pairs.contrasts,
        relation.negative_bias,
        *relation.arguments(),
        ",".join(wanted),
        margin,
        engine,
        pairs.bounded,
        pairs.precision,
    )
    saved = Saved(*outputs)
    return RowStatistics(saved.weight_sum, saved.num_neg, {name: getattr(saved, name) for name in wanted})


class _Statistics(OneByOne):
    """The operator for eager code."""

    @staticmethod
    def forward(*inputs: Any) -> Any:
        return _forward(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        _setup_context(ctx, inputs, output)
        ctx.mark_non_differentiable(output[0], output[1], output[-1])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        of_statistics = [grad.contiguous() for grad in grads[2:7]]
        found = _Gradient.apply(*ctx.saved_tensors, *of_statistics, *ctx.options)  # type: ignore[no-untyped-call]
        return _with_nothing_for_the_rest(ctx, *found)

    jvp = staticmethod(refuse_forward_mode)


class _Gradient(LastDerivative):
    """Its backward pass, which has no derivative itself."""

    @staticmethod
    def forward(*inputs: Any) -> Any:
        return _backward(*inputs)

    backward = staticmethod(refuse_second_derivative)
    jvp = staticmethod(refuse_forward_mode)


def _engine(name: str) -> Any:
    """Triton is imported when it is first used: `import sincere` works without it."""
    if name == "tiled":
        return tiled
    from sincere.losses.backends import triton_backend

    return triton_backend


@torch.library.custom_op("sincere::row_statistics", mutates_args=())
def _forward(
    anchors: Tensor,
    contrasts: Tensor | None,
    negative_bias: Tensor | None,
    anchor_labels: Tensor,
    contrast_labels: Tensor,
    usable: Tensor,
    labelled: Tensor,
    kind: str,
    self_offset: int,
    wanted: str,
    margin: float,
    engine: str,
    bounded: bool,
    precision: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    relation = Relation.from_arguments(anchor_labels, contrast_labels, usable, labelled, kind, self_offset)
    relation = replace(relation, negative_bias=negative_bias)
    names = cast(list[Statistic], wanted.split(","))
    problem = Problem(anchors, contrasts, relation, margin, bounded, precision)
    with torch.autocast(anchors.device.type, enabled=False):
        saved: Saved = _engine(engine).forward(problem, names)
    return saved.tensors()


@torch.library.custom_op("sincere::row_statistics_backward", mutates_args=())
def _backward(
    anchors: Tensor,
    contrasts: Tensor | None,
    negative_bias: Tensor | None,
    anchor_labels: Tensor,
    contrast_labels: Tensor,
    usable: Tensor,
    labelled: Tensor,
    # One by one and not as lists, which torch could not batch (`is_grads_batched`): what the forward pass saved,
    weight_sum: Tensor,
    num_neg: Tensor,
    lse_all: Tensor,
    lse_neg: Tensor,
    lse_pos: Tensor,
    mean_pos: Tensor,
    mean_softplus: Tensor,
    mean_sigma: Tensor,
    # and the gradients of the statistics.
    of_lse_all: Tensor,
    of_lse_neg: Tensor,
    of_lse_pos: Tensor,
    of_mean_pos: Tensor,
    of_mean_softplus: Tensor,
    kind: str,
    self_offset: int,
    wanted: str,
    margin: float,
    engine: str,
    bounded: bool,
    precision: str,
) -> tuple[Tensor, Tensor]:
    relation = Relation.from_arguments(anchor_labels, contrast_labels, usable, labelled, kind, self_offset)
    relation = replace(relation, negative_bias=negative_bias)
    saved = Saved(weight_sum, num_neg, lse_all, lse_neg, lse_pos, mean_pos, mean_softplus, mean_sigma)
    every = zip(STATISTICS, (of_lse_all, of_lse_neg, of_lse_pos, of_mean_pos, of_mean_softplus), strict=True)
    names = wanted.split(",")
    grads = Gradients(**{name: grad if name in names else None for name, grad in every})
    problem = Problem(anchors, contrasts, relation, margin, bounded, precision)
    with torch.autocast(anchors.device.type, enabled=False):
        anchor_grad, contrast_grad = _engine(engine).backward(problem, saved, grads)
    return anchor_grad, anchors.new_empty(0) if contrast_grad is None else contrast_grad


@_forward.register_fake
def _(anchors: Tensor, *_: Any) -> tuple[Tensor, ...]:
    return Saved.empty(anchors).tensors()


@_backward.register_fake
def _(anchors: Tensor, contrasts: Tensor | None, *_: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(anchors), anchors.new_empty(0) if contrasts is None else torch.empty_like(contrasts)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    tensors, ctx.options = inputs[:TENSORS], inputs[TENSORS:]
    ctx.has_contrasts = tensors[1] is not None
    ctx.save_for_backward(*tensors, *output)


def _differentiate(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    of_statistics = [grad.contiguous() for grad in grads[2:7]]
    return _with_nothing_for_the_rest(ctx, *_backward(*ctx.saved_tensors, *of_statistics, *ctx.options))


def _with_nothing_for_the_rest(ctx: Any, anchor_grad: Tensor, contrast_grad: Tensor) -> tuple[Tensor | None, ...]:
    """One gradient per input of the operator: labels and options have none, and contrasts may be missing."""
    nothing = [None] * (TENSORS - 2 + len(ctx.options))
    return (anchor_grad, contrast_grad if ctx.has_contrasts else None, *nothing)


_forward.register_autograd(_differentiate, setup_context=_setup_context)
_backward.register_autograd(refuse_second_derivative)
