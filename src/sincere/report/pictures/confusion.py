"""Which class was taken for which."""

from typing import Any

import numpy as np

from sincere.evaluate.accuracy import ENOUGH
from sincere.report.palette import OTHER, SAME, shares_map
from sincere.report.picture import Picture, Table, cell_text, colour_bar, heat_ticks, in_style, new_figure
from sincere.report.subject import Subject
from sincere.report.verdict import Grade, Verdict, graded, percent, some
from sincere.tables import amount

MOST_NUMBERS = 16
MOST_CELLS = 100  # classes up to which a cell of the matrix can be seen
GOOD, MIXED = 0.9, 0.5  # share right in the hardest class


@in_style
def confusion_picture(subject: Subject) -> Picture | None:
    """Rows are true classes and add up to 100 %, columns what the first classifier said."""
    found = subject.evaluation
    if not found.classifiers:
        return None
    first = found.classifiers[0]
    counts = found.confusion(first.method).numpy()
    totals = counts.sum(axis=1, keepdims=True)
    shares = counts / np.maximum(totals, 1)
    figure, axes = new_figure(5.6, 4.9)
    if len(counts) > MOST_CELLS:
        _draw_dots(axes, counts)
    else:
        # Where no number stands in a cell, mistakes of a few per cent have to show by their colour.
        drawn = axes.imshow(100 * shares, cmap=shares_map(), norm=_scale(len(counts)), interpolation="none")
        colour_bar(figure, axes, drawn, "per cent of the true class")
    heat_ticks(axes, found.class_names)
    if len(counts) <= MOST_NUMBERS:
        for (row, column), count in np.ndenumerate(counts):
            if count:
                cell_text(axes, row, column, f"{count:,}", on_dark=shares[row, column] > 0.55)
    axes.set_xlabel(f"predicted by {first.title}")
    axes.set_ylabel("true class")
    names = found.class_names
    rows = [
        (names[a], names[b], int(counts[a, b]), float(shares[a, b]))
        for a, b in np.ndindex(counts.shape)
        if counts[a, b]
    ]
    return Picture(
        name="confusion",
        title="Confusions",
        verdict=_verdict(subject, counts),
        alt=f"Confusion matrix of {amount(len(names), 'class', 'classes')}; the diagonal holds what was right.",
        figure=figure,
        table=Table(("true class", "predicted", "samples", "share of the true class"), tuple(rows)),
    )


def _scale(classes: int) -> Any:
    from matplotlib.colors import PowerNorm

    return PowerNorm(1 if classes <= MOST_NUMBERS else 0.5, vmin=0, vmax=100)


def _draw_dots(axes: Any, counts: "np.ndarray") -> None:
    """What was right as a line and mistakes as crosses: a thousandth of a matrix could not be seen."""
    right = np.nonzero(np.diag(counts))[0]
    rows, columns = np.nonzero(counts - np.diag(np.diag(counts)))
    axes.scatter(right, right, s=4, color=SAME, linewidths=0, label="right", rasterized=True)
    axes.scatter(columns, rows, s=14, color=OTHER, marker="x", linewidths=0.9, label="mistake", rasterized=True)
    margin = 0.02 * len(counts)
    axes.set_xlim(-margin, len(counts) - 1 + margin)
    axes.set_ylim(len(counts) - 1 + margin, -margin)
    axes.set_aspect("equal")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)


def _verdict(subject: Subject, counts: "np.ndarray") -> Verdict:
    found, wrong = subject.evaluation, counts.copy()
    names = found.class_names
    np.fill_diagonal(wrong, 0)
    if len(names) == 1:
        return Verdict("open", "There is one class only, so nothing can be confused.")
    n = amount(len(found.labels), "sample")
    if not wrong.any():
        return Verdict("good", f"Everything lies on the diagonal: none of {n} is wrong.")
    often = sorted(((int(wrong[a, b]), a, b) for a, b in np.argwhere(wrong)), key=lambda x: -x[0])
    shown = some([f"{names[a]} for {names[b]} ({count})" for count, a, b in often[:3]])
    such = "most often " if often[0][0] > 1 else "such as " if len(often) > 1 else ""
    grade, ends = _by_class(subject, counts)
    return Verdict(
        grade,
        "; ".join([f"Whatever is off the diagonal is a mistake: {int(wrong.sum()):,} of {n}, {such}{shown}", *ends])
        + ".",
    )


def _by_class(subject: Subject, counts: "np.ndarray") -> tuple[Grade, list[str]]:
    """The grade of the hardest class, and what is to be said of the classes.

    A class of a few samples can be at 0 % by bad luck: such classes are judged together. A class that nobody could vote
    for is not judged.
    """
    right, sizes = np.diag(counts), counts.sum(axis=1)
    can = np.zeros(len(sizes), dtype=bool)
    can[subject.test.labels[subject.attainable].numpy()] = True
    many, few = np.nonzero(can & (sizes >= ENOUGH))[0], np.nonzero(can & (sizes < ENOUGH))[0]
    shares = [float(right[c] / sizes[c]) for c in many]
    ends = []
    if len(many):
        hardest = int(np.argmin(shares))
        name, samples = subject.evaluation.class_names[many[hardest]], sizes[many[hardest]]
        ends.append(_of_the_hardest(name, samples, shares[hardest]))
    if len(few):
        together, judged = int(sizes[few].sum()), "too few to judge"
        if together >= ENOUGH:
            shares.append(float(right[few].sum() / together))
            judged = percent(shares[-1])
        who = f"{amount(len(few), 'class', 'classes')} of fewer than {ENOUGH} samples"
        who = f"{who} is" if len(few) == 1 else f"{who} are, taken together,"
        ends.append(f"{who} right in {right[few].sum():,} of {together:,} ({judged})")
    if hopeless := int(((sizes > 0) & ~can).sum()):
        none = f"{'has' if hopeless == 1 else 'have'} no {'other' if subject.alone else 'training'} sample"
        ends.append(f"{amount(hopeless, 'class', 'classes')} {none} and cannot be right")
    return graded(-min(shares), good=-GOOD, mixed=-MIXED) if shares else "open", ends


def _of_the_hardest(name: str, samples: int, share: float) -> str:
    """On the class of which the least is right."""
    if share == 1:
        return f"every class of {ENOUGH} samples or more is right"
    even, only = ("even ", "") if share >= GOOD else ("", "only ")
    return f"{even}the hardest class, {name}, is right in {only}{percent(share)} of its {samples:,} samples"
