"""Claim 22: how close training comes to the simplex, who comes closest, and whether closer is better."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sincere.claims.claim import Claim, Conditions, Outcome
from sincere.claims.experiments import Experiment
from sincere.claims.graf_objectives import (
    JUDGES,
    OBJECTIVES,
    SOURCE,
    judged_by_all,
    planned_objectives,
    trained_objectives,
)
from sincere.claims.objectives import Side
from sincere.claims.palette import colour_of
from sincere.claims.record import Measured, Verdict
from sincere.claims.statistics import over_seeds, wholly_above_zero, wholly_below_zero, with_fisher_interval
from sincere.evaluate.options import Method

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEAR = 0.1  # of cosines that range over 2


@dataclass(frozen=True)
class Closeness:
    """Of one run: how far its class means are from the simplex, and its error in percent by each classifier.

    Deviations are means of |cos + 1/(K−1)| across class means, after the means' own mean is taken off.
    """

    objective: str
    augmented: bool
    seed: int
    training: float  # deviation of training embeddings, which the paper looks at
    test: float  # of test embeddings
    collapse: float  # mean cosine of a training embedding and its class's mean
    class_means: float  # error by class means
    linear: float  # error by a linear probe

    def error(self, method: Method) -> float:
        return {"class_means": self.class_means, "linear": self.linear}[method]


def closeness(conditions: Conditions) -> Outcome:
    """Where training ends, whether SupCon comes closer than cross-entropy, and whether closer is better."""
    found = trained_objectives(conditions)
    places = [place for key, side in found.sides.items() for place in _places(found.experiment, key, side)]
    nearer = supcon_nearer(places)
    with_views, without = (
        [closer_is_better(places, method, augmented=augmented) for method in JUDGES] for augmented in (True, False)
    )
    ends = [
        over_seeds(
            f"{name} {'with' if how else 'without'} augmentation, deviation of {which} embeddings",
            [getattr(one, which) for one in places if (one.objective, one.augmented) == (name, how)],
        )
        for which in ("training", "test")
        for how in (True, False)
        for name in OBJECTIVES
    ]
    verdict, reason = judged_closeness(nearer, with_views, places)
    return Outcome(
        verdict,
        reason,
        f"{found.experiment.title}; deviation: mean |cos + 1/(K−1)| across centred class means; errors by class means, "
        "as in the authors' script, and by a linear probe on frozen features",
        (nearer, *with_views, *without, *ends),
        tuple(place.__dict__ for place in places),
        lambda figure: _draw_closeness(figure, places),
    )


def _places(one: Experiment, key: tuple[str, bool], side: Side) -> list[Closeness]:
    made = []
    right = zip(*(side.top1(method) for method in JUDGES), strict=True)
    for seed, run, top1 in zip(one.seeds, side.runs, right, strict=True):
        train, test = run.simplex_fit("train"), run.simplex_fit("test")
        assert train.deviation is not None  # every class has samples
        assert train.collapse is not None
        assert test.deviation is not None
        wrong = [100 - each for each in top1]
        made.append(Closeness(*key, seed, train.deviation, test.deviation, train.collapse, *wrong))
    return made


def supcon_nearer(places: list[Closeness]) -> Measured:
    """Deviation of SupCon minus that of cross-entropy, from the same seeds, with augmentation."""
    by = {(one.objective, one.seed): one.training for one in places if one.augmented}
    seeds = sorted({one.seed for one in places})
    return over_seeds(
        "deviation of training embeddings, SupCon − cross-entropy, with augmentation",
        [by["SupCon", seed] - by["cross-entropy", seed] for seed in seeds],
        paper="below 0",
    )


def closer_is_better(places: list[Closeness], method: Method, *, augmented: bool) -> Measured:
    """Rank correlation of deviation and error. Not over both kinds of runs: augmentation moves the error by itself."""
    from scipy.stats import spearmanr

    mine = [one for one in places if one.augmented == augmented]
    value = float(spearmanr([one.training for one in mine], [one.error(method) for one in mine]).statistic)
    how = "with" if augmented else "without"
    name = f"rank correlation of deviation and error by {JUDGES[method]}, {how} augmentation"
    return with_fisher_interval(name, value, len(mine), paper="positive" if augmented else None)


def judged_closeness(
    nearer: Measured, correlations: Sequence[Measured], places: Sequence[Closeness]
) -> tuple[Verdict, str]:
    """Near in every run, SupCon nearest, and a larger error farther away by every classifier; with augmentation."""
    near = all(one.training < NEAR for one in places if one.augmented)
    verdict, reason = judged_by_all(
        {
            f"with augmentation class means of training embeddings deviate by less than {NEAR} in every run": [near],
            "SupCon is closer than cross-entropy, over the whole interval": [wholly_below_zero(nearer)],
            "a larger deviation goes with a larger error, over the whole interval": [
                *map(wholly_above_zero, correlations)
            ],
        }
    )
    return verdict, (
        f"{reason} Runs of one objective lie close together, and the interval of a correlation takes all runs as "
        f"independent: with {len(OBJECTIVES)} objectives it is narrower than it should be."
    )


def _draw_closeness(figure: "Figure", places: list[Closeness]) -> None:
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    for axis, (method, title) in zip(axes, JUDGES.items(), strict=True):
        for name in OBJECTIVES:
            for how, marker in ((True, "o"), (False, "x")):
                mine = [one for one in places if (one.objective, one.augmented) == (name, how)]
                label = f"{name}, {'with' if how else 'without'} augmentation"
                found = [one.training for one in mine], [one.error(method) for one in mine]
                axis.scatter(*found, marker=marker, color=colour_of(name), label=label)
        axis.set_title(f"by {title}", fontsize=9)
    axes[0].set_ylabel("error, %")
    figure.supxlabel("mean |cos + 1/(K−1)| across class means of training embeddings", fontsize="medium")
    told = axes[0].get_legend_handles_labels()
    figure.legend(*told, loc="outside upper center", frameon=False, fontsize=7.5, ncols=3, columnspacing=1)


GRAF_CLOSENESS = (
    Claim(
        22,
        "closeness",
        f"{SOURCE}, CIFAR-100",
        "training ends close to the simplex, SupCon closer than cross-entropy, and closer goes with a lower error",
        "cosines across class means of training samples near −1/(K−1), nearest with SupCon, whose error is lowest",
        closeness,
        ("cifar100",),
        runs=planned_objectives,
    ),
)
