"""The statistics in memory linear in n: operators of our own that forget the logits and compute them again.

They are registered with torch.library, so torch.compile takes them whole (`fullgraph=True`) and never looks inside.
"""

from collections.abc import Collection
from dataclasses import fields
from typing import Any, cast

import torch
from torch import Tensor

from sincere.losses.backends import row_blocks, symmetric
from sincere.losses.backends.class_layout import ClassLayout, layout_of
from sincere.losses.backends.saved import Gradients, Saved, refuse_second_derivative
from sincere.losses.pairs import Pairs
from sincere.losses.relation import Kind, Relation
from sincere.losses.statistics import RowStatistics, Statistic

NO_SELF = -1  # operators take plain integers, so None travels as this

STATISTICS: tuple[Statistic, ...] = ("lse_all", "lse_neg", "lse_pos", "mean_pos", "mean_softplus")


def row_statistics(pairs: Pairs, wanted: Collection[Statistic], margin: float) -> RowStatistics:
    """The wanted statistics of every anchor; differentiable once."""
    r = pairs.relation
    outputs = _forward(
        pairs.anchors,
        pairs.contrasts,
        r.anchor,
        r.contrast,
        r.usable,
        r.labelled,
        r.kind,
        NO_SELF if r.self_offset is None else r.self_offset,
        ",".join(wanted),
        margin,
    )
    saved = Saved(*outputs)
    return RowStatistics(saved.weight_sum, saved.num_neg, {name: getattr(saved, name) for name in wanted})


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
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    relation = _relation(anchor_labels, contrast_labels, usable, labelled, kind, self_offset)
    names = cast(list[Statistic], wanted.split(","))
    with torch.autocast(anchors.device.type, enabled=False):
        if _is_symmetric(anchors, contrasts, relation):
            return _in_class_order(anchors, relation, names, margin).tensors()
        return row_blocks.forward(
            anchors, anchors if contrasts is None else contrasts, relation, names, margin
        ).tensors()


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
    margin: float,
    saved_tensors: list[Tensor],
    grad_tensors: list[Tensor],
    wanted: str,
) -> tuple[Tensor, Tensor]:
    relation = _relation(anchor_labels, contrast_labels, usable, labelled, kind, self_offset)
    saved = Saved(*saved_tensors)
    names = wanted.split(",")
    grads = Gradients(**{name: grad_tensors[i] if name in names else None for i, name in enumerate(STATISTICS)})
    with torch.autocast(anchors.device.type, enabled=False):
        if _is_symmetric(anchors, contrasts, relation):
            return _gradient_in_class_order(anchors, relation, saved, grads, margin), anchors.new_empty(0)
        if contrasts is not None:
            return row_blocks.backward(anchors, contrasts, relation, saved, grads, margin)
        as_anchor, as_contrast = row_blocks.backward(anchors, anchors, relation, saved, grads, margin)
        return as_anchor.add_(as_contrast), anchors.new_empty(0)


def _is_symmetric(anchors: Tensor, contrasts: Tensor | None, relation: Relation) -> bool:
    return contrasts is None and relation.kind == "classes" and relation.self_offset == 0 and symmetric.fits(anchors)


def _in_class_order(anchors: Tensor, relation: Relation, wanted: list[Statistic], margin: float) -> Saved:
    """Sort, leave out what is unusable, compute, and put everything back into its place."""
    layout, place = _layout(relation)
    ordered = symmetric.forward(anchors[place], layout, wanted, margin)
    saved = Saved.empty(anchors)
    for target, source in zip(saved.tensors(), ordered.tensors(), strict=True):
        target[place] = source
    saved.weight_sum.mul_(relation.labelled)
    return saved


def _gradient_in_class_order(
    anchors: Tensor, relation: Relation, saved: Saved, grads: Gradients, margin: float
) -> Tensor:
    layout, place = _layout(relation)
    ordered_saved = Saved(*(tensor[place] for tensor in saved.tensors()))
    ordered_grads = Gradients(
        **{f.name: None if (g := getattr(grads, f.name)) is None else g[place] for f in fields(Gradients)}
    )
    gradient = torch.zeros_like(anchors)
    gradient[place] = symmetric.backward(anchors[place], layout, ordered_saved, ordered_grads, margin)
    return gradient


def _layout(relation: Relation) -> tuple[ClassLayout, Tensor]:
    """The usable rows in class order, and their places in the batch."""
    usable = relation.usable.nonzero().squeeze(1)
    layout = layout_of(relation.anchor[usable])
    return layout, usable[layout.order]


def _relation(
    anchor_labels: Tensor, contrast_labels: Tensor, usable: Tensor, labelled: Tensor, kind: str, self_offset: int
) -> Relation:
    offset = None if self_offset == NO_SELF else self_offset
    return Relation(cast(Kind, kind), anchor_labels, contrast_labels, usable, labelled, offset)


@_forward.register_fake
def _(anchors: Tensor, *_: Any) -> tuple[Tensor, ...]:
    return Saved.empty(anchors).tensors()


@_backward.register_fake
def _(anchors: Tensor, contrasts: Tensor | None, *_: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(anchors), anchors.new_empty(0) if contrasts is None else torch.empty_like(contrasts)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    anchors, contrasts, anchor_labels, contrast_labels, usable, labelled, *options = inputs
    ctx.save_for_backward(anchors, contrasts, anchor_labels, contrast_labels, usable, labelled, *output)
    ctx.kind, ctx.self_offset, ctx.wanted, ctx.margin = options


def _differentiate(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    inputs, saved = ctx.saved_tensors[:6], list(ctx.saved_tensors[6:])
    anchor_grad, contrast_grad = _backward(
        *inputs, ctx.kind, ctx.self_offset, ctx.margin, saved, [g.contiguous() for g in grads[2:7]], ctx.wanted
    )
    return (anchor_grad, None if inputs[1] is None else contrast_grad, *[None] * 8)


_forward.register_autograd(_differentiate, setup_context=_setup_context)
_backward.register_autograd(refuse_second_derivative)
