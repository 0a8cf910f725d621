"""Claims 21 and 22: errors of cross-entropy, a fixed simplex and SupCon, and how close they come to the simplex."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sincere.claims.claim import Claim, Conditions, Outcome
from sincere.claims.experiments import Experiment, Planned, cifar, few_digits
from sincere.claims.objectives import Side, accuracy, contrastive, counted, difference, objective
from sincere.claims.pictures import COLOURS
from sincere.claims.record import Measured, Verdict
from sincere.claims.statistics import covers_zero, over_seeds, with_fisher_interval
from sincere.train import BatchesConfig, HeadConfig, OptimizerConfig, ScheduleConfig, ViewsConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SOURCE = "Graf et al. 2021, arXiv 2102.08817"
# Error with and without augmentation, CIFAR-100, ResNet-18.
PRINTED = {"cross-entropy": ("27.0", "41.8"), "fixed simplex": ("26.3", "41.3"), "SupCon": ("24.9", "41.5")}
OBJECTIVES: dict[str, dict[str, Any]] = {
    "cross-entropy": {"objective": "cross_entropy"},
    "fixed simplex": {"objective": "fixed_simplex"},
    "SupCon": {},
}


@dataclass(frozen=True)
class Errors:
    """Every objective, with and without augmentation."""

    experiment: Experiment
    sides: dict[tuple[str, bool], Side]  # by objective and whether views were random

    def error(self, name: str, augmented: bool, *, printed: bool) -> Measured:
        """In percent."""
        side, probe = self.sides[name, augmented], self.experiment.probe
        found = accuracy(side, probe)
        how = "with" if augmented else "without"
        paper = PRINTED[name][0 if augmented else 1] if printed else None
        low, high = (None if end is None else 100 - end for end in (found.high, found.low))
        return Measured(f"{name} {how} augmentation, error %", 100 - found.value, low, high, counted(side), paper)


def trained_objectives(conditions: Conditions) -> Errors:
    """Three objectives, each with random views and with none, from the same weights and over the same epochs."""
    one = experiment(conditions)
    sides = {
        (name, augmented): objective(one, _run(name, augmented), name, **_settings(one, name, augmented))
        for name in OBJECTIVES
        for augmented in (True, False)
    }
    return Errors(one, sides)


def planned_objectives(conditions: Conditions) -> Iterator[Planned]:
    """The runs of `trained_objectives`, all of one seed before the next one's."""
    one = experiment(conditions)
    for seed in one.seeds:
        for name in OBJECTIVES:
            for augmented in (True, False):
                config = replace(one.plain, seed=seed, **_settings(one, name, augmented))
                yield Planned(one, f"{_run(name, augmented)}-{seed}", config)


def _run(name: str, augmented: bool) -> str:
    return f"{name.replace(' ', '-')}-{'views' if augmented else 'no-views'}"


def _settings(one: Experiment, name: str, augmented: bool) -> dict[str, Any]:
    """What an objective changes of the plain configuration."""
    views = one.plain.views if augmented else ViewsConfig("none", count=one.plain.views.count)
    return {"loss": contrastive("supcon", one), "views": views, **OBJECTIVES[name]}


def experiment(conditions: Conditions) -> Experiment:
    """CIFAR-100 for all objectives alike: as the paper's authors train, or, fast, as supervised networks usually do.

    Or few digits.
    """
    if not conditions.on_cifar:
        return few_digits(conditions)
    one = cifar(conditions, 100)
    settings, title = _as_the_authors() if conditions.full else _as_usual(one.plain.epochs)
    plain = replace(one.plain, **settings)
    return replace(one, data=f"{one.data}-graf", title=title, plain=plain, probe="linear", seeds=(0, 1, 2))


