"""Claims 14 to 16: SupCon against cross-entropy and self-supervision, its two forms, and the number of positives."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sincere.claims.claim import Claim, Conditions, Outcome
from sincere.claims.experiments import Experiment, cifar, few_digits
from sincere.claims.objectives import Side, accuracy, contrastive, difference, objective, rows_of
from sincere.claims.palette import COLOURS
from sincere.claims.pictures import draw_intervals
from sincere.claims.record import Measured, Verdict
from sincere.claims.statistics import with_fisher_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SOURCE = "Khosla et al. 2020, arXiv 2004.11362"
POSITIVES = (1, 2, 4, 8)
FAST_POSITIVES = (1, 8)  # the ends alone, in half of the time; what lies between is for the other forms
# Of cross-entropy on CIFAR, usual for it. At the contrastive losses' 0.5 its logits, of no fixed length, blow up.
ENTROPY_RATE = 0.1


def experiment(conditions: Conditions) -> Experiment:
    return cifar(conditions, 10) if conditions.on_cifar else few_digits(conditions)


def against_baselines(conditions: Conditions) -> Outcome:
    """SupCon, cross-entropy and InfoNCE without labels, on one encoder."""
    one = experiment(conditions)
    supcon = objective(one, "supcon", "SupCon", loss=contrastive("supcon", one))
    rate = ENTROPY_RATE if conditions.on_cifar else one.plain.optimizer.lr
    descent = replace(one.plain.optimizer, lr=rate)
    entropy = objective(one, "cross-entropy", "cross-entropy", objective="cross_entropy", optimizer=descent)
    infonce = objective(one, "infonce", "InfoNCE without labels", loss=contrastive("infonce", one))
    printed = {"SupCon": "96.0", "cross-entropy": "95.0", "InfoNCE without labels": "93.6"}
    printed = printed if conditions.on_cifar else {}
    differences = (difference(supcon, entropy, one.probe), difference(supcon, infonce, one.probe))
    sides = (supcon, entropy, infonce)
    accuracies = [accuracy(side, one.probe, paper=printed.get(side.title)) for side in sides]
    verdict, reason = judged_against_baselines(*differences)
    return Outcome(
        verdict,
        reason,
        f"{one.title}; linear classifier on frozen features for all"
        + (f"; cross-entropy at a learning rate of {rate:g}, where it trains" * conditions.on_cifar),
        (*differences, *accuracies),
        tuple(rows_of(sides, one.seeds, ("knn", one.probe))),
        lambda figure: draw_intervals(figure, accuracies, "top-1 of a linear classifier, % (95 % interval)"),
    )


def judged_against_baselines(entropy: Measured, infonce: Measured) -> tuple[Verdict, str]:
    """SupCon above both, each with its whole interval."""
    better = [above_zero(entropy), above_zero(infonce)]
    verdict: Verdict = "reproduced" if all(better) else "partly" if any(better) else "not reproduced"
    told = [("" if found else "not ") + "shown above " + who for found, who in zip(better, NAMES, strict=True)]
    return verdict, f"Criterion: the differences' intervals lie above zero. SupCon is {' and '.join(told)}."


NAMES = ("cross-entropy", "self-supervised InfoNCE")


def above_zero(measured: Measured) -> bool:
    return measured.low is not None and measured.low > 0


def out_against_in(conditions: Conditions) -> Outcome:
    """The sum over positives outside the logarithm against inside of it."""
    one = experiment(conditions)
    outside = objective(one, "supcon", "L_out", loss=contrastive("supcon", one))
    inside = objective(one, "supcon-in", "L_in", loss=contrastive("supcon", one, form="in"))
    change = difference(outside, inside, one.probe, paper="11.3 (ImageNet)")
    accuracies = [accuracy(side, one.probe) for side in (outside, inside)]
    better = above_zero(change)
    worse = change.high is not None and change.high < 0
    verdict: Verdict = "reproduced" if better else "not reproduced"
    told = "It does." if better else "It lies below zero." if worse else "It holds zero: no difference is shown."
    return Outcome(
        verdict,
        f"Criterion: the difference's interval lies above zero. {told}",
        f"{one.title}; linear classifier on frozen features",
        (change, *accuracies),
        tuple(rows_of((outside, inside), one.seeds, ("knn", one.probe))),
        lambda figure: draw_intervals(figure, accuracies, "top-1 of a linear classifier, % (95 % interval)"),
    )


class LimitedPositives(nn.Module):
    """SupCon with at most `positives` positives an anchor; the rest of its class is neither pulled nor pushed.

    The first is the sample's other view, so that 1 is self-supervised InfoNCE without its false negatives. The next
    are those that follow in the batch, whose order is random.
    """

    def __init__(self, *, temperature: float, positives: int) -> None:
        super().__init__()
        self.temperature, self.positives = temperature, positives

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        b, views, _ = embeddings.shape
        z = F.normalize(embeddings.transpose(0, 1).flatten(0, 1).float(), dim=1)  # view after view
        classes, sample = labels.repeat(views), torch.arange(b, device=labels.device).repeat(views)
        kept = self.kept(classes, sample)
        other = classes.unsqueeze(0) != classes.unsqueeze(1)
        logits = z @ z.T / self.temperature
        lse = torch.where(kept | other, logits, -torch.inf).logsumexp(dim=1)
        mean = torch.where(kept, logits, 0.0).sum(dim=1) / kept.sum(dim=1).clamp(min=1)
        return torch.where(kept.any(dim=1), lse - mean, 0.0).sum() / kept.any(dim=1).sum().clamp(min=1)

    def kept(self, classes: Tensor, sample: Tensor) -> Tensor:
        """Who is a positive of whom, bool (n, n): another view first, then the next of the class around the batch."""
        n = classes.shape[0]
        place = torch.arange(n, device=classes.device)
        ahead = (place.unsqueeze(0) - place.unsqueeze(1)) % n
        ahead = torch.where(sample.unsqueeze(0) == sample.unsqueeze(1), 0, ahead)  # other views come first
        allowed = (classes.unsqueeze(0) == classes.unsqueeze(1)) & ~torch.eye(n, dtype=torch.bool, device=place.device)
        rank = torch.where(allowed, ahead, n).argsort(dim=1, stable=True).argsort(dim=1, stable=True)
        return allowed & (rank < self.positives)


def more_positives(conditions: Conditions) -> Outcome:
    """Accuracy over the number of positives an anchor has."""
    one = experiment(conditions)
    counts = FAST_POSITIVES if conditions.form == "fast" else POSITIVES
    name = f"{LimitedPositives.__module__}:{LimitedPositives.__name__}"
    sides = [
        objective(one, f"positives-{count}", f"{count} positive{'s' if count > 1 else ''}",
                  loss=contrastive(name, one, positives=count))
        for count in counts
    ]  # fmt: skip
    accuracies = [accuracy(side, one.probe) for side in sides]
    change = difference(sides[-1], sides[0], one.probe, paper="above 0")
    slope = rank_correlation(counts, sides, one.probe) if len(counts) > 2 else None
    verdict, reason = judged_positives(change, slope)
    return Outcome(
        verdict,
        reason,
        f"{one.title}; at most k positives an anchor, the other view first, the rest of the class left out",
        (change, *([] if slope is None else [slope]), *accuracies),
        tuple(rows_of(sides, one.seeds, ("knn", one.probe))),
        lambda figure: _draw_positives(figure, counts, accuracies),
    )


def rank_correlation(counts: Sequence[int], sides: Sequence[Side], method: str) -> Measured:
    """Spearman's, between the number of positives and the accuracy of each run."""
    from scipy.stats import spearmanr

    pairs = [(count, top1) for count, side in zip(counts, sides, strict=True) for top1 in side.top1(method)]
    return with_fisher_interval(
        "rank correlation of positives and accuracy", float(spearmanr(*zip(*pairs, strict=True)).statistic), len(pairs)
    )


