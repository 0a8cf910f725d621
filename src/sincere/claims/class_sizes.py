"""Claim 25, an open question: what classes of unequal size, and more classes than corners, do to the optimum; and what
helps against it."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import cos, radians, sqrt
from typing import TYPE_CHECKING

from sincere.claims.claim import Claim, Conditions, Outcome
from sincere.claims.long_tail import TailReading, draw_tail, long_tail, tail_answer, tail_figures, tail_setting
from sincere.claims.palette import COLOURS, GREY, TITLES
from sincere.claims.record import Measured, number
from sincere.theory import ImbalanceOptimum, ImbalanceRow, SphereOptimum, imbalance_optimum, sphere_optimum

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOSSES = ("sincere", "supcon", "cross_entropy")
ALIKE = 1e-2  # cosines that differ by less are told as the same
COLLAPSED = 1e-3  # 1 − cosine to the class mean, as `SphereOptimum` puts it
# The least largest cosine of K points on S² (Tammes' problem): tetrahedron, octahedron, square antiprism, icosahedron.
TAMMES = {4: -1 / 3, 6: 0.0, 8: cos(radians(74.8585)), 12: 1 / sqrt(5)}


def imbalance(conditions: Conditions) -> Outcome:
    """Angles between large and small classes by ratio, temperature, weights and number of classes; and a network."""
    ratios = (1, 2, 5, 10, 25, 50) if conditions.full else (1, 2, 5, 10, 25)
    starts = 5 if conditions.full else 1
    optimum = partial(imbalance_optimum, starts=starts, seed=conditions.seed)
    studies = {
        "mean over anchors, τ = 0.5": optimum(LOSSES, ratios=ratios),
        "mean over anchors, τ = 0.1": optimum(("sincere", "supcon"), ratios=ratios[::2], temperature=0.1),
        "mean over classes, τ = 0.5": optimum(("sincere", "supcon"), ratios=ratios, reduction="class_mean"),
        "class-balanced, τ = 0.5": optimum(
            ("sincere", "supcon"), ratios=ratios, reduction="class_mean", class_balanced=True
        ),
    }
    by_classes = [
        optimum(("sincere", "supcon"), ratios=(10,), majority=half, minority=half, dim=2 * half) for half in (2, 4, 8)
    ]
    crowded = [
        sphere_optimum(loss, classes=classes, points=5 * classes, temperature=0.1, starts=3 * starts, steps=1500)
        for classes in TAMMES
        for loss in ("sincere", "supcon")
    ]
    plain = next(iter(studies.values()))
    trained = long_tail(conditions)
    return Outcome(
        "answered",
        f"{answer(studies, by_classes, crowded)} {tail_answer(trained)}",
        f"free points on a sphere: 2 large and 2 small classes of {plain.members} in 3 dimensions, large ones up to "
        f"{ratios[-1]} times as large; as many large as small classes, 4 to 16 of them, 10 times as large; and 4 to "
        f"12 equal "
        f"classes in 3 dimensions; best of {starts} start{'s' if starts > 1 else ''}; "
        f"{tail_setting(trained)}",
        (*_figures(studies), *_crowded_figures(crowded), *tail_figures(trained)),
        (
            *_rows(studies),
            *_rows({f"{2 * one.majority} classes": one for one in by_classes}),
            *map(_crowded_row, crowded),
            *({"study": "trained", **one.__dict__} for one in trained),
        ),
        lambda figure: _draw(figure, studies, by_classes, crowded, trained),
    )


def answer(
    studies: Mapping[str, ImbalanceOptimum], by_classes: Sequence[ImbalanceOptimum], crowded: Sequence[SphereOptimum]
) -> str:
    """In plain words, from the figures."""
    plain, cold, weighed, balanced = studies.values()
    last = {loss: plain.of(loss)[-1] for loss in LOSSES}
    merged = plain.merging_ratio("sincere")
    of_merging = f"SINCERE's share one direction from a ratio of {merged}" if merged else "SINCERE's never merge"
    return (
        f"{_of_simplex(plain)}: at a ratio of "
        f"{last['sincere'].ratio} the cosine of two small classes, {number(_simplex(plain))} at the simplex, is "
        + ", ".join(f"{number(last[loss].minority_cosine)} with {TITLES[loss]}" for loss in LOSSES)
        + f" (τ = {plain.temperature:g}; {of_merging}). {_of_temperature(plain, cold)}, {_of_number(by_classes)}. "
        + f"{_of_reduction(plain, weighed)} {_of_balance(balanced)}{_of_crowds(crowded)}"
    )


def _simplex(study: ImbalanceOptimum) -> float:
    """Cosine of any two classes there."""
    return -1 / (study.majority + study.minority - 1)


def _of_simplex(plain: ImbalanceOptimum) -> str:
    """Whether imbalance moves any class, and whether small ones move together."""
    last = {loss: plain.of(loss)[-1] for loss in LOSSES}
    if max(_off_simplex(plain, row) for row in last.values()) < ALIKE:
        return "Imbalance leaves the simplex as it is"
    together = [TITLES[loss] for loss, row in last.items() if row.minority_cosine > _simplex(plain) + ALIKE]
    if not together:
        return "Imbalance breaks the simplex, though small classes do not move together"
    which = "" if len(together) == len(LOSSES) else f" with {' and '.join(together)}"
    return f"Imbalance breaks the simplex, and small classes move together{which}"


def _off_simplex(study: ImbalanceOptimum, row: ImbalanceRow) -> float:
    """The cosine of class means that is farthest from the simplex's."""
    cosines = (row.majority_cosine, row.between_cosine, row.minority_cosine)
    return max(abs(cosine - _simplex(study)) for cosine in cosines)