def _as_the_authors() -> tuple[dict[str, Any], str]:
    """Settings of the authors' code (plus-rkwitt/py_supcon_vs_ce, run_exp_performance.py) but for the length.

    One view, no projection head: SupCon works on normalised features, cross-entropy on features as they are.
    """
    epochs = 100
    settings = {
        "batches": BatchesConfig(256, "shuffled", drop_last=True),
        "views": ViewsConfig("plain", count=1, options={"hole": False}),
        "head": HeadConfig("none"),
        "optimizer": OptimizerConfig("sgd", lr=0.1, momentum=0.9, weight_decay=1e-4),
        "schedule": ScheduleConfig("polynomial", power=5.0),
        "epochs": epochs,
    }
    title = (
        f"CIFAR-100, ResNet-18, {epochs} epochs (the paper: 512), batch 256, one view, no projection head, shift and "
        "flip, learning rate 0.1 · (share of steps left)⁵"
    )
    return settings, title


def _as_usual(epochs: int) -> tuple[dict[str, Any], str]:
    settings = {
        "views": ViewsConfig("plain", count=2, options={"hole": False}),
        "optimizer": OptimizerConfig("sgd", lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4),
        "schedule": ScheduleConfig(warmup_epochs=2),
    }
    return settings, f"CIFAR-100, short_cnn (the paper: ResNet-18), {epochs} epochs, batch 512, shift and flip"


def errors(conditions: Conditions) -> Outcome:
    found = trained_objectives(conditions)
    sides, probe = found.sides, found.experiment.probe
    measured = [found.error(name, how, printed=conditions.on_cifar) for how in (True, False) for name in OBJECTIVES]
    gain = difference(sides["SupCon", True], sides["cross-entropy", True], probe, paper="2.1")
    without = difference(sides["SupCon", False], sides["cross-entropy", False], probe, paper="0.3")
    gain = replace(gain, what=f"with augmentation, {gain.what}")
    without = replace(without, what=f"without augmentation, {without.what}")
    helped = [difference(sides[name, True], sides[name, False], probe).value for name in OBJECTIVES]
    verdict, reason = judged_errors(gain, without, min(helped))
    rows = [
        {"objective": name, "augmented": how, "seed": seed, "error": 100 - top1}
        for (name, how), side in sides.items()
        for seed, top1 in zip(found.experiment.seeds, side.top1(probe), strict=True)
    ]
    title = f"{found.experiment.title}; a linear classifier on frozen features judges all of them"
    return Outcome(
        verdict, reason, title, (gain, without, *measured), tuple(rows), lambda figure: _draw_errors(figure, measured)
    )


def judged_errors(gain: Measured, without: Measured, least_help: float) -> tuple[Verdict, str]:
    """Better with augmentation, alike without, and augmentation helps everybody."""
    holds = {
        "SupCon is better than cross-entropy with augmentation, over the whole interval": gain.low is not None
        and gain.low > 0,
        "without it the interval holds zero": covers_zero(without),
        "augmentation helps all three": least_help > 0,
    }
    verdict: Verdict = "reproduced" if all(holds.values()) else "partly" if any(holds.values()) else "not reproduced"
    told = "; ".join(f"{words}: {'yes' if found else 'no'}" for words, found in holds.items())
    return verdict, f"Criteria: {told}."


def _draw_errors(figure: "Figure", measured: list[Measured]) -> None:
    axis = figure.subplots()
    for place, one in enumerate(measured):
        low, high = one.ends
        reach = [[one.value - low], [high - one.value]]
        axis.errorbar(one.value, place, xerr=reach, fmt="o", capsize=4, color=COLOURS[place % 3])
        if one.paper:
            axis.plot(float(one.paper), place, marker="D", color="0.3", markerfacecolor="none", linestyle="none")
    axis.set_yticks(range(len(measured)), [one.what.removesuffix(", error %") for one in measured])
    axis.set_ylim(len(measured) - 0.5, -0.5)
    diamond = "; diamond: the paper" if any(one.paper for one in measured) else ""
    axis.set_xlabel(f"error of a linear classifier, % (95 % interval{diamond})")


@dataclass(frozen=True)
class Closeness:
    """Of one run: how far its class means are from the simplex, and its error in percent.

    Deviations are means of |cos + 1/(K−1)| across class means, after the means' own mean is taken off.
    """

    objective: str
    augmented: bool
    seed: int
    training: float  # deviation of training embeddings, which the paper looks at
    test: float  # of test embeddings
    collapse: float  # mean cosine of a training embedding and its class's mean
    error: float


