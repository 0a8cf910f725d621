"""What each loss says of a batch, beside its floor."""

from dataclasses import dataclass

import torch
from torch import Tensor

from sincere.losses import decoupled, sincere, supcon
from sincere.losses.backends.row_blocks import row_blocks
from sincere.losses.backends.select import row_statistics
from sincere.losses.backends.set_rows import set_values
from sincere.losses.class_balance import per_anchor_balanced, statistics_wanted
from sincere.losses.floors import balanced_floors, simplex_floors, simplex_gap
from sincere.losses.pairs import Pairs
from sincere.losses.reduction import reduce_over_anchors
from sincere.losses.statistics import Combination, valid_anchors

LOSSES = ("sincere", "supcon", "supcon_in", "eps_supinfonce", "decoupled", "set_nce")
ROUNDING = 2  # machine epsilons of a log-sum-exp within which a logit counts as equal to it
EPSILON = 0.25  # the margin at which ε-SupInfoNCE is read, its function's default
COMBINATIONS = {  # of those that class_balanced=True knows
    "sincere": sincere.COMBINATION,
    "supcon": supcon.OUT,
    "supcon_in": supcon.IN,
    "eps_supinfonce": Combination(mean_softplus=1, margin=EPSILON, constant=-EPSILON),
    "decoupled": decoupled.COMBINATION,
}


@dataclass(frozen=True)
class LossReading:
    """One loss on one batch. The floor is its value at the regular simplex; None if the loss has no floor."""

    value: float
    floor: float | None

    @property
    def excess(self) -> float | None:
        """Value above the floor: how much can still be gained."""
        return None if self.floor is None else self.value - self.floor


def read_rows(pairs: Pairs, set_loss: bool) -> dict[str, Tensor]:
    """Every loss and count of every anchor, by the losses' own backend: name → (n,)."""
    stats = row_statistics(pairs, "lse_all", "lse_neg", "lse_pos", "mean_pos", "mean_softplus")
    with_margin = row_statistics(pairs, "mean_softplus", margin=EPSILON)["mean_softplus"]
    num_pos = stats.weight_sum.long()
    log_pos = stats.weight_sum.clamp(min=1).log()  # not of num_pos: the logarithm of an integer is float32
    rows = {
        "num_pos": num_pos,
        "num_neg": stats.num_neg,
        "repelled": _repelled_by_supcon(pairs, stats["lse_all"] - log_pos),
        "sincere": stats["mean_softplus"],
        "supcon": stats["lse_all"] - stats["mean_pos"],
        "supcon_in": stats["lse_all"] - stats["lse_pos"] + stats.weight_sum.log(),
        "eps_supinfonce": with_margin - EPSILON,
        "decoupled": stats["lse_neg"] - stats["mean_pos"],
    }
    return rows | {"set_nce": set_values(pairs, "auto")[0]} if set_loss else rows


def _repelled_by_supcon(pairs: Pairs, threshold: Tensor) -> Tensor:
    """How many positives of each anchor have softmax_A(s) > 1/|P|, that is s > lse_all − log|P| (Eq. 14).

    The excess must be more than rounding: for a class that has collapsed to a point, the two sides differ only by what
    the negatives add, and the last digit would decide.
    """
    threshold = threshold + ROUNDING * torch.finfo(threshold.dtype).eps * threshold.abs().clamp(min=1)
    counts = torch.zeros_like(threshold, dtype=torch.int64)
    for rows in row_blocks(pairs.relation):
        above = pairs.logits(rows) > threshold[rows].unsqueeze(1)
        counts[rows] = (above & pairs.relation.weights(rows)).sum(dim=1)
    return counts


def loss_readings(
    pairs: Pairs, rows: dict[str, Tensor], classes: int, temperature: float | None
) -> dict[str, LossReading]:
    """Values by the library's own mean; floors for cosine similarity only, because they need its range."""
    has_positive = rows["num_pos"] > 0
    floors: dict[str, Tensor] = {}
    if temperature is not None and bool(has_positive.any()):
        num_pos, num_neg = rows["num_pos"][has_positive], rows["num_neg"][has_positive]
        floors = simplex_floors(num_pos, num_neg, simplex_gap(classes, temperature), EPSILON)
    readings = {}
    for name in (name for name in LOSSES if name in rows):
        valid = has_positive & (rows["num_neg"] > 0) if name == "decoupled" else has_positive
        value = float(reduce_over_anchors(rows[name], valid, pairs))
        floor = floors[name][valid[has_positive]] if name in floors else torch.empty(0)
        readings[name] = LossReading(value, float(floor.mean()) if floor.numel() else None)
    return readings


def balanced_readings(pairs: Pairs, classes: int, temperature: float | None) -> dict[str, LossReading]:
    """The same where classes compete alike, with the mean over classes: `pairs` of a batch made so."""
    labelled = int(pairs.relation.labelled.sum())
    floors: dict[str, float] = {}
    if temperature is not None and labelled > classes:
        floors = balanced_floors(labelled, classes, temperature, EPSILON)
    readings = {}
    for name, combination in COMBINATIONS.items():
        stats = row_statistics(pairs, *statistics_wanted(combination), margin=combination.margin)
        valid = valid_anchors(combination, stats)
        value = float(reduce_over_anchors(per_anchor_balanced(combination, stats, pairs.relation), valid, pairs))
        readings[name] = LossReading(value, floors.get(name) if bool(valid.any()) else None)
    return readings
