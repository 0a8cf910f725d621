"""Are the class means as far apart as they can be? At the optimum of the losses they form a regular simplex."""

from typing import Any

import numpy as np

from sincere.geometry.directions import class_means
from sincere.geometry.record import SimplexConditions
from sincere.report.palette import COLOURS, FAINT, colour_of
from sincere.report.picture import Picture, Table, in_style, new_figure, rounded, short_names
from sincere.report.subject import Subject
from sincere.report.verdict import Verdict, graded, signed

MOST_DRAWN = 4  # classes whose simplex can be drawn as it is: a segment, a triangle, a tetrahedron
BESIDE = 0.17  # from the end of an arrow to the middle of its name, clear of the dot
TOGETHER = 0.3  # arrows whose ends are closer have names that would cover each other
MOST_ROWS = 26  # classes that can have a row each
SHARED = 0.3  # cosine from which two classes have much of their direction in common


@in_style
def simplex_picture(subject: Subject) -> Picture | None:
    """The simplex itself for up to four classes, and the cosines of all pairs of class means; None for one class."""
    found = subject.geometry.simplex
    present = [c for c, count in enumerate(subject.geometry.class_counts) if count]
    if len(present) < 2 or found.target is None:
        return None
    figure, axes = new_figure(5.6, 3.6)
    if len(present) <= MOST_DRAWN:
        figure.delaxes(axes)
        solid = len(present) == 4 and subject.geometry.dim >= 3
        _draw_means(figure.add_subplot(projection="3d" if solid else None), subject, present)
    else:
        figure.set_figheight(1.5 + 0.2 * min(len(present), MOST_ROWS) if len(present) <= MOST_ROWS else 3.4)
        _draw_cosines(axes, found, present)
    pairs = [(a, b) for a in present for b in present if a < b]
    names = found.class_names
    rows = tuple((names[a], names[b], rounded(found.cosines[a][b]), rounded(found.target)) for a, b in pairs)
    return Picture(
        name="simplex",
        title="Simplex of the class means",
        verdict=_verdict(found, len(present)),
        alt=f"Cosines between the means of {len(present)} classes against {signed(found.target)}, a regular simplex.",
        figure=figure,
        table=Table(("class", "other class", "cosine of their means", "at a regular simplex"), rows),
    )


def _draw_cosines(axes: Any, found: SimplexConditions, present: list[int]) -> None:
    """A row a class with a dot for every other; one histogram where rows would be too many."""
    assert found.target is not None
    cosines = np.array([[np.nan if x is None else x for x in row] for row in found.cosines], dtype=float)
    cosines = cosines[np.ix_(present, present)]
    np.fill_diagonal(cosines, np.nan)
    axes.axvline(found.target, color=FAINT, linestyle="--", linewidth=1.4)
    if len(present) > MOST_ROWS:
        axes.hist(cosines[np.triu_indices(len(present), 1)], bins=60, color=COLOURS[0], alpha=0.8)
        axes.set_ylabel("pairs of classes")
    else:
        for row, values in enumerate(cosines):
            axes.plot(values, np.full(len(values), row), "o", color=COLOURS[0], alpha=0.55, markersize=5)
        axes.set_yticks(range(len(present)), short_names([found.class_names[c] for c in present], 16))
        axes.set_ylim(len(present) - 0.4, -0.6)
    label = f"regular simplex: {signed(found.target)}"
    axes.annotate(label, (found.target, 1.0), (4, 3), xycoords=("data", "axes fraction"), textcoords="offset points")
    low, high = np.nanmin(cosines), np.nanmax(cosines)
    axes.set_xlim(max(-1.05, min(low, found.target) - 0.12), min(1.05, max(high, 0.25) + 0.08))
    axes.set_xlabel("cosine between the means of two classes")


