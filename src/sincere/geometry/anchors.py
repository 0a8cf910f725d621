"""Every sample as an anchor against all others: the sums that the losses are made of, and how each pair is pushed.

The first pass over all pairs adds up e^s over positives and over negatives; the second, over same-class pairs only,
knows those sums and reads off softplus(lse_neg − s) and the sign of SupCon's derivative.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from sincere.checks import check_temperature
from sincere.geometry.directions import Directions, class_sums
from sincere.geometry.pair_pass import Tile, listen, same_class
from sincere.losses.backends.select import row_statistics
from sincere.losses.loss_readings import EPSILON
from sincere.losses.options import settings_from
from sincere.losses.pairs import make_pairs
from sincere.nearest.precision import full_precision

# A cosine counts as pushed apart only if it exceeds the threshold by this much, which float32 can tell.
ROUNDING = 8 * torch.finfo(torch.float32).eps
COLDEST = 1 / 32  # down to here e^s and e^lse · e^(−s) fit float32 for any number of samples


@dataclass(frozen=True)
class AnchorRows:
    """One number for each sample, float64 (n,), in class order; log-sum-exps of nothing are −inf."""

    num_pos: Tensor
    num_neg: Tensor
    lse_pos: Tensor
    lse_neg: Tensor
    lse_all: Tensor
    mean_pos: Tensor
    mean_softplus: Tensor  # of lse_neg − s over positives: SINCERE
    with_margin: Tensor  # of lse_neg + ε − s: ε-SupInfoNCE, less the constant ε
    repelled: Tensor  # positives with ∂ℓ/∂s > 0 under SupCon

    def losses(self) -> dict[str, Tensor]:
        """Each loss of each anchor that has a positive; the set loss needs more than these sums."""
        return {
            "sincere": self.mean_softplus,
            "supcon": self.lse_all - self.mean_pos,
            "supcon_in": self.lse_all - self.lse_pos + self.num_pos.log(),
            "eps_supinfonce": self.with_margin - EPSILON,
            "decoupled": self.lse_neg - self.mean_pos,
        }


class ExponentialSums:
    """Adds up e^s, s = cos/τ, over the positives and over the negatives of every row."""

    def __init__(self, rows: Directions, temperature: float) -> None:
        self.rows, self.temperature = rows, temperature
        self.positives = torch.zeros(rows.rows.shape[0], dtype=torch.float64, device=rows.rows.device)
        self.negatives = torch.zeros_like(self.positives)

    def fresh(self) -> "ExponentialSums":
        """Another one, with sums of zero."""
        return ExponentialSums(self.rows, self.temperature)

    def join(self, other: "ExponentialSums") -> None:
        """Add another one's sums."""
        self.positives += other.positives
        self.negatives += other.negatives

    def add(self, tile: Tile) -> None:
        """Add one tile."""
        e = torch.mul(tile.cosines, 1 / self.temperature, out=tile.scratch).exp_()
        if tile.diagonal:
            e.fill_diagonal_(0)
            if tile.one_class:
                self.positives[tile.block.rows] += e.sum(dim=1)
                return
            same = same_class(self.rows, tile)
            self.positives[tile.block.rows] += torch.where(same, e, 0).sum(dim=1)
            self.negatives[tile.block.rows] += e.masked_fill_(same, 0).sum(dim=1)
            return
        target = self.positives if tile.one_class else self.negatives
        target[tile.block.rows] += e.sum(dim=1)
        target[tile.other.rows] += e.sum(dim=0)