def closeness(conditions: Conditions) -> Outcome:
    """Where training ends, whether SupCon comes closer than cross-entropy, and whether closer is better."""
    found = trained_objectives(conditions)
    places = [place for key, side in found.sides.items() for place in _places(found.experiment, key, side)]
    nearer, correlation = supcon_nearer(places), closer_is_better(places, augmented=True)
    ends = [
        over_seeds(
            f"{name} {'with' if how else 'without'} augmentation, deviation of {which} embeddings",
            [getattr(one, which) for one in places if (one.objective, one.augmented) == (name, how)],
        )
        for which in ("training", "test")
        for how in (True, False)
        for name in OBJECTIVES
    ]
    verdict, reason = judged_closeness(nearer, correlation, places)
    return Outcome(
        verdict,
        reason,
        f"{found.experiment.title}; deviation: mean |cos + 1/(K−1)| across centred class means",
        (nearer, correlation, closer_is_better(places, augmented=False), *ends),
        tuple(place.__dict__ for place in places),
        lambda figure: _draw_closeness(figure, places),
    )


def _places(one: Experiment, key: tuple[str, bool], side: Side) -> list[Closeness]:
    made = []
    for seed, run, top1 in zip(one.seeds, side.runs, side.top1(one.probe), strict=True):
        train, test = run.simplex_fit("train"), run.simplex_fit("test")
        assert train.deviation is not None  # every class has samples
        assert train.collapse is not None
        assert test.deviation is not None
        made.append(Closeness(*key, seed, train.deviation, test.deviation, train.collapse, 100 - top1))
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


def closer_is_better(places: list[Closeness], *, augmented: bool) -> Measured:
    """Rank correlation of deviation and error. Not over both kinds of runs: augmentation moves the error by itself."""
    from scipy.stats import spearmanr

    mine = [one for one in places if one.augmented == augmented]
    value = float(spearmanr([one.training for one in mine], [one.error for one in mine]).statistic)
    name = f"rank correlation of deviation and error, {'with' if augmented else 'without'} augmentation"
    return with_fisher_interval(name, value, len(mine), paper="positive" if augmented else None)


NEAR = 0.1  # of cosines that range over 2


def judged_closeness(nearer: Measured, correlation: Measured, places: list[Closeness]) -> tuple[Verdict, str]:
    holds = {
        f"class means of training embeddings deviate from the simplex by less than {NEAR} in every run": all(
            one.training < NEAR for one in places if one.augmented
        ),
        "SupCon is closer than cross-entropy, over the whole interval": nearer.high is not None and nearer.high < 0,
        "a larger deviation goes with a larger error, over the whole interval": correlation.low is not None
        and correlation.low > 0,
    }
    verdict: Verdict = "reproduced" if all(holds.values()) else "partly" if any(holds.values()) else "not reproduced"
    told = "; ".join(f"{words}: {'yes' if found else 'no'}" for words, found in holds.items())
    return verdict, f"Criteria, with augmentation: {told}."


def _draw_closeness(figure: "Figure", places: list[Closeness]) -> None:
    axis = figure.subplots()
    for place, name in enumerate(OBJECTIVES):
        for how, marker in ((True, "o"), (False, "x")):
            mine = [one for one in places if (one.objective, one.augmented) == (name, how)]
            label = f"{name}, {'with' if how else 'without'} augmentation"
            places_x, places_y = [one.training for one in mine], [one.error for one in mine]
            axis.scatter(places_x, places_y, marker=marker, color=COLOURS[place], label=label)
    axis.set(xlabel="mean |cos + 1/(K−1)| across class means of training embeddings", ylabel="error, %")
    axis.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, columnspacing=1)


GRAF_TRAINING = (
    Claim(
        21,
        "errors",
        f"{SOURCE}, CIFAR-100",
        "with augmentation SupCon has a lower error than cross-entropy and than a classifier fixed to a simplex; "
        "without it all three are alike",
        "CIFAR-100, ResNet-18, error with / without augmentation: cross-entropy 27.0/41.8, fixed simplex 26.3/41.3, "
        "SupCon 24.9/41.5",
        errors,
        ("cifar100",),
        runs=planned_objectives,
    ),
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
