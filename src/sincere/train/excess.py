"""The floor of a batch, from its class counts alone: what a loss is compared with while training."""

from functools import lru_cache

import torch

from sincere.losses.floors import balanced_floors, simplex_floors, simplex_gap
from sincere.train.config import LossConfig

HAVE_A_FLOOR = ("sincere", "supcon", "eps_supinfonce", "decoupled", "set_nce", "infonce")


def has_floor(loss: LossConfig) -> bool:
    """Is there a value that training leads this loss down to? Cosine similarity and the mean have one; where classes
    compete alike, the mean over classes has.

    A class that is ignored would have to be left out of the counts; labels are never negative, so −1 ignores none.
    """
    reduction = "class_mean" if loss.options.get("class_balanced") else "mean"
    usual = {"similarity": "cosine", "ignore_label": -1}
    return (
        loss.name in HAVE_A_FLOOR
        and all(loss.options.get(name, value) == value for name, value in usual.items())
        and loss.options.get("reduction", "mean") == reduction
    )


def batch_floor(loss: LossConfig, counts: tuple[int, ...], *, views: int, temperature: float) -> float:
    """The loss at the regular simplex of a batch with so many samples of each class, `views` rows each."""
    if loss.name == "infonce":  # every sample is a class
        counts = (1,) * sum(counts)
    rows = [count * views for count in counts if count]
    if loss.options.get("class_balanced"):
        return _balanced_floor(loss, rows, temperature)
    total, gap = sum(rows), simplex_gap(len(rows), temperature)
    epsilon = float(loss.options.get("epsilon", 0.25))
    anchors, value = 0, 0.0
    for mine in rows:
        if mine > 1 and (loss.name != "decoupled" or mine < total):
            anchors += mine
            value += mine * _anchor_floor(loss.name, mine - 1, total - mine, gap, epsilon)
    return value / anchors if anchors else 0.0


def _balanced_floor(loss: LossConfig, rows: list[int], temperature: float) -> float:
    """The same where classes compete alike; 0 where no anchor counts."""
    if not any(mine > 1 for mine in rows) or (loss.name == "decoupled" and len(rows) == 1):
        return 0.0
    return balanced_floors(sum(rows), len(rows), temperature, float(loss.options.get("epsilon", 0.25)))[loss.name]


@lru_cache(maxsize=1 << 16)  # classes of a few sizes come again in every batch
def _anchor_floor(name: str, positives: int, negatives: int, gap: float, epsilon: float) -> float:
    floors = simplex_floors(torch.tensor([positives]), torch.tensor([negatives]), gap, epsilon)
    return float(floors["sincere" if name == "infonce" else name])