class PositivePairs:
    """Second pass: what each same-class pair adds to the values of its two anchors, whose sums are known by now."""

    def __init__(self, rows: Directions, temperature: float, threshold: Tensor, lse_neg: Tensor | None) -> None:
        self.rows, self.temperature = rows, temperature
        self.given = threshold, lse_neg
        self.threshold = (threshold * temperature + ROUNDING).float()  # of the cosine
        self.repelled = torch.zeros_like(threshold)
        self.margins = (0.0, EPSILON) if lse_neg is not None else ()
        self.factors = [(lse_neg + margin).exp().float() for margin in self.margins] if lse_neg is not None else []
        self.softplus = [torch.zeros_like(threshold) for _ in self.margins]

    def fresh(self) -> "PositivePairs":
        """Another one, with sums of zero."""
        return PositivePairs(self.rows, self.temperature, *self.given)

    def join(self, other: "PositivePairs") -> None:
        """Add another one's sums."""
        self.repelled += other.repelled
        for mine, theirs in zip(self.softplus, other.softplus, strict=True):
            mine += theirs

    def add(self, tile: Tile) -> None:
        """Add one tile; of a block of several classes only the pairs of one class."""
        block, other = tile.block.rows, tile.other.rows
        kept = same_class(self.rows, tile) if tile.diagonal else None
        above = tile.cosines > self.threshold[block].unsqueeze(1)
        self.repelled[block] += (above if kept is None else above & kept).sum(dim=1)
        if kept is None:
            self.repelled[other] += (tile.cosines > self.threshold[other]).sum(dim=0)
        if not self.margins:
            return
        inverse = torch.mul(tile.cosines, -1 / self.temperature, out=tile.scratch).exp_()
        if kept is not None:
            inverse.mul_(kept)  # log1p(0) = 0: no term
        for factor, total in zip(self.factors, self.softplus, strict=True):
            total[block] += (inverse * factor[block].unsqueeze(1)).log1p_().sum(dim=1)
            if kept is None:
                total[other] += (inverse * factor[other]).log1p_().sum(dim=0)


def anchor_rows(rows: Directions, temperature: float, sums: ExponentialSums | None = None) -> AnchorRows:
    """Both passes; the first is left out where `sums` comes from a pass that others listened to as well."""
    check_temperature(temperature)
    if temperature < COLDEST:
        return _cold_rows(rows, temperature)
    if sums is None:
        sums = ExponentialSums(rows, temperature)
        listen(rows, [sums])
    num_pos, num_neg, mean_pos = _counts_and_means(rows, temperature)
    lse_neg, lse_pos = sums.negatives.log(), sums.positives.log()
    lse_all = (sums.negatives + sums.positives).log()
    pairs = PositivePairs(rows, temperature, lse_all - num_pos.log(), lse_neg)
    listen(rows, [pairs], within_only=True)
    softplus, with_margin = (total / num_pos.clamp(min=1) for total in pairs.softplus)
    return AnchorRows(num_pos, num_neg, lse_pos, lse_neg, lse_all, mean_pos, softplus, with_margin, pairs.repelled)


@full_precision()
def _cold_rows(rows: Directions, temperature: float) -> AnchorRows:
    """At a low temperature e^s leaves float32: the losses' own backends keep the row maximum apart."""
    pairs = make_pairs(rows.rows, rows.layout.classes, None, None, settings_from({"temperature": temperature}))
    stats = row_statistics(pairs, "lse_all", "lse_neg", "lse_pos", "mean_pos", "mean_softplus")
    with_margin = row_statistics(pairs, "mean_softplus", margin=EPSILON)["mean_softplus"]
    num_pos, num_neg, mean_pos = _counts_and_means(rows, temperature)
    lse_pos, lse_neg, lse_all = (stats[name].double() for name in ("lse_pos", "lse_neg", "lse_all"))
    above = PositivePairs(rows, temperature, lse_all - num_pos.log(), None)
    listen(rows, [above], within_only=True)
    softplus = stats["mean_softplus"].double()
    return AnchorRows(
        num_pos, num_neg, lse_pos, lse_neg, lse_all, mean_pos, softplus, with_margin.double(), above.repelled
    )


def _counts_and_means(rows: Directions, temperature: float) -> tuple[Tensor, Tensor, Tensor]:
    """|P|, |N| and the mean logit of the positives, from the sum of each class."""
    sizes = rows.layout.row_sizes.double()
    num_pos, num_neg = sizes - 1, rows.rows.shape[0] - sizes
    totals = class_sums(rows.rows, rows.layout.classes, classes=rows.layout.sizes.shape[0])[rows.layout.classes]
    z = rows.rows.double()
    return num_pos, num_neg, (z * (totals - z)).sum(dim=1) / (temperature * num_pos.clamp(min=1))
