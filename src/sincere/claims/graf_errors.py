"""Claim 21: errors of cross-entropy, a fixed simplex and SupCon, with and without augmentation."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from sincere.claims.claim import Claim, Conditions, Outcome
from sincere.claims.graf_objectives import (
    JUDGES,
    OBJECTIVES,
    SOURCE,
    Objectives,
    judged_by_all,
    planned_objectives,
    trained_objectives,
)
from sincere.claims.objectives import accuracy, counted, difference
from sincere.claims.palette import colour_of
from sincere.claims.record import Measured, Verdict
from sincere.claims.statistics import covers_zero, wholly_above_zero
from sincere.evaluate.options import Method

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Error with and without augmentation, CIFAR-100, ResNet-18.
PRINTED = {"cross-entropy": ("27.0", "41.8"), "fixed simplex": ("26.3", "41.3"), "SupCon": ("24.9", "41.5")}

PAIRS = (("SupCon", "cross-entropy"), ("SupCon", "fixed simplex"), ("fixed simplex", "cross-entropy"))


def errors(conditions: Conditions) -> Outcome:
    """By class means and by a linear probe: what does not depend on the classifier holds by both."""
    found = trained_objectives(conditions)
    gains, against_simplex = (
        [_gain(found, method, "SupCon", other, augmented=True) for method in JUDGES]
        for other in ("cross-entropy", "fixed simplex")
    )
    without = [[_gain(found, method, *pair, augmented=False) for pair in PAIRS] for method in JUDGES]
    helped = [
        min(difference(found.sides[name, True], found.sides[name, False], method).value for name in OBJECTIVES)
        for method in JUDGES
    ]
    measured = {
        method: [
            _error(found, name, how, method, printed=conditions.on_cifar)
            for how in (True, False)
            for name in OBJECTIVES
        ]
        for method in JUDGES
    }
    verdict, reason = judged_errors(gains, against_simplex, without, helped)
    rows = [
        {"objective": name, "augmented": how, "seed": seed, "classifier": title, "error": 100 - top1}
        for method, title in JUDGES.items()
        for (name, how), side in found.sides.items()
        for seed, top1 in zip(found.experiment.seeds, side.top1(method), strict=True)
    ]
    return Outcome(
        verdict,
        reason,
        f"{found.experiment.title}; all are judged by class means, as in the authors' script, and by a linear probe on "
        "frozen features",
        (
            *gains,
            *against_simplex,
            *(one for each in zip(*without, strict=True) for one in each),
            *(one for each in measured.values() for one in each),
        ),
        tuple(rows),
        lambda figure: _draw_errors(figure, measured),
    )


def _gain(found: Objectives, method: Method, name: str, other: str, *, augmented: bool) -> Measured:
    """One objective's accuracy minus another's."""
    printed, others = (float(PRINTED[which][0 if augmented else 1]) for which in (name, other))
    paper = f"{others - printed:.1f}".replace("-", "−")
    gain = difference(found.sides[name, augmented], found.sides[other, augmented], method, paper=paper)
    how = "with" if augmented else "without"
    return replace(gain, what=f"{how} augmentation, {name} − {other} by {JUDGES[method]}, points")


def _error(found: Objectives, name: str, augmented: bool, method: Method, *, printed: bool) -> Measured:
    """In percent."""
    side = found.sides[name, augmented]
    top1 = accuracy(side, method)
    how = "with" if augmented else "without"
    paper = PRINTED[name][0 if augmented else 1] if printed else None
    low, high = (None if end is None else 100 - end for end in (top1.high, top1.low))
    what = f"{name} {how} augmentation, error by {JUDGES[method]}, %"
    return Measured(what, 100 - top1.value, low, high, counted(side), paper)


def judged_errors(
    gains: Sequence[Measured],
    against_simplex: Sequence[Measured],
    without: Sequence[Sequence[Measured]],
    helped: Sequence[float],
) -> tuple[Verdict, str]:
    """Better with augmentation, alike without, and augmentation helps everybody; by every classifier.

    without: of each classifier the differences of every two objectives. helped: what augmentation gave the objective
    that it gave least.
    """
    return judged_by_all(
        {
            "SupCon is better than cross-entropy with augmentation, over the whole interval": [
                *map(wholly_above_zero, gains)
            ],
            "SupCon is better than a fixed simplex with augmentation, likewise": [
                *map(wholly_above_zero, against_simplex)
            ],
            "without augmentation the difference of every two has zero in its interval": [
                all(map(covers_zero, each)) for each in without
            ],
            "augmentation helps all three": [least > 0 for least in helped],
        }
    )


def _draw_errors(figure: "Figure", measured: dict[Method, list[Measured]]) -> None:
    axis = figure.subplots()
    fillings: dict[Method, Literal["full", "none"]] = {"class_means": "full", "linear": "none"}
    for side, (method, each) in enumerate(measured.items()):
        for row, one in enumerate(each):
            place, (low, high) = row + (-0.12, 0.12)[side], one.ends
            reach = [[one.value - low], [high - one.value]]
            look = colour_of(one.what), fillings[method]
            axis.errorbar(one.value, place, xerr=reach, fmt="o", capsize=3, color=look[0], fillstyle=look[1])
            if one.paper and not side:
                axis.plot(float(one.paper), row, marker="D", color="0.3", markerfacecolor="none", linestyle="none")
    first = next(iter(measured.values()))
    axis.set_yticks(range(len(first)), [one.what.partition(",")[0] for one in first])
    axis.set_ylim(len(first) - 0.5, -0.5)
    axis.set_xlabel("error, % (95 % interval)")
    keys = [(JUDGES[method], "o", fillings[method]) for method in measured]
    if any(one.paper for one in first):
        keys.append(("the paper", "D", "none"))
    shown = [axis.plot([], [], marker, color="0.3", label=name, fillstyle=how)[0] for name, marker, how in keys]
    figure.legend(handles=shown, loc="outside upper center", ncols=len(shown), frameon=False, fontsize=8)


GRAF_ERRORS = (
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
        decisive="^with augmentation, SupCon − cross-entropy",
    ),
)
