"""Claim 1: with one positive SINCERE is InfoNCE (SINCERE, Section 3.1)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

import sincere.functional as SF
from sincere.claims.claim import Claim, Conditions, Outcome
from sincere.claims.palette import COLOURS, GREY, TITLES
from sincere.claims.record import Measured, Verdict
from sincere.claims.sincere_losses import SECTION

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-12  # float64 sums of some hundred terms of size 1/τ are off by less
LOSSES: dict[str, Callable[..., Tensor]] = {
    "sincere": SF.sincere,
    "supcon": SF.supcon,
    "set_nce": SF.set_nce,
    "decoupled": SF.decoupled,  # the one that must differ, or this comparison could not fail
}


@dataclass(frozen=True)
class OnePositive:
    """One loss on one batch in which every anchor has one positive, against InfoNCE as it is written."""

    loss: str
    samples: int
    dim: int
    temperature: float
    infonce: float
    value: float
    gradient_difference: float

    @property
    def difference(self) -> float:
        return abs(self.value - self.infonce)


def sincere_is_infonce(conditions: Conditions) -> Outcome:
    """Value and gradient on random batches of two views."""
    sizes = ((4, 2), (16, 8), (64, 32)) + (((256, 128),) if conditions.full else ())
    temperatures, draws = (0.05, 0.1, 0.5, 1.0), 10 if conditions.full else 3
    found = [
        one
        for samples, dim in sizes
        for temperature in temperatures
        for draw in range(draws)
        for one in one_positive(samples, dim, temperature, conditions.seed + draw)
    ]
    batches = len(sizes) * len(temperatures) * draws
    verdict, reason = judge_one_positive(found)
    rows = [{**one.__dict__, "difference": one.difference} for one in found]
    return Outcome(
        verdict,
        reason,
        f"{batches} random batches of two views, {sizes[0][0]} to {sizes[-1][0]:,} samples in {sizes[0][1]} to "
        f"{sizes[-1][1]} dimensions, τ from {temperatures[0]} to {temperatures[-1]:g}, float64; InfoNCE is written out "
        "as cross-entropy over the other views",
        (
            *(_largest(found, loss, batches) for loss in LOSSES),
            Measured(
                "SINCERE: largest gap of a gradient's entry", worst_gradient(found, "sincere"), n=f"{batches} batches"
            ),
        ),
        tuple(rows),
        lambda figure: _draw_one_positive(figure, found),
    )


def infonce_as_written(views: Tensor, temperature: float) -> Tensor:
    """Eq. 1 with the mean over all 2b anchors: classify the other view among all others, (b, 2, d) → scalar."""
    z = F.normalize(views.flatten(0, 1), dim=1)
    logits = (z @ z.T / temperature).masked_fill(torch.eye(len(z), dtype=torch.bool), -torch.inf)
    return F.cross_entropy(logits, torch.arange(len(z)) ^ 1)  # views of a sample are neighbours: 0 and 1, 2 and 3


def one_positive(samples: int, dim: int, temperature: float, seed: int) -> list[OnePositive]:
    """Every loss on one batch."""
    generator = torch.Generator().manual_seed(seed)
    views = torch.randn(samples, 2, dim, dtype=torch.float64, generator=generator)
    views[:, 1] = views[:, 0] + 0.5 * views[:, 1]
    views.requires_grad_()
    written = infonce_as_written(views, temperature)
    (of_written,) = torch.autograd.grad(written, views)
    found = []
    for name, loss in LOSSES.items():
        value = loss(views, torch.arange(samples), temperature=temperature)
        (gradient,) = torch.autograd.grad(value, views)
        gap = float((gradient - of_written).abs().max())
        found.append(OnePositive(name, samples, dim, temperature, float(written.detach()), float(value.detach()), gap))
    return found


def worst_value(found: Sequence[OnePositive], loss: str) -> float:
    return max(one.difference for one in found if one.loss == loss)


def worst_gradient(found: Sequence[OnePositive], loss: str) -> float:
    return max(one.gradient_difference for one in found if one.loss == loss)


def judge_one_positive(found: Sequence[OnePositive]) -> tuple[Verdict, str]:
    """Equal to rounding in value and gradient, while the decoupled loss differs visibly."""
    criteria = (
        f"Criteria: value and gradient of SINCERE equal InfoNCE's to {ROUNDING:.0e} on every batch; the decoupled "
        f"loss, "
        "which leaves the positive out of the denominator, differs by more than 0.01 somewhere."
    )
    same_value = worst_value(found, "sincere") <= ROUNDING
    same_gradient = worst_gradient(found, "sincere") <= ROUNDING
    told_apart = worst_value(found, "decoupled") > 0.01
    if same_value and same_gradient and told_apart:
        return "reproduced", criteria
    wrong = " The values differ." * (not same_value) + " The gradients differ." * (not same_gradient)
    wrong += " The comparison does not tell the decoupled loss apart." * (not told_apart)
    return ("partly" if same_value or same_gradient else "not reproduced"), criteria + wrong


def _largest(found: Sequence[OnePositive], loss: str, batches: int) -> Measured:
    paper = {"sincere": "equal", "supcon": "equal", "decoupled": "differs"}.get(loss)
    return Measured(
        f"{TITLES[loss]}: largest gap to InfoNCE", worst_value(found, loss), n=f"{batches} batches", paper=paper
    )


def _draw_one_positive(figure: "Figure", found: Sequence[OnePositive]) -> None:
    left, right = figure.subplots(1, 2)
    for loss, marker in (("decoupled", "s"), ("sincere", "o")):
        chosen = [one for one in found if one.loss == loss]
        left.scatter(
            [one.infonce for one in chosen],
            [one.value for one in chosen],
            s=22,
            marker=marker,
            color=COLOURS[loss],
            label=TITLES[loss],
            alpha=0.8,
        )
    top = max(one.infonce for one in found)
    left.plot([0, top], [0, top], color=GREY, linewidth=1, linestyle="--", label="equal")
    left.set(xlabel="InfoNCE as written", ylabel="loss with one positive", title=f"{len(found) // len(LOSSES)} batches")
    left.legend(frameon=False)
    for place, loss in enumerate(LOSSES):
        chosen = [one for one in found if one.loss == loss]
        spread = [place + 0.5 * (i / max(1, len(chosen) - 1) - 0.5) for i in range(len(chosen))]
        right.scatter(spread, [max(one.difference, 1e-17) for one in chosen], s=12, color=COLOURS[loss])
    right.axhline(ROUNDING, color=GREY, linestyle="--", linewidth=1)
    right.annotate("counts as equal below", (-0.4, ROUNDING * 1.6), fontsize=8, color=GREY)
    right.set(yscale="log", ylim=(5e-18, 50), ylabel="|loss − InfoNCE|; 0 drawn at 1e-17", title="Gap, float64")
    right.set_xticks(range(len(LOSSES)), [TITLES[loss] for loss in LOSSES], rotation=20)


IDENTITIES = (
    Claim(
        1,
        "sincere-is-infonce",
        f"{SECTION}, Section 3.1",
        "with one positive SINCERE is InfoNCE",
        "identical by construction",
        sincere_is_infonce,
    ),
)
