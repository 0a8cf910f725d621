"""Claim 2: what the gradient does to positives, against Eq. 13 and 14 (SINCERE, Section 3.3)."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

import sincere.functional as SF
from sincere.claims.claim import Claim, Conditions, Outcome
from sincere.claims.identities import ROUNDING
from sincere.claims.palette import COLOURS, GREY, TITLES
from sincere.claims.record import Measured, Verdict
from sincere.claims.sincere_losses import SECTION
from sincere.theory import GradientRanges, RepulsionByPositives, RepulsionPoint, gradient_ranges, repulsion_by_positives

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BOTH = ("sincere", "supcon")


def gradient(conditions: Conditions) -> Outcome:
    """Coefficients of positives against Eq. 13 and 14, and repulsion as |P| grows."""
    batches = 20 if conditions.full else 10
    positives = (1, 2, 5, 10) if conditions.full else (1, 2, 5)
    temperatures = (0.05, 0.1, 0.5, 1.0) if conditions.full else (0.05, 0.1, 0.5)
    found = [
        gradient_ranges(BOTH, positives=size, temperature=temperature, batches=batches, seed=conditions.seed)
        for size in positives
        for temperature in temperatures
    ]
    growth = repulsion_by_positives(
        ("supcon", "sincere"),
        positives=(1, 2, 4, 8, 16, 32, 64) if conditions.full else (1, 2, 4, 8, 16, 32),
        batches=50 if conditions.full else 20,
        seed=conditions.seed,
    )
    whole = {
        loss: max(
            gradient_gap(loss, size, temperature, batches, conditions.seed)
            for size in positives
            for temperature in temperatures
        )
        for loss in BOTH
    }
    verdict, reason = judge_gradient(found, growth, whole)
    pairs = sum(one.pairs for one in found)
    return Outcome(
        verdict,
        reason,
        f"{len(found)} settings (|P| in {positives}, τ in {temperatures}) of {batches} random batches each, from "
        f"unrelated "
        f"embeddings to collapsed classes, {pairs:,} pairs; repulsion at |N| = {growth.negatives}, τ = "
        f"{growth.temperature:g}, {growth.batches} batches; float64",
        (*_range_figures(found, pairs, whole), *_growth_figures(growth)),
        (*_range_rows(found), *({"kind": "by |P|", **point.__dict__} for point in growth.points)),
        lambda figure: _draw_gradient(figure, found, growth),
    )


def judge_gradient(
    found: Sequence[GradientRanges], growth: RepulsionByPositives, whole: Mapping[str, float]
) -> tuple[Verdict, str]:
    """The equations, the ranges, and the growth."""
    tests = {
        "autograd equals Eq. 13 and Eq. 14 to rounding": all(
            max(worst(found, loss), whole[loss]) <= ROUNDING for loss in BOTH
        ),
        "|P| times SINCERE's coefficient lies in [−1, 0] for every pair and SupCon's in [−1, |P| − 1]": all(
            one.of(loss).within_limits for one in found for loss in BOTH
        ),
        "SINCERE pushes no pair of a class apart and SupCon some": _repels(found, "sincere")
        == 0
        < _repels(found, "supcon"),
        "SupCon's push on an anchor's positives grows with every step of |P|, beyond two standard errors between the "
        "ends": grows(growth.of("supcon")),
    }
    held = sum(tests.values())
    verdict: Verdict = "reproduced" if held == len(tests) else "partly" if held else "not reproduced"
    failed = "".join(f" Not so: {name}." for name, holds in tests.items() if not holds)
    points = growth.of("supcon")
    peak = max(points, key=lambda point: point.largest)
    falls = (
        f" What grows is the sum over an anchor's positives: the largest single coefficient seen is {peak.largest:.2f} "
        f"at |P| = {peak.positives} and falls to {points[-1].largest:.2f}, since it shares its softmax with more "
        f"positives."
    )
    return verdict, "Criteria: " + "; ".join(tests) + "." + failed + (falls if peak is not points[-1] else "")


def gradient_as_written(loss: str, z: Tensor, labels: Tensor, t: int, temperature: float) -> Tensor:
    """The gradient with respect to z_t of Eq. 13 (SINCERE) or Eq. 14 (SupCon), all other embeddings held still."""
    others = torch.arange(len(z)) != t
    members, noise = z[others & (labels == labels[t])], z[labels != labels[t]]
    e_p, e_n = torch.exp(members @ z[t] / temperature), torch.exp(noise @ z[t] / temperature)
    pull = e_n @ noise
    if loss == "supcon":
        total = e_p.sum() + e_n.sum()
        return ((e_p / total - 1 / len(members)) @ members + pull / total) / temperature
    totals = e_p + e_n.sum()
    return ((e_p / totals - 1) @ members + pull * (1 / totals).sum()) / (temperature * len(members))


def gradient_gap(loss: str, positives: int, temperature: float, batches: int, seed: int) -> float:
    """Largest entry of |automatic differentiation − the equation| over the anchors of random batches, times τ."""
    labels, largest = torch.arange(4).repeat_interleave(positives + 1), 0.0
    generator = torch.Generator().manual_seed(seed)
    for _ in range(batches):
        z = F.normalize(torch.randn(len(labels), 8, dtype=torch.float64, generator=generator), dim=1)
        for t in range(0, len(labels), positives + 1):
            anchor, others = z[t : t + 1].clone().requires_grad_(), torch.arange(len(z)) != t
            function = SF.sincere if loss == "sincere" else SF.supcon
            value = function(
                anchor, labels[t : t + 1], z[others], labels[others], similarity="dot", temperature=temperature
            )
            (found,) = torch.autograd.grad(value, anchor)
            gap = found[0] - gradient_as_written(loss, z, labels, t, temperature)
            largest = max(largest, temperature * float(gap.abs().max()))
    return largest


def worst(found: Sequence[GradientRanges], loss: str) -> float:
    """Largest difference to the equation of a positive's coefficient."""
    differences = []
    for one in found:
        of_loss = one.of(loss)
        assert of_loss.equation_difference is not None
        differences.append(of_loss.equation_difference)
    return max(differences)


