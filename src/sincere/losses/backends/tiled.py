"""The engine for any device: a batch against itself in class order, everything else by blocks of anchors."""

from collections.abc import Collection
from dataclasses import fields

import torch
from torch import Tensor

from sincere.losses.backends import row_blocks, symmetric
from sincere.losses.backends.class_layout import ClassLayout, layout_of
from sincere.losses.backends.saved import Gradients, Problem, Saved
from sincere.losses.relation import Relation
from sincere.losses.statistics import Statistic


def forward(problem: Problem, wanted: Collection[Statistic]) -> Saved:
    """The wanted statistics of every anchor."""
    if not _is_symmetric(problem):
        return row_blocks.forward(problem.anchors, problem.contrast_rows, problem.relation, wanted, problem.margin)
    layout, place = _layout(problem.relation)
    weights = _negative_weights(problem.relation, place)
    ordered = symmetric.forward(problem.anchors[place], layout, wanted, problem.margin, weights)
    saved = Saved.empty(problem.anchors)
    for target, source in zip(saved.tensors(), ordered.tensors(), strict=True):
        target[place] = source
    saved.weight_sum.mul_(problem.relation.labelled)
    return saved


def backward(problem: Problem, saved: Saved, grads: Gradients) -> tuple[Tensor, Tensor | None]:
    """∂L/∂anchors and ∂L/∂contrasts; None for a batch against itself, where the former holds both."""
    if not _is_symmetric(problem):
        as_anchor, as_contrast = row_blocks.backward(
            problem.anchors, problem.contrast_rows, problem.relation, saved, grads, problem.margin
        )
        return (as_anchor.add_(as_contrast), None) if problem.contrasts is None else (as_anchor, as_contrast)
    layout, place = _layout(problem.relation)
    ordered_saved = Saved(*(tensor[place] for tensor in saved.tensors()))
    ordered_grads = Gradients(
        **{f.name: None if (g := getattr(grads, f.name)) is None else g[place] for f in fields(Gradients)}
    )
    weights = _negative_weights(problem.relation, place)
    gradient = torch.zeros_like(problem.anchors)
    gradient[place] = symmetric.backward(
        problem.anchors[place], layout, ordered_saved, ordered_grads, problem.margin, weights
    )
    return gradient, None


def _is_symmetric(problem: Problem) -> bool:
    relation = problem.relation
    in_batch = problem.contrasts is None and relation.self_offset == 0
    return in_batch and relation.kind == "classes" and symmetric.fits(problem.anchors)


def _negative_weights(relation: Relation, place: Tensor) -> Tensor | None:
    """Of the ordered rows; None where negatives count alike."""
    return None if relation.negative_bias is None else relation.negative_bias[place].exp()


def _layout(relation: Relation) -> tuple[ClassLayout, Tensor]:
    """The usable rows in class order, and their places in the batch."""
    usable = relation.usable.nonzero().squeeze(1)
    layout = layout_of(relation.anchor[usable])
    return layout, usable[layout.order]