def _of_temperature(plain: ImbalanceOptimum, cold: ImbalanceOptimum) -> str:
    """Both at the largest ratio that the lower temperature has."""
    low = cold.of("sincere")[-1]
    usual = next(row for row in plain.of("sincere") if row.ratio == low.ratio)
    return (
        f"With SINCERE it is {_changed(low.minority_cosine, usual.minority_cosine)} at a lower temperature "
        f"({number(low.minority_cosine)} at τ = {cold.temperature:g} and {low.ratio}:1, "
        f"{number(usual.minority_cosine)} at τ = {plain.temperature:g})"
    )


def _of_number(by_classes: Sequence[ImbalanceOptimum]) -> str:
    """How far above the simplex's, which is itself another one with more classes."""
    few, many = (one.of("sincere")[0] for one in (by_classes[0], by_classes[-1]))
    fewer, more = (2 * one.majority for one in (by_classes[0], by_classes[-1]))
    above = [row.minority_cosine - _simplex(one) for row, one in ((many, by_classes[-1]), (few, by_classes[0]))]
    word = {"lower": "nearer to the simplex", "higher": "farther from it", "the same": "as far from it"}
    return (
        f"and {word[_changed(*above)]} with more classes ({number(few.minority_cosine)} with {fewer}, "
        f"{number(many.minority_cosine)} with {more} at a ratio of {few.ratio})"
    )


def _of_reduction(plain: ImbalanceOptimum, weighed: ImbalanceOptimum) -> str:
    """What the mean over classes changes where it is not helped by balanced contrasts."""
    told = []
    for loss in ("sincere", "supcon"):
        row, before = weighed.of(loss)[-1], plain.of(loss)[-1]
        told.append(
            f"{_changed(row.minority_cosine, before.minority_cosine)} for {TITLES[loss]} "
            f"({number(row.minority_cosine)}, of large classes {number(row.majority_cosine)})"
        )
    return f"With the mean over classes alone it is {' and '.join(told)}."


def _changed(now: float, before: float) -> str:
    """In words, of two cosines."""
    return "the same" if abs(now - before) < ALIKE else "lower" if now < before else "higher"


def _of_crowds(crowded: Sequence[SphereOptimum]) -> str:
    """Whether classes collapse where there are too many for a simplex, and how near they are to the best packing."""
    collapsed = max(one.collapse for one in crowded) <= COLLAPSED
    return (
        f"With more than d + 1 equal classes {'each still collapses' if collapsed else 'not every one collapses'}, "
        f"and the largest cosine of two means comes within {number(farthest(crowded))} of the best packing."
    )


def _of_balance(balanced: ImbalanceOptimum) -> str:
    """Whether weighing classes alike, as anchors and as contrasts, brings the simplex back."""
    off, last = max(_off_simplex(balanced, row) for row in balanced.rows), balanced.rows[-1].ratio
    if off < ALIKE:
        return (
            "With class_balanced=True and the mean over classes, so that they weigh alike as contrasts and as anchors, "
            f"the optimum is the simplex again: up to {last}:1 no cosine is off it by more than {number(off)}. "
        )
    return f"With class_balanced=True and the mean over classes the optimum is off the simplex by up to {number(off)}. "


def farthest(crowded: Sequence[SphereOptimum]) -> float:
    """Largest gap between the largest cosine found and that of the best packing."""
    return max(abs(one.arrangement.largest_cosine - TAMMES[one.classes]) for one in crowded)


def _figures(studies: Mapping[str, ImbalanceOptimum]) -> list[Measured]:
    return [
        Measured(f"cosine of small classes at {row.ratio}:1, {TITLES[loss]}, {name}", row.minority_cosine)
        for name, study in studies.items()
        for loss in dict.fromkeys(row.loss for row in study.rows)
        for row in study.of(loss)[-1:]
    ]


