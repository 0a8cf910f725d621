"""The embeddings as points: a still picture of what the page shows as one to touch."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sincere.report.map_names import write_names
from sincere.report.palette import FAINT, INK, MARKERS, class_symbol, colour_of
from sincere.report.picture import Picture, Table, any_letters, in_style, new_figure
from sincere.report.projections import NEIGHBOURS, PointMap, Projection
from sincere.report.subject import Subject
from sincere.report.verdict import Grade, Verdict, percent
from sincere.tables import amount


@in_style
def point_map_picture(subject: Subject, found: PointMap) -> Picture:
    """Every projection side by side, mistakes ringed."""
    figure, axes = new_figure(5.6 * max(1, len(found.projections)), 4.6)
    figure.delaxes(axes)
    labels = subject.test.labels[found.chosen].numpy()
    predicted = predictions(subject, found)
    for place, one in enumerate(found.projections, start=1):
        solid = one.points.shape[1] == 3
        part = figure.add_subplot(1, len(found.projections), place, projection="3d" if solid else None)
        _draw(part, one, labels, predicted)
    names, classes = subject.test.class_names, len(np.unique(labels))
    with any_letters():
        figure.draw_without_rendering()  # lays it out: before that nobody knows what a name covers
        for part, one in zip(figure.axes, found.projections, strict=True):
            named = write_names(part, one.points, labels, names)
            if named < classes:
                part.set_title(f"{one.title} ({named:,} of {amount(classes, 'class', 'classes')} named)")
    header = ["sample", "class", "predicted"]
    header += [f"{one.key} {axis}" for one in found.projections for axis in "xyz"[: one.points.shape[1]]]
    placed = np.concatenate([one.points for one in found.projections], axis=1)
    said: Sequence[int | None] = predicted or [None] * len(labels)
    rows = [
        (int(sample), names[label], None if taken is None else names[taken], *map(float, point))
        for sample, label, taken, point in zip(found.chosen.tolist(), labels, said, placed.round(5), strict=True)
    ]
    return Picture(
        name="map",
        title="Map of the embeddings",
        verdict=_verdict(subject, found),
        alt=f"{amount(len(labels), 'embedding')} as points coloured by class: "
        f"{', '.join(one.title for one in found.projections)}.",
        figure=figure,
        table=Table(tuple(header), tuple(rows)),
    )


def predictions(subject: Subject, found: PointMap) -> list[int] | None:
    """What the first classifier said of the points; None where none was run."""
    if not subject.evaluation.classifiers:
        return None
    said = subject.evaluation.classifiers[0].predicted
    return [said[sample] for sample in found.chosen.tolist()]


def _draw(axes: Any, one: Projection, labels: Any, predicted: list[int] | None) -> None:
    axes.set_title(one.title)
    for number in sorted(set(labels.tolist())):
        mine = one.points[labels == number]
        axes.scatter(
            *mine.T,
            s=12,
            color=colour_of(number),
            marker=MARKERS[class_symbol(number)],
            alpha=0.75,
            linewidths=0,
            rasterized=True,
        )
    if predicted is not None:
        wrong = one.points[np.array(predicted) != labels]
        axes.scatter(*wrong.T, s=42, facecolors="none", edgecolors=INK, linewidths=1.1)
    axes.grid(visible=False)
    if one.points.shape[1] == 3:
        _draw_sphere(axes)
        return
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_visible(True)
        side.set_color(FAINT)
        side.set_linewidth(0.6)
    axes.set_aspect("equal", adjustable="datalim")


def _draw_sphere(axes: Any) -> None:
    turn, rise = np.meshgrid(np.linspace(0, 2 * np.pi, 25), np.linspace(-np.pi / 2, np.pi / 2, 13))
    axes.plot_wireframe(
        np.cos(rise) * np.cos(turn), np.cos(rise) * np.sin(turn), np.sin(rise), color=FAINT, linewidth=0.3, alpha=0.5
    )
    axes.set_axis_off()
    axes.set_aspect("equal")


def _verdict(subject: Subject, found: PointMap) -> Verdict:
    ring = "" if predictions(subject, found) is None else ", and rings mark what was classified wrong"
    told = f"Each class should be an island of its own{ring}"
    sizes = np.bincount(subject.test.labels[found.chosen].numpy())
    if found.agreement is None or found.judged is None or (sizes > 1).sum() < 2:
        return Verdict("open", f"{told}.")
    few, alone = bool(((sizes > 0) & (sizes <= NEIGHBOURS)).any()), int((sizes == 1).sum())
    near = "of a point's ten nearest"
    if few:  # more could not be of its class
        near = "of a point's nearest, counting as many as its class has other points and ten at most"
    out = f" {amount(alone, 'point')} without another of the same class {'is' if alone == 1 else 'are'} left out."
    shares = ", ".join(
        f"{percent(found.agreements[one.key], 0)} in {one.title if one.key == 'pca' else 'the ' + one.title.lower()}"
        for one in found.projections
        if one.key in found.agreements
    )
    # Of noise with 95 % in one class, 90 % of the nearest agree.
    grade: Grade = "good" if found.judged >= 0.9 else "mixed" if found.judged >= 0.6 else "poor"
    whole, alike = percent(found.agreement, 0), percent(found.judged, 0)
    every = "" if alike == whole else f" and, counting every class alike, {alike}"
    end = {
        "good": "the classes keep to themselves",
        "mixed": "the classes touch, and in places they mix",
        "poor": "the classes are mixed with each other",
    }[grade]
    return Verdict(
        grade,
        f"{told}: {near}, {whole} have its class in the whole space ({shares}; "
        f"the closer to the first figure, the more a picture can be trusted){every}, so {end}.{out if alone else ''}",
    )
