"""Losses of a critic whose scores are given: rows of positives' and negatives' scores in, one value per row out."""

from collections.abc import Callable

import torch
from torch import Tensor

import sincere.functional as SF
from sincere.checks import check_choice

CRITIC_LOSSES: dict[str, Callable[..., Tensor]] = {"infonce": SF.sincere, "sincere": SF.sincere, "supcon": SF.supcon}


def critic_loss(name: str, positives: Tensor, negatives: Tensor, *, temperature: float = 1.0) -> Tensor:
    """The library's loss where row i is an anchor with the scores log f of its own positives and negatives, (rows,).

    Through a similarity that is a given matrix: each row may have contrasts of its own. "infonce" looks at the first
    positive alone.
    """
    check_choice("loss", name, CRITIC_LOSSES)
    if name == "infonce":
        positives = positives[:, :1]
    scores = torch.cat([positives, negatives], dim=1)
    labels = torch.zeros(scores.shape[0], dtype=torch.int64)
    contrast_labels = torch.arange(scores.shape[1]).ge(positives.shape[1]).long()
    return CRITIC_LOSSES[name](
        scores.new_zeros(scores.shape[0], 1),
        labels,
        scores.new_zeros(scores.shape[1], 1),
        contrast_labels,
        similarity=lambda anchors, contrasts: scores,
        temperature=temperature,
        reduction="none",
        backend="dense",
    )