def judged_positives(change: Measured, slope: Measured | None) -> tuple[Verdict, str]:
    """By the ends, and by the rise between them where there is something between."""
    better = f"{POSITIVES[-1]} positives are better than one"
    if slope is None:
        holds = above_zero(change)
        told = "It holds" if holds else "It does not hold"
        return "reproduced" if holds else "not reproduced", f"Criterion: {better}, over the whole interval. {told}."
    both = [above_zero(change), above_zero(slope)]
    verdict: Verdict = "reproduced" if all(both) else "partly" if any(both) else "not reproduced"
    first, second = ("holds" if found else "does not hold" for found in both)
    return verdict, (
        f"Criteria: {better}, and accuracy rises with the number of positives, both over the whole interval. "
        f"The first {first}, the second {second}."
    )


def _draw_positives(figure: "Figure", counts: Sequence[int], accuracies: list[Measured]) -> None:
    label = "top-1 of a linear classifier, % (95 % interval)"
    if len(counts) == 2:  # a line between two points would claim what lies between
        draw_intervals(figure, accuracies, label)
        return
    axis = figure.subplots()
    values = [one.value for one in accuracies]
    reach = [
        [one.value - one.ends[0] for one in accuracies],
        [one.ends[1] - one.value for one in accuracies],
    ]
    axis.errorbar(counts, values, yerr=reach, marker="o", capsize=4, color=COLOURS["supcon"])
    axis.set_xscale("log", base=2)
    axis.set_xticks(counts, [str(count) for count in counts])
    axis.set(xlabel="positives of an anchor, at most", ylabel=label)


SUPCON_TRAINING = (
    Claim(
        14,
        "supcon-against-baselines",
        f"{SOURCE}, Table 2",
        "SupCon's features are better than cross-entropy's and than self-supervised ones",
        "CIFAR-10: SupCon 96.0, cross-entropy 95.0, SimCLR 93.6",
        against_baselines,
        ("cifar10",),
        decisive="^SupCon − ",
    ),
    Claim(
        15,
        "out-against-in",
        f"{SOURCE}, Section 3.2.2",
        "L_out, with the sum over positives outside the logarithm, is better than L_in",
        "ImageNet top-1: 78.7 against 67.4",
        out_against_in,
        ("cifar10",),
    ),
    Claim(
        16,
        "more-positives",
        f"{SOURCE}, ablation of the number of positives",
        "more positives for each anchor give better features",
        "accuracy rises with the number of positives, from the other view alone on",
        more_positives,
        ("cifar10",),
    ),
)