def _draw_means(axes: Any, subject: Subject, present: list[int]) -> None:
    """Class means as arrows from the middle, with the regular simplex that fits them best in dashes."""
    means = _means(subject, present)
    space = 3 if axes.name == "3d" else 2
    _, _, directions = np.linalg.svd(means, full_matrices=False)
    placed = means @ directions[:space].T
    placed = np.pad(placed, ((0, 0), (0, space - placed.shape[1])))
    ideal = _regular_simplex(len(present), space)
    left, _, right = np.linalg.svd(placed.T @ ideal)
    placed = placed @ (left @ right)  # turned, and mirrored where that fits better
    for a in range(len(present)):
        for b in range(a):
            axes.plot(*zip(ideal[a], ideal[b], strict=True), "--", color=FAINT, linewidth=1)
            axes.plot(*zip(placed[a], placed[b], strict=True), "-", color=FAINT, linewidth=0.8)
    names = short_names([subject.test.class_names[c] for c in present], 16)
    for place, c in enumerate(present):
        axes.plot(*zip(np.zeros(space), placed[place], strict=True), color=colour_of(c), linewidth=2.4)
        axes.plot(*placed[place : place + 1].T, "o", color=colour_of(c), markersize=8)
        length = float(np.linalg.norm(placed[place]))
        beyond = placed[place] * (1 + BESIDE / length) if length > BESIDE else BESIDE * ideal[place]
        axes.text(*beyond, names[place], ha=_side(placed, place), va="center", fontweight="bold")
    axes.set_axis_off()
    axes.set_aspect("equal")
    if space == 3:
        axes.view_init(elev=16, azim=28)
        axes.set_box_aspect((1, 1, 1), zoom=1.35)
    else:
        axes.add_patch(_unit_circle())
        axes.set_xlim(-1.3, 1.3)
        axes.set_ylim(-1.2, 1.2)
    axes.set_title("solid: class means; dashed: regular simplex of unit length", fontsize=8.5)


def _side(placed: "np.ndarray", place: int) -> str:
    """How a name lies at its arrow's end: in the middle, or to its own side of another that ends there too."""
    others = np.delete(placed, place, axis=0) - placed[place]
    near = others[np.linalg.norm(others, axis=1) < TOGETHER]
    if not len(near):
        return "center"
    return "right" if near[0, 0] > 0 else "left"


def _unit_circle() -> Any:
    from matplotlib.patches import Circle

    return Circle((0, 0), 1, fill=False, color=FAINT, linewidth=0.6, alpha=0.6)


def _means(subject: Subject, present: list[int]) -> "np.ndarray":
    """Mean of the unit embeddings of each class; its length is 1 when they all coincide."""
    test = subject.test
    return class_means(test.embeddings, test.labels, classes=len(test.class_names))[present].numpy()


def _regular_simplex(corners: int, space: int) -> "np.ndarray":
    """Unit vectors whose cosines are −1/(K−1), in as many dimensions as asked for."""
    corner = np.zeros((corners, max(space, corners - 1)))
    for place in range(corners - 1):  # each new axis takes the next corner as far as its length allows
        corner[place, place] = np.sqrt(1 - (corner[place] ** 2).sum())
        corner[place + 1 :, place] = (-1 / (corners - 1) - corner[place + 1 :] @ corner[place]) / corner[place, place]
    corner[-1, : corners - 1] = -corner[:-1, : corners - 1].sum(axis=0)
    return corner[:, ::-1][:, :space] if space == corners - 1 else corner[:, :space]  # the first corner points up


def _verdict(found: SimplexConditions, classes: int) -> Verdict:
    assert found.target is not None
    if found.mean_deviation is None or found.largest_deviation is None or found.mean_cosine is None:
        return Verdict("open", "Some class means have no direction, so there are no angles to compare.")
    told = (
        f"The means of {classes:,} classes are as far apart as can be when every two have cosine "
        f"{signed(found.target)}: here they have {signed(found.mean_cosine)} on average, off by "
        f"{signed(found.mean_deviation)} in the mean and by {signed(found.largest_deviation)} at most"
    )
    if not found.fits:
        return Verdict("open", f"{told}; with so few dimensions no embedding could reach it for all pairs.")
    grade = graded(found.mean_deviation, good=0.1, mixed=0.3)
    end = {
        "good": "close to a regular simplex",
        "mixed": "on the way to a simplex, which is no fault where some classes are akin",
        "poor": f"far from a simplex: {_why_far(found)}",
    }[grade]
    return Verdict(grade, f"{told}: {end}.")


def _why_far(found: SimplexConditions) -> str:
    pairs = [x for a, row in enumerate(found.cosines) for x in row[:a] if x is not None]
    if max(pairs) >= SHARED:
        return "some classes share much of their direction"
    return "no two classes share much of their direction, but they could point further away from each other"
