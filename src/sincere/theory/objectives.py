"""The losses by name, as functions of free points."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

import sincere.functional as SF
from sincere.checks import check_choice
from sincere.losses.floors import simplex_floors, simplex_gap
from sincere.types import Reduction, SimilarityName

EPSILON = 0.25  # the margin of ε-SupInfoNCE, its function's default
LOSSES: dict[str, Callable[..., Tensor]] = {
    "sincere": SF.sincere,
    "supcon": SF.supcon,
    "supcon_in": partial(SF.supcon, form="in"),
    "eps_supinfonce": partial(SF.eps_supinfonce, epsilon=EPSILON),
    "decoupled": SF.decoupled,
    "set_nce": SF.set_nce,
}
CHOICES = (*LOSSES, "cross_entropy")
REDUCTIONS = ("mean", "class_mean", "sum")  # to one number, which can be minimised and has a value at the simplex


def point_loss(
    name: str,
    labels: Tensor,
    *,
    temperature: float,
    similarity: SimilarityName = "dot",
    reduction: Reduction = "mean",
    class_balanced: bool = False,
) -> Callable[[Tensor], Tensor]:
    """A contrastive loss as a function of the points alone.

    By dense matrices, which are fastest at a few hundred points and can be differentiated any number of times.
    """
    check_choice("loss", name, LOSSES)
    return partial(
        LOSSES[name],
        labels=labels,
        temperature=temperature,
        similarity=similarity,
        reduction=reduction,
        class_balanced=class_balanced,
        backend="dense",
    )


def simplex_value(
    name: str,
    counts: tuple[int, ...],
    temperature: float,
    reduction: Reduction = "mean",
    class_balanced: bool = False,
) -> float:
    """The loss at the regular simplex with collapsed classes. It is the least value possible if classes are equal, and
    for unequal classes with `class_balanced` and the mean over classes."""
    check_choice("loss", name, LOSSES)
    check_choice("reduction", reduction, REDUCTIONS)
    members = torch.tensor([count for count in counts if count > 1])
    if not len(members) or (name == "decoupled" and len(counts) == 1):  # which has no negative
        return 0.0
    gap = simplex_gap(len(counts), temperature)
    own = torch.full_like(members, sum(counts), dtype=torch.float64) / len(counts) if class_balanced else members
    floors = simplex_floors(own - 1, sum(counts) - own, gap, EPSILON)[name]
    if reduction == "class_mean":
        return float(floors.mean())
    total = float((floors * members).sum())
    return total if reduction == "sum" else total / int(members.sum())
