"""Claims 19 and 20: SupCon over all batches, and over single ones (Graf et al., 2021, Theorem 2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from sincere.claims.claim import Claim, Conditions, Outcome
from sincere.claims.optimum import GRAF, NEAR
from sincere.claims.palette import CLASS_COLOURS, COLOURS, GREY
from sincere.claims.record import Measured, Verdict
from sincere.theory import BatchMinimisers, batch_minimisers, simplex, supcon_bound_over_batches, supcon_sum
from sincere.theory.batches import Draw, number_of_batches
from sincere.theory.minimise import random_points, unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGEST = 20_000  # batches that are gone through for each arrangement
EQUAL = 1e-12  # relative, of sums of some thousand float64 terms


@dataclass(frozen=True)
class BatchSum:
    """L_SC of one arrangement, batches of one size."""

    classes: int
    batch: int
    draw: str
    temperature: float
    kind: str  # "simplex", "moved" (a simplex with noise), "collapsed" (classes at random places), "random"
    moved: float  # mean |cosine of two points − that of their corners|: no rotation changes it
    value: float
    bound: float

    @property
    def excess(self) -> float:
        """Above the bound, as a share of it."""
        return (self.value - self.bound) / abs(self.bound)


def supcon_bound(conditions: Conditions) -> Outcome:
    """Equality at the simplex, more elsewhere."""
    shapes: list[tuple[int, int, int]] = [(2, 5, 4), (3, 3, 4), (3, 3, 6), (4, 3, 5)]
    if conditions.full:
        shapes += [(3, 5, 9), (4, 4, 8), (5, 3, 6)]
    draws: tuple[Draw, ...] = ("sets", "multisets")
    found = [
        one
        for classes, members, batch in shapes
        for draw in draws
        for temperature in (0.2, 1.0)
        if number_of_batches(classes * members, batch, draw) <= LARGEST
        for one in batch_sums(classes, members, batch, draw, temperature, conditions.seed, 12 if conditions.full else 8)
    ]
    verdict, reason = judge_bound(found)
    at, off = [one for one in found if one.kind == "simplex"], [one for one in found if one.kind != "simplex"]
    return Outcome(
        verdict,
        reason,
        "every batch enumerated, drawn without and with replacement: "
        + ", ".join(f"{classes} × {members} points in batches of {batch}" for classes, members, batch in shapes)
        + "; τ of 0.2 and 1",
        (
            Measured(
                "largest |sum − bound|/bound at the simplex",
                max(abs(one.excess) for one in at),
                n=f"{len(at)} cases",
                paper="0",
            ),
            Measured(
                "least (sum − bound)/bound elsewhere",
                min(one.excess for one in off),
                n=f"{len(off)} arrangements",
                paper="above 0",
            ),
            Measured(
                "the same for random points",
                min(one.excess for one in off if one.kind == "random"),
                n=f"{sum(one.kind == 'random' for one in off)} arrangements",
            ),
        ),
        tuple({**one.__dict__, "excess": one.excess} for one in found),
        lambda figure: _draw_bound(figure, off),
    )


def batch_sums(
    classes: int, members: int, batch: int, draw: Draw, temperature: float, seed: int, arrangements: int
) -> list[BatchSum]:
    """The simplex, the simplex with more and more noise, collapsed classes anywhere, and points anywhere."""
    dim, counts = classes, (members,) * classes
    corners = simplex(classes, dim).repeat_interleave(members, dim=0)
    bound = supcon_bound_over_batches(counts, batch, temperature=temperature, draw=draw)
    placed = [("simplex", corners)]
    for number in range(arrangements):
        noise = random_points(len(corners), dim, seed + number)
        placed.append(("moved", unit(corners + 10 ** (-2 + 2.3 * number / (arrangements - 1)) * noise)))
        placed.append(("collapsed", random_points(classes, dim, seed + number).repeat_interleave(members, dim=0)))
        placed.append(("random", noise))
    return [
        BatchSum(
            classes,
            batch,
            draw,
            temperature,
            kind,
            float((points @ points.T - corners @ corners.T).abs().mean()),
            supcon_sum(points, counts, batch, temperature=temperature, draw=draw),
            bound,
        )
        for kind, points in placed
    ]


def judge_bound(found: Sequence[BatchSum]) -> tuple[Verdict, str]:
    """Equality at the simplex and strictly more elsewhere."""
    equal = all(abs(one.excess) <= EQUAL for one in found if one.kind == "simplex")
    above = all(one.excess > EQUAL for one in found if one.kind != "simplex")
    verdict: Verdict = "reproduced" if equal and above else "partly" if equal or above else "not reproduced"
    return verdict, (
        f"Criteria: the sum over all batches equals the bound at the regular simplex to {EQUAL:.0e} of it, and "
        f"every other "
        "arrangement tried has more."
        + ("" if equal else " The sum at the simplex differs.")
        + ("" if above else " Some other arrangement has no more.")
    )


def _draw_bound(figure: "Figure", found: Sequence[BatchSum]) -> None:
    axis = figure.subplots()
    for kind, marker, colour, name in (
        ("moved", "o", COLOURS["sincere"], "simplex with noise"),
        ("collapsed", "s", COLOURS["supcon"], "collapsed classes at random places"),
        ("random", "^", COLOURS["cross_entropy"], "random points"),
    ):
        chosen = [one for one in found if one.kind == kind]
        places, excess = [one.moved for one in chosen], [one.excess for one in chosen]
        axis.scatter(places, excess, s=16, marker=marker, color=colour, alpha=0.7, linewidths=0, label=name)
    axis.axhline(EQUAL, color=GREY, linestyle="--", linewidth=1)
    axis.annotate("the simplex itself lies below", (7e-5, 1.7 * EQUAL), fontsize=8, color=GREY)
    axis.set(xscale="log", yscale="log", xlabel="mean |cosine of two points − cosine at the simplex|")
    axis.set(ylabel="(sum over batches − bound)/bound", title=f"{len(found)} arrangements, all batches of each")
    axis.legend(frameon=False, loc="upper left")


def batch_minimisers_claim(conditions: Conditions) -> Outcome:
    """Every label configuration of a batch of 9 alone, and all of them together."""
    starts = range(conditions.seed, conditions.seed + (3 if conditions.full else 1))
    members = 6 if conditions.full else 5
    found = [batch_minimisers(members=members, seed=seed, starts=10 if conditions.full else 3) for seed in starts]
    verdict, reason = judge_minimisers(found)
    first = found[0]
    gains = [one.gain / first.batch for one in first.configurations]
    return Outcome(
        verdict,
        reason,
        f"batches of {first.batch} of 3 classes × {members} points on a circle, τ = 1: {len(first.configurations)} "
        f"label "
        f"configurations, each minimised alone; and the sum over all {first.batches:,} batches",
        (
            Measured(
                "configurations that go below the simplex alone",
                first.differing,
                n=f"{len(gains)} configurations",
                paper="some",
            ),
            Measured("largest gain over the simplex, an anchor", max(gains), paper="above 0"),
            Measured(
                "minimiser of the sum: farthest from the simplex",
                max(max(one.arrangement.collapse, one.arrangement.simplex_deviation) for one in found),
                n=f"{len(found)} start{'s' if len(found) > 1 else ''}",
                paper="0",
            ),
            Measured(
                "the sum above its bound, share of it", max(abs(one.excess) / one.bound for one in found), paper="0"
            ),
        ),
        tuple(
            {
                "members": "+".join(map(str, one.counts)),
                "batches": one.batches,
                "minimum": one.value,
                "at_simplex": one.simplex_value,
                "gain": one.gain,
                "off_simplex_of_its_classes": one.arrangement.simplex_deviation,
            }
            for one in first.configurations
        ),
        lambda figure: _draw_minimisers(figure, first),
    )


def judge_minimisers(found: Sequence[BatchMinimisers]) -> tuple[Verdict, str]:
    """Configurations differ, their sum does not."""
    differ = all(one.differing > 0 for one in found)
    sums = all(
        one.converged and one.arrangement.is_simplex(NEAR) and abs(one.excess) <= 1e-6 * one.bound for one in found
    )
    verdict: Verdict = "reproduced" if differ and sums else "partly" if differ or sums else "not reproduced"
    first = found[0]
    return verdict, (
        f"Criteria: some label configuration of a batch has a minimiser below the simplex, and the sum over all "
        f"batches is "
        f"least at the simplex, to {NEAR:g}. {first.differing} of {len(first.configurations)} configurations do "
        f"better alone."
        + ("" if differ else " None differs.")
        + ("" if sums else " The sum does not end at the simplex.")
    )


def _draw_minimisers(figure: "Figure", found: BatchMinimisers) -> None:
    panels = len(found.configurations) + 1
    columns = (panels + 1) // 2
    axes = figure.subplots(2, columns).flatten()
    angle = torch.linspace(0, 6.2832, 200)
    titles = [
        f"{'+'.join(map(str, one.counts))}\n{0.0 - round(one.gain / found.batch, 3) + 0.0:+.3f}".replace("-", "−")
        for one in found.configurations
    ]
    shown = [
        (one.positions, torch.arange(len(one.counts)).repeat_interleave(torch.tensor(one.counts)))
        for one in found.configurations
    ]
    for axis, title, (points, labels) in zip(
        axes, [*titles, f"all {found.batches:,}\n+0.000"], [*shown, (found.positions, found.labels)], strict=False
    ):
        first = points[labels == 0].mean(dim=0)
        turn = torch.stack([torch.stack([first[1], -first[0]]), first]) / first.norm()  # the largest class on top
        points = points @ turn.T
        if int(labels.max()) > 0 and points[labels == 1][:, 0].mean() > 0:
            points = points * torch.tensor([-1.0, 1.0], dtype=points.dtype)
        axis.plot(angle.cos(), angle.sin(), color="0.8", linewidth=1, zorder=0)
        for c in range(int(labels.max()) + 1):
            own = points[labels == c]
            axis.scatter(own[:, 0], own[:, 1], s=26, color=CLASS_COLOURS[c], alpha=0.7, linewidths=0)
        axis.set_title(title, fontsize=9)
        axis.set(aspect="equal", xlim=(-1.25, 1.25), ylim=(-1.25, 1.25))
        axis.set_axis_off()
    for axis in axes[panels:]:
        axis.set_axis_off()
    figure.suptitle(
        "Least loss by members of each class in a batch (its dots); its value against the simplex, an anchor",
        fontsize=10,
    )


BATCH_SUMS = (
    Claim(
        19,
        "supcon-bound",
        f"{GRAF}, Theorem 2",
        "SupCon summed over all batches is least at the regular simplex with collapsed classes, and there alone",
        "equality at the simplex, more elsewhere",
        supcon_bound,
    ),
    Claim(
        20,
        "batch-minimisers",
        f"{GRAF}, the example of batches of 9",
        "label configurations of a batch have different minimisers; only their sum has the simplex",
        "no common minimiser",
        batch_minimisers_claim,
    ),
)
