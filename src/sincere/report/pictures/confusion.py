"""Which class was taken for which."""

import numpy as np

from sincere.evaluate import ClassifierResult
from sincere.report.palette import shares_map
from sincere.report.picture import Picture, Table, cell_text, colour_bar, heat_ticks, in_style, new_figure
from sincere.report.subject import Subject
from sincere.report.verdict import Grade, Verdict, percent, some

MOST_NUMBERS = 16


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
    drawn = axes.imshow(100 * shares, cmap=shares_map(), vmin=0, vmax=100, interpolation="none")
    heat_ticks(axes, found.class_names)
    if len(counts) <= MOST_NUMBERS:
        for (row, column), count in np.ndenumerate(counts):
            if count:
                cell_text(axes, row, column, f"{count:,}", on_dark=shares[row, column] > 0.55)
    axes.set_xlabel(f"predicted by {first.title}")
    axes.set_ylabel("true class")
    colour_bar(figure, axes, drawn, "per cent of the true class")
    names = found.class_names
    rows = [
        (names[a], names[b], int(counts[a, b]), float(shares[a, b]))
        for a, b in np.ndindex(counts.shape)
        if counts[a, b]
    ]
    return Picture(
        name="confusion",
        title="Confusions",
        verdict=_verdict(subject, first, counts),
        alt=f"Confusion matrix of {len(names)} classes; the diagonal holds what was classified right.",
        figure=figure,
        table=Table(("true class", "predicted", "samples", "share of the true class"), tuple(rows)),
    )


def _verdict(subject: Subject, first: ClassifierResult, counts: "np.ndarray") -> Verdict:
    found = subject.evaluation
    names = found.class_names
    wrong = counts.copy()
    np.fill_diagonal(wrong, 0)
    if len(names) == 1:
        return Verdict("open", "There is one class only, so nothing can be confused.")
    if not wrong.any():
        return Verdict("good", f"Everything lies on the diagonal: none of {len(found.labels):,} samples is wrong.")
    often = sorted(((int(wrong[a, b]), a, b) for a, b in np.ndindex(wrong.shape) if wrong[a, b]), key=lambda x: -x[0])
    shown = some([f"{names[a]} for {names[b]} ({count})" for count, a, b in often[:3]])
    present = [(value.value, name) for value, name in zip(first.per_class, names, strict=True) if value is not None]
    lowest, hardest = min(present)
    grade: Grade = "good" if lowest >= 0.9 else "mixed" if lowest >= 0.5 else "poor"
    return Verdict(
        grade,
        f"Whatever is off the diagonal is a mistake: {int(wrong.sum()):,} of {len(found.labels):,} samples, most often "
        f"{shown}; even the hardest class, {hardest}, is right in {percent(lowest)} of its samples."
        if grade == "good"
        else f"Whatever is off the diagonal is a mistake: {int(wrong.sum()):,} of {len(found.labels):,} samples, most "
        f"often {shown}; the hardest class, {hardest}, is right in only {percent(lowest)} of its samples.",
    )
