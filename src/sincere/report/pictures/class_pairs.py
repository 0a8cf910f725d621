"""How alike two classes are: the mean cosine of their pairs, as a matrix."""

import numpy as np

from sincere.geometry.record import PairSimilarity
from sincere.report.palette import cosines_map
from sincere.report.picture import (
    Picture,
    Table,
    cell_text,
    colour_bar,
    heat_ticks,
    in_style,
    new_figure,
    rounded,
    short,
)
from sincere.report.subject import Subject
from sincere.report.verdict import Grade, Verdict, signed, some
from sincere.tables import amount

MOST_NUMBERS = 12  # classes up to which a cell has room for its number
MOST_CELLS = 100  # classes up to which a cell can be seen


@in_style
def class_pairs_picture(subject: Subject) -> Picture:
    """The diagonal is a class with itself."""
    found = subject.geometry.similarity
    means = np.array([[np.nan if mean is None else mean for mean in row] for row in found.means], dtype=float)
    figure, axes = new_figure(5.6, 4.9)
    drawn = axes.imshow(means, cmap=cosines_map(), vmin=-1, vmax=1, interpolation="none")
    heat_ticks(axes, found.class_names)
    if len(means) > MOST_CELLS:  # the diagonal is what to look for
        places = np.arange(len(means))
        axes.scatter(places, places, c=np.diag(means), cmap=cosines_map(), vmin=-1, vmax=1, s=5, rasterized=True)
    if len(means) <= MOST_NUMBERS:
        for (row, column), mean in np.ndenumerate(means):
            cell_text(axes, row, column, "–" if np.isnan(mean) else signed(mean), on_dark=abs(mean) > 0.6)
    colour_bar(figure, axes, drawn, "mean cosine of pairs")
    names = found.class_names
    cells = tuple(  # symmetric: every two classes once
        (names[a], names[b], rounded(found.means[a][b]), found.counts[a][b])
        for a in range(len(names))
        for b in range(a, len(names))
    )
    return Picture(
        name="class_pairs",
        title="Class pairs",
        verdict=_verdict(found),
        alt=f"Mean cosines of {amount(len(names), 'class', 'classes')}; the diagonal is a class with itself.",
        figure=figure,
        table=Table(("class", "other class", "mean cosine", "pairs"), cells),
    )


def _verdict(found: PairSimilarity) -> Verdict:
    names, means = found.class_names, found.means
    if found.between is None or found.within is None:
        return Verdict("open", "There is nothing to compare: it takes two classes, and two samples of one.")
    other = {(a, b): m for a, row in enumerate(means) for b, m in enumerate(row) if a < b and m is not None}
    (a, b), closest = max(other.items(), key=lambda item: item[1])
    told = (
        f"The diagonal should be dark blue and the rest pale or orange: two samples of one class have cosine "
        f"{signed(found.within)} on average, of two classes {signed(found.between)}; the closest two are "
        f"{short(names[a], 30)} and {short(names[b], 30)} ({signed(closest)})"
    ).replace(r"\$", "$")
    mixed_up = [
        names[c]
        for c, row in enumerate(means)
        if (own := row[c]) is not None and any(m is not None and m >= own for k, m in enumerate(row) if k != c)
    ]
    if not mixed_up:
        apart = all(closest < own / 2 for c, row in enumerate(means) if (own := row[c]))
        end = "every class is closest to itself" + (", by far" if apart else "")
        return Verdict("good" if apart else "mixed", f"{told}: {end}.")
    grade: Grade = "mixed" if len(mixed_up) <= 0.1 * len(names) else "poor"
    verb = "is as close" if len(mixed_up) == 1 else "are as close"
    return Verdict(grade, f"{told}: {some(mixed_up)} {verb} to another class as to itself.")
