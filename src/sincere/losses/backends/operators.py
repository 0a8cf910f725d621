"""The statistics as operators of our own, which forget the logits and compute them again in the backward pass.

An engine does the work: `tiled` on any device, `triton` on a GPU. The operators are registered with torch.library, so
torch.compile takes them whole (`fullgraph=True`) and never looks inside.
"""

from collections.abc import Collection
from typing import Any, cast

import torch
from torch import Tensor

from sincere.losses.backends import tiled
from sincere.losses.backends.saved import Gradients, Problem, Saved, refuse_forward_mode, refuse_second_derivative
from sincere.losses.pairs import Pairs
from sincere.losses.relation import Relation
from sincere.losses.statistics import RowStatistics, Statistic

TENSORS = 6  # the first arguments of both operators, which are saved for the backward pass

STATISTICS: tuple[Statistic, ...] = ("lse_all", "lse_neg", "lse_pos", "mean_pos", "mean_softplus")


def row_statistics(pairs: Pairs, wanted: Collection[Statistic], margin: float, engine: str) -> RowStatistics:
    """The wanted statistics of every anchor; differentiable once."""
    refuse_forward_mode(pairs.anchors, pairs.contrasts)
    outputs = _forward(
        pairs.anchors,
        pairs.contrasts,
        *pairs.relation.arguments(),
        ",".join(wanted),
        margin,
        engine,
        pairs.bounded,
        pairs.precision,
    )
    saved = Saved(*outputs)
    return RowStatistics(saved.weight_sum, saved.num_neg, {name: getattr(saved, name) for name in wanted})


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
    names = cast(list[Statistic], wanted.split(","))
    problem = Problem(anchors, contrasts, relation, margin, bounded, precision)
    with torch.autocast(anchors.device.type, enabled=False):
        saved: Saved = _engine(engine).forward(problem, names)
    return saved.tensors()


@torch.library.custom_op("sincere::row_statistics_backward", mutates_args=())
def _backward(
    anchors: Tensor,
    contrasts: Tensor | None,
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
    saved_tensors: list[Tensor],
    grad_tensors: list[Tensor],
) -> tuple[Tensor, Tensor]:
    relation = Relation.from_arguments(anchor_labels, contrast_labels, usable, labelled, kind, self_offset)
    names = wanted.split(",")
    grads = Gradients(**{name: grad_tensors[i] if name in names else None for i, name in enumerate(STATISTICS)})
    problem = Problem(anchors, contrasts, relation, margin, bounded, precision)
    with torch.autocast(anchors.device.type, enabled=False):
        anchor_grad, contrast_grad = _engine(engine).backward(problem, Saved(*saved_tensors), grads)
    return anchor_grad, anchors.new_empty(0) if contrast_grad is None else contrast_grad


@_forward.register_fake
def _(anchors: Tensor, *_: Any) -> tuple[Tensor, ...]:
    return Saved.empty(anchors).tensors()


@_backward.register_fake
def _(anchors: Tensor, contrasts: Tensor | None, *_: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(anchors), anchors.new_empty(0) if contrasts is None else torch.empty_like(contrasts)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    tensors, ctx.options = inputs[:TENSORS], inputs[TENSORS:]
    ctx.save_for_backward(*tensors, *output)


def _differentiate(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    inputs, saved = ctx.saved_tensors[:TENSORS], list(ctx.saved_tensors[TENSORS:])
    of_statistics = [grad.contiguous() for grad in grads[2:7]]
    anchor_grad, contrast_grad = _backward(*inputs, *ctx.options, saved, of_statistics)
    return (anchor_grad, None if inputs[1] is None else contrast_grad, *[None] * (TENSORS - 2 + len(ctx.options)))


_forward.register_autograd(_differentiate, setup_context=_setup_context)
_backward.register_autograd(refuse_second_derivative)
