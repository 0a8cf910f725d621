"""The answers to open questions that need no data (claims 25, 26, 27 and 29): other figures, other words."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from matplotlib.figure import Figure

from sincere import theory
from sincere.claims import (
    ClaimResult,
    class_sizes,
    information,
    long_tail,
    open_optimum,
    projection_head,
    reproduce,
)

ROOT = Path(__file__).parents[1]


def drawn(draw, *arguments):
    """Draw it, as the command does; warnings are errors here."""
    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    draw(figure, *arguments)
    figure.canvas.draw()
    assert figure.axes


def curve(bounds, last_gains=None, error=0.01):
    """A bound by temperature, at |N| = 4, 16 and 64, where the truth is 2 nats."""
    points = []
    for temperature, values in bounds.items():
        for size, before, value in zip((4, 16, 64), (None, *values), values, strict=False):
            gain = None if before is None else value - before
            points.append(
                theory.KlBoundPoint("sincere", size, temperature, value, error, gain, None if gain is None else error)
            )
    return theory.KlBoundCurve(2, 2.0, 1.0, 8, 100, 0, 2.0, tuple(points))


def told(found):
    return information.answer(found, {size: information.best_temperature(found, size) for size in (4, 16, 64)})


USUAL = {0.25: (0.1, -0.5, -1.5), 1.0: (0.8, 1.5, 1.99), 4.0: (0.4, 0.7, 0.8)}


def test_the_answer_on_temperature_reads_its_figures():
    words = told(curve(USUAL))
    assert words.startswith(
        "Temperature and |N| do different things: τ = 1 is tightest at every |N|, the τ at which the critic is the log "
        "density ratio; at τ = 1 |N| closes the gap to the true 2 nats, from 0.80 at 4 to 1.99 at 64. More negatives "
        "do not make up for a wrong τ, and loosen the bound at τ = 0.25: at |N| = 64 the bound is −1.5 at τ = 0.25 and "
        "0.8 at τ = 4."
    )
    assert "1.11 for 10 classes at τ = 1" in words


@pytest.mark.parametrize(
    ("changes", "there", "missing"),
    [
        ({0.25: (0.1, 0.2, 0.3)}, "make up for a wrong τ: at |N| = 64", "loosen"),
        ({0.25: (0.1, 0.2, 0.18)}, "make up for a wrong τ: at |N| = 64", "loosen"),  # within the noise
        ({4.0: (0.4, 0.7, 0.5)}, "and loosen the bound at τ = 0.25 and 4:", "make up for τ"),
        ({1.0: (0.8, 1.5, 1.9)}, "|N| narrows the gap to the true 2 nats", "closes"),
        ({1.0: (1.5, 1.5, 1.5)}, "|N| does not narrow the gap to the true 2 nats", "closes"),
        ({1.0: (1.96, 1.97, 2.4)}, "|N| does not narrow the gap to the true 2 nats", "closes"),  # past the truth
        ({4.0: (0.4, 0.7, 1.97)}, "More negatives make up for τ = 4, and loosen", "do different things"),
        ({4.0: (0.9, 1.6, 2.0)}, "τ = 4 is tightest at every |N|, and not 1, the τ at which", "do different things"),
        ({4.0: (0.9, 0.7, 0.8)}, "The tightest τ is 4 at |N| = 4, 1 at |N| = 16, 1 at |N| = 64", "do different things"),
    ],
)
def test_other_bounds_have_other_words(changes, there, missing):
    words = told(curve(USUAL | changes))
    assert there in words
    assert missing not in words


def study(cosines, *, temperature=0.5, half=2, losses=class_sizes.LOSSES):
    """An optimum by loss and ratio, made up: large, between and small."""
    rows = tuple(
        theory.ImbalanceRow(loss, ratio, (1,), *of_ratio, 0.0, 1.0, 1.0, True)
        for loss in losses
        for ratio, of_ratio in cosines[loss].items()
    )
    return theory.ImbalanceOptimum(half, half, 8, 2 * half - 1, temperature, 0.0, "mean", False, 0, rows)


THIRD, FEW = -1 / 3, -1 / 7
AT_SIMPLEX = {loss: dict.fromkeys((1, 25, 50), (THIRD,) * 3) for loss in class_sizes.LOSSES}
BROKEN = {
    "sincere": {1: (THIRD,) * 3, 25: (-0.9, -0.2, 0.6), 50: (-0.9, -0.2, 0.995)},
    "supcon": {1: (THIRD,) * 3, 25: (-0.8, -0.2, 0.3), 50: (-0.8, -0.2, 0.7)},
    "cross_entropy": {1: (THIRD,) * 3, 25: (-0.5, -0.3, 0.1), 50: (-0.5, -0.3, 0.2)},
}


def answered(plain=BROKEN, cold=-0.1, weighed=(0.8, 0.7), balanced=AT_SIMPLEX, classes=(0.5, 0.0), collapse=1e-9):
    both = class_sizes.LOSSES[:2]
    by_ratio = {loss: {25: (-0.4, -0.3, cold)} for loss in both}
    of_classes = {loss: {50: (0.1, -0.3, value)} for loss, value in zip(both, weighed, strict=True)}
    studies = {
        "plain": study(plain),
        "cold": study(by_ratio, temperature=0.1, losses=both),
        "weighed": study(of_classes, losses=both),
        "balanced": study(balanced, losses=both),
    }
    by_classes = [
        study({"sincere": {10: (-0.4, -0.3, cosine)}}, half=half, losses=("sincere",))
        for half, cosine in zip((2, 4), classes, strict=True)
    ]
    crowd = theory.sphere_optimum("sincere", classes=6, points=12)
    crowd = replace(crowd, arrangement=replace(crowd.arrangement, collapse=collapse, largest_cosine=0.125))
    return class_sizes.answer(studies, by_classes, [crowd])


def test_the_answer_on_imbalance_reads_its_figures():
    assert answered() == (
        "Imbalance breaks the simplex, and small classes move together: at a ratio of 50 the cosine of two small "
        "classes, −0.3333 at the simplex, is 0.995 with SINCERE, 0.7 with SupCon, 0.2 with cross-entropy (τ = 0.5; "
        "SINCERE's share one direction from a ratio of 50). With SINCERE it is lower at a lower temperature (−0.1 at "
        "τ = 0.1 and 25:1, 0.6 at τ = 0.5), and nearer to the simplex with more classes (0.5 with 4, 0 with 8 at a "
        "ratio of 10). With the mean over classes alone it is lower for SINCERE (0.8, of large classes 0.1) and the "
        "same for SupCon (0.7, of large classes 0.1). With class_balanced=True and the mean over classes, so that they "
        "weigh alike as contrasts and as anchors, the optimum is the simplex again: up to 50:1 no cosine is off it by "
        "more than 0. With more than d + 1 equal classes each still collapses, and the largest cosine of two means "
        "comes within 0.125 of the best packing."
    )


@pytest.mark.parametrize(
    ("changes", "there"),
    [
        ({"plain": AT_SIMPLEX}, "Imbalance leaves the simplex as it is: at a ratio of 50"),
        ({"plain": AT_SIMPLEX}, "SINCERE's never merge"),
        (
            {"plain": {loss: {25: (0.5, -0.4, -0.6), 50: (0.5, -0.4, -0.6)} for loss in class_sizes.LOSSES}},
            "Imbalance breaks the simplex, though small classes do not move together",
        ),
        (
            {"plain": BROKEN | {"cross_entropy": {25: (0.5, -0.4, -0.6), 50: (0.5, -0.4, -0.6)}}},
            "and small classes move together with SINCERE and SupCon:",
        ),
        ({"cold": 0.9}, "With SINCERE it is higher at a lower temperature (0.9 at τ = 0.1 and 25:1, 0.6 at τ = 0.5)"),
        ({"cold": 0.605}, "With SINCERE it is the same at a lower temperature"),
        ({"classes": (0.5, 0.9)}, "farther from it with more classes (0.5 with 4, 0.9 with 8"),
        (
            {"classes": (0.5, 0.6)},
            "nearer to the simplex with more classes (0.5 with 4, 0.6",
        ),  # whose own cosine is −1/7, not −1/3
        ({"classes": (0.5, 0.5 - THIRD + FEW)}, "as far from it with more classes"),
        ({"weighed": (0.995, 0.9)}, "it is the same for SINCERE (0.995, of large classes 0.1) and higher for SupCon"),
        ({"balanced": BROKEN}, "the optimum is off the simplex by up to 1.328."),
        ({"collapse": 0.2}, "equal classes not every one collapses"),
    ],
)
def test_other_cosines_have_other_words(changes, there):
    assert there in answered(**changes)
    assert there not in answered()


def readings(shift):
    """What four ways end at, of two seeds that differ with SupCon alone."""
    return [
        long_tail.TailReading(
            loss, way, seed, 0.3 - 0.1 * place, 90.0, 70.0 + (shift * place + seed) * (loss == "supcon")
        )
        for loss in long_tail.BOTH
        for place, way in enumerate(long_tail.WAYS)
        for seed in (0, 1)
    ]


def test_the_answer_on_rare_digits_reads_its_figures():
    words = long_tail.tail_answer(readings(5))
    assert (
        "with SINCERE, against the mean over anchors, the cosine of rare ones by −0.3 (−0.3 to −0.3) and the " in words
    )
    assert "accuracy on them by 0 (0 to 0) (no difference shown) points; that accuracy by 0" in words
    assert words.count("no difference shown") == 3  # of SINCERE against each way
    assert (
        "on them by 15 (15 to 15) points; that accuracy by 10 (10 to 10) against mean over classes, and by 5" in words
    )
    assert long_tail.tail_answer(readings(0)).count("no difference shown") == 6


def kept_studies(rows):
    """Optima by name, as the kept CSV of the full form has them: of unequal classes, by weights or by number."""
    optima = {}
    for name in dict.fromkeys(row["study"] for row in rows):
        chosen = [row for row in rows if row["study"] == name]
        cosines = {row["loss"]: {} for row in chosen}
        for row in chosen:
            of_row = (float(row[f"{which}_cosine"]) for which in ("majority", "between", "minority"))
            cosines[row["loss"]][int(row["ratio"])] = tuple(of_row)
        half = int(name.removesuffix(" classes")) // 2 if name.endswith(" classes") else 2
        optima[name] = study(cosines, temperature=0.1 if "0.1" in name else 0.5, half=half, losses=tuple(cosines))
    return optima


def kept_crowd(row):
    plain = theory.sphere_optimum("sincere", classes=int(row["study"].split()[0]), points=24, starts=1, steps=1)
    shape = {name: float(row[name]) for name in ("collapse", "largest_cosine")}
    return replace(plain, arrangement=replace(plain.arrangement, **shape))


def kept_reading(row):
    figures = (float(row[name]) for name in ("rare_cosine", "accuracy", "rare_accuracy"))
    return long_tail.TailReading(row["loss"], row["way"], int(row["seed"]), *figures)


def test_the_kept_answer_on_imbalance_is_that_of_its_rows():
    """The full form takes a quarter of an hour: where its words change, they are written from the rows that it kept."""
    with (ROOT / "reproduce" / "imbalance" / "full.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    trained = [kept_reading(row) for row in rows if row["study"] == "trained"]
    crowded = [kept_crowd(row) for row in rows if "equal classes" in row["study"]]
    optima = kept_studies([row for row in rows if row["collapse"] and "equal classes" not in row["study"]])
    by_classes = [optima.pop(name) for name in ("4 classes", "8 classes", "16 classes")]
    assert (len(optima), len(crowded), len(trained)) == (4, 8, 160)
    kept = ClaimResult.from_json((ROOT / "reproduce" / "imbalance" / "full.json").read_text(encoding="utf-8"))
    words = f"{class_sizes.answer(optima, by_classes, crowded)} {long_tail.tail_answer(trained)}"
    assert kept.reason == words
    figures = {one.what: one for one in kept.measured}
    assert all(figures[one.what] == one for one in long_tail.tail_figures(trained))


def test_the_picture_of_unequal_classes_is_drawn():
    quick = {"ratios": (1, 5), "members": 2, "steps": 60}
    studies = {name: theory.imbalance_optimum(class_sizes.LOSSES, **quick) for name in ("a", "b", "c")}
    weighed = {"reduction": "class_mean", "class_balanced": True}
    studies["d"] = theory.imbalance_optimum(("sincere", "supcon"), **{**quick, "steps": 600}, **weighed)
    by_classes = [theory.imbalance_optimum(("sincere", "supcon"), **quick)]
    crowded = [theory.sphere_optimum(loss, classes=6, points=12) for loss in ("sincere", "supcon")]
    assert class_sizes.farthest(crowded) < 1e-3  # six classes in three dimensions: the octahedron
    assert "the optimum is the simplex again: up to 5:1" in class_sizes.answer(studies, by_classes, crowded)
    drawn(class_sizes._draw, studies, by_classes, crowded, readings(5))


def test_the_answer_on_similarities_reads_its_figures():
    found = [
        theory.similarity_optimum(loss, counts=(3, 3, 3), dim=2, scales=open_optimum.SCALES, starts=1)
        for loss in open_optimum.LOSSES
    ]
    assert open_optimum.similarities_answer(found).startswith("Nothing changes on the sphere")
    assert "differ on the sphere" in open_optimum.similarities_answer(
        [replace(one, sphere_difference=0.1) for one in found]
    )
    inside = [replace(one, rows=tuple(replace(row, norms=(0.2, 1.0)) for row in one.rows)) for one in found]
    assert "another one" in open_optimum.similarities_answer(inside)
    words = open_optimum.settings_in_words([((15,) * 4, 3), ((40, 40, 8, 8), 3), ((15,) * 4, 8)])
    assert (
        words == "4 equal classes in 3 dimensions, 4 unequal classes in 3 dimensions, 4 equal classes in 8 dimensions"
    )
    drawn(open_optimum._draw_similarities, found, {one.loss: one for one in found})


def heads_read(change=lambda row: row, lost=None):
    """Descents from two starts; `change` bends what every head with room for a simplex ends at, `lost` one of them."""
    found = []
    for loss in projection_head.LOSSES:
        for dim in (3, 2):
            tried = [theory.projection_optimum(loss, dim=dim, members=3, starts=1, seed=seed) for seed in (0, 1)]
            for one in projection_head.readings(tried):
                bent = dim == 3 and one.head != "none"
                found.append(replace(one, rows=tuple(map(change, one.rows))) if bent else one)
    if lost is not None:
        found[1] = replace(found[1], rows=(*found[1].rows, lost(found[1].rows[0])))
    return found


def test_the_answer_on_heads_reads_its_figures():
    found = heads_read()
    drawn(projection_head._draw, found)
    words = projection_head.projection_answer(found)
    assert words.startswith("The head takes the simplex upon itself: its output ends at the simplex (off by at most ")
    heads = [one for one in found if one.dim == 3 and one.head != "none"]
    shares = [100 * row.features_within for one in heads for row in one.rows]  # no start is left out here
    assert len(shares) == 8
    means = [sum(shares[place : place + 2]) / 2 for place in (0, 2, 4, 6)]
    for least, most in ((min(shares), max(shares)), (min(means), max(means))):
        assert f" {least:.4g} to {most:.4g} %" in words
    assert "need not collapse: at the same loss" in words
    assert "are left out" not in words
    costs = [min(row.excess for row in one.rows) for one in found if one.dim == 2 and one.head != "none"]
    assert words.endswith(f"costs {min(costs):.4g} to {max(costs):.4g} in the loss.")


def test_other_figures_of_heads_have_other_words():
    off = heads_read(lambda row: replace(row, output=replace(row.output, simplex_deviation=0.3)))
    words = projection_head.projection_answer(off)
    assert words.startswith("The head's output ends off the simplex (off by at most 0.3), and the features in front of")
    assert "need not collapse" in words
    words = projection_head.projection_answer(heads_read(lambda row: replace(row, features_within=2e-6)))
    assert words.startswith("The head's output ends at the simplex")
    assert "collapse as well: at most 0.0002 % of their variance" in words
    assert "need not" not in words
    free = [replace(one, rows=tuple(replace(row, excess=0.0) for row in one.rows)) for one in heads_read()]
    words = projection_head.projection_answer(free)
    assert words.endswith("A head of fewer than K − 1 dimensions costs nothing in the loss.")


def test_a_descent_that_ended_higher_counts_for_no_figure():
    plain = heads_read()
    found = heads_read(lost=lambda row: replace(row, value=row.value + 0.07, features_within=0.9))
    assert found[1].counted == "2 of 3 starts"
    assert found[1].shares == plain[1].shares
    words = projection_head.projection_answer(found)
    assert "Of 9 descents with such a head 1 ended at a higher loss, and are left out." in words
    assert "90 %" not in words


def test_figures_of_features_are_means_over_starts(tmp_path):
    """Of starts that count, by Student's interval: a single one of many equal minima would be luck."""
    result = reproduce("projection-head", out=tmp_path)
    with (tmp_path / "projection-head" / "quick.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row["loss"], row["dim"]) == ("sincere", "3")]
    shares = [float(row["features_within"]) for row in rows if row["head"] == "mlp"]
    figure = {one.what: one for one in result.measured}["SINCERE, mlp: share of the features' variance within classes"]
    assert (figure.n, len(shares)) == ("3 of 3 starts", 3)
    assert figure.value == pytest.approx(np.mean(shares))
    interval = scipy.stats.t.interval(0.95, 2, np.mean(shares), scipy.stats.sem(shares))
    assert (figure.low, figure.high) == pytest.approx(interval)
    assert "3 starts each" in result.setting