def grows(points: Sequence[RepulsionPoint]) -> bool:
    """Every step of |P| pushes more, and the last more than the first by over two standard errors."""
    rises = all(after.push > before.push for before, after in pairwise(points))
    first, last = points[0], points[-1]
    return rises and last.push - first.push > 2 * (last.push_error**2 + first.push_error**2) ** 0.5


def _repels(found: Sequence[GradientRanges], loss: str) -> float:
    return max(one.of(loss).positive_share for one in found)


def _range_figures(found: Sequence[GradientRanges], pairs: int, whole: Mapping[str, float]) -> list[Measured]:
    made = [
        Measured(
            "largest |autograd − Eq. 13|",
            max(worst(found, "sincere"), whole["sincere"]),
            n=f"{pairs:,} pairs",
            paper="0",
        ),
        Measured(
            "pairs of a class pushed apart by SINCERE, %",
            100 * _repels(found, "sincere"),
            n=f"{pairs:,} pairs",
            paper="0",
        ),
        Measured(
            "… by SupCon, % in its worst setting", 100 * _repels(found, "supcon"), n=f"{pairs:,} pairs", paper="some"
        ),
    ]
    for loss, allowed in (("sincere", "[−1, 0]"), ("supcon", "[−1, |P| − 1]")):
        least, largest = min(one.of(loss).least for one in found), max(one.of(loss).largest for one in found)
        name = f"{TITLES[loss]}: |P| × coefficient"
        made += [
            Measured(f"{name}, least", least, paper=allowed),
            Measured(f"{name}, largest", largest + 0.0, paper=allowed),
        ]
    made.append(
        Measured(
            "largest |autograd − Eq. 14|", max(worst(found, "supcon"), whole["supcon"]), n=f"{pairs:,} pairs", paper="0"
        )
    )
    return made


def _growth_figures(growth: RepulsionByPositives) -> list[Measured]:
    made = []
    points = growth.of("supcon")
    for point in (points[1], points[-1]):
        half = 1.96 * point.push_error
        name = f"SupCon's push at |P| = {point.positives}"
        made.append(
            Measured(name, point.push, point.push - half, point.push + half, f"{growth.batches} batches", "grows")
        )
    return made


def _range_rows(found: Sequence[GradientRanges]) -> list[dict[str, object]]:
    return [
        {
            "kind": "range",
            "loss": of_loss.loss,
            "positives": one.positives,
            "temperature": one.temperature,
            "pairs": one.pairs,
            "least": of_loss.least,
            "largest": of_loss.largest,
            "share": of_loss.positive_share,
            "equation_difference": of_loss.equation_difference,
        }
        for one in found
        for of_loss in one.ranges
    ]


def _draw_gradient(figure: "Figure", found: Sequence[GradientRanges], growth: RepulsionByPositives) -> None:
    left, right = figure.subplots(1, 2)
    sizes = sorted({one.positives for one in found})
    for shift, loss in ((-0.15, "sincere"), (0.15, "supcon")):
        for place, size in enumerate(sizes):
            chosen = [one.of(loss) for one in found if one.positives == size]
            low, high = min(one.least for one in chosen), max(one.largest for one in chosen)
            limits = chosen[0].limits
            assert limits is not None
            label = TITLES[loss] if place == 0 else None
            left.plot([place + shift] * 2, limits, color=COLOURS[loss], linewidth=9, alpha=0.25, solid_capstyle="butt")
            left.plot([place + shift] * 2, [low, high], color=COLOURS[loss], linewidth=2.5, label=label)
    left.axhline(0, color=GREY, linewidth=0.8)
    left.set(xlabel="|P|", ylabel="|P| × coefficient of a positive", title="Seen (line) and allowed (band)")
    left.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    left.annotate("above 0: pushed apart", (-0.4, 0.12), fontsize=8, color=GREY)
    left.legend(frameon=False, loc="upper left")
    for loss in ("supcon", "sincere"):
        points = growth.of(loss)
        places, pushes = [p.positives for p in points], [p.push for p in points]
        errors = [1.96 * p.push_error for p in points]
        right.errorbar(places, pushes, yerr=errors, color=COLOURS[loss], marker="o", capsize=3, label=TITLES[loss])
    right.set(
        xscale="log",
        xlabel="|P|",
        ylabel="push on an anchor's positives, summed",
        title=f"|N| = {growth.negatives}, τ = {growth.temperature:g}, {growth.batches} batches",
    )
    right.set_xticks([p.positives for p in growth.of("supcon")], [str(p.positives) for p in growth.of("supcon")])
    right.minorticks_off()
    right.legend(frameon=False)


GRADIENTS = (
    Claim(
        2,
        "gradient",
        f"{SECTION}, Eq. 13 and 14, Section 3.3",
        "SINCERE never pushes two members of a class apart; SupCon can, and more so as the class grows",
        "multiplier of a positive in [−1, 0] for SINCERE, in [−1/|P|, 1 − 1/|P|] for SupCon",
        gradient,
        decisive="pushed apart by SINCERE|^… by SupCon",
    ),
)