def _crowded_figures(crowded: Sequence[SphereOptimum]) -> list[Measured]:
    return [
        Measured(
            f"largest cosine of {one.classes} classes in 3 dimensions, SINCERE",
            one.arrangement.largest_cosine,
            paper=f"{number(TAMMES[one.classes])} is the best packing",
        )
        for one in crowded
        if one.loss == "sincere" and one.classes > 4
    ]


def _rows(studies: Mapping[str, ImbalanceOptimum]) -> list[dict[str, object]]:
    names = "loss ratio majority_cosine between_cosine minority_cosine collapse value simplex_value converged"
    return [
        {"study": name, **{field: getattr(row, field) for field in names.split()}}
        for name, study in studies.items()
        for row in study.rows
    ]


def _crowded_row(one: SphereOptimum) -> dict[str, object]:
    cosine = one.arrangement.largest_cosine
    crowd = {"study": f"{one.classes} equal classes, d = 3", "loss": one.loss, "ratio": 1, "collapse": one.collapse}
    return crowd | {"largest_cosine": cosine, "best_packing": TAMMES[one.classes], "converged": one.converged}


def _draw(
    figure: "Figure",
    studies: Mapping[str, ImbalanceOptimum],
    by_classes: Sequence[ImbalanceOptimum],
    crowded: Sequence[SphereOptimum],
    trained: Sequence[TailReading],
) -> None:
    figure.set_size_inches(7.2, 7.2)
    (by_ratio, tail), (by_number, packed) = figure.subplots(2, 2)
    _draw_ratios(by_ratio, studies)
    draw_tail(tail, trained)
    _draw_numbers(by_number, by_classes)
    _draw_crowded(packed, crowded)


def _draw_ratios(axis: "Axes", studies: Mapping[str, ImbalanceOptimum]) -> None:
    for (name, study), style in zip(studies.items(), ("-", ":", "--", "-."), strict=True):
        for loss in dict.fromkeys(row.loss for row in study.rows):
            rows = study.of(loss)
            cosines = [row.minority_cosine for row in rows]
            axis.plot([row.ratio for row in rows], cosines, style, marker=".", color=COLOURS[loss])
        axis.plot([], [], style, color=GREY, label=name)
    for loss in LOSSES:
        axis.plot([], [], color=COLOURS[loss], label=TITLES[loss])
    axis.axhline(-1 / 3, color=GREY, linewidth=0.8)
    axis.annotate("simplex", (1, -0.46), fontsize=8, color=GREY)
    ticks = [row.ratio for row in next(iter(studies.values())).of("sincere")]
    axis.set(xscale="log", xlabel="large : small", ylabel="cosine of two small classes", ylim=(-0.55, 2.6))
    axis.set_title("Optimum of 4 classes")
    axis.set_xticks(ticks, map(str, ticks))
    axis.set_yticks((-0.5, 0, 0.5, 1))
    axis.minorticks_off()
    axis.legend(frameon=False, fontsize=7, loc="upper left")


def _draw_numbers(axis: "Axes", by_classes: Sequence[ImbalanceOptimum]) -> None:
    places = [2 * one.majority for one in by_classes]
    for loss in ("sincere", "supcon"):
        cosines = [one.of(loss)[0].minority_cosine for one in by_classes]
        axis.plot(places, cosines, marker="o", color=COLOURS[loss], label=TITLES[loss])
    axis.plot(places, [-1 / (place - 1) for place in places], color=GREY, linewidth=0.8, label="simplex")
    axis.set(xlabel="classes, half of them small", ylabel="cosine of two small classes", ylim=(-0.5, 1))
    axis.set_title("Optimum, 10 : 1")
    axis.set_xticks(places)
    axis.legend(frameon=False, fontsize=8, loc="upper right")


def _draw_crowded(axis: "Axes", crowded: Sequence[SphereOptimum]) -> None:
    for loss, marker in (("sincere", "o"), ("supcon", "x")):
        chosen = [one for one in crowded if one.loss == loss]
        classes, cosines = [one.classes for one in chosen], [one.arrangement.largest_cosine for one in chosen]
        axis.plot(classes, cosines, marker, color=COLOURS[loss], markersize=7, linestyle="none", label=TITLES[loss])
    axis.plot(list(TAMMES), list(TAMMES.values()), color=GREY, linewidth=1, label="best packing")
    axis.set(xlabel="equal classes, d = 3", ylabel="largest cosine of two means", title="Optimum, K > d + 1")
    axis.set_xticks(list(TAMMES))
    axis.legend(frameon=False, fontsize=8)


CLASS_SIZES = (
    Claim(
        25,
        "imbalance",
        "open question on Feeney and Hughes 2023 and Graf et al. 2021, whose theorems need balanced classes",
        "what do unequal classes, and many of them, do to the optimum?",
        "not examined",
        imbalance,
        decisive=r"(SINCERE|SupCon), mean over anchors, τ = 0\.5$",
    ),
)
