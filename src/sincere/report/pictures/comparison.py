"""Runs side by side: each figure with its interval, and the paired differences."""

import re
from collections.abc import Sequence
from dataclasses import astuple
from itertools import pairwise

from sincere.evaluate import Comparison, compare
from sincere.evaluate.comparison import Difference, corrected_together
from sincere.report.palette import COLOURS, FAINT, colour_of
from sincere.report.picture import Picture, Table, in_style, new_figure, short
from sincere.report.pictures.accuracy import SHOWN, figures_of
from sincere.report.subject import Subject
from sincere.report.verdict import Verdict

MARKS = ("o", "s", "D", "^", "p", "*", "v", "X")


def common_figures(subjects: Sequence[Subject]) -> tuple[tuple[str, str], ...]:
    """What every subject was measured by: (method, metric)."""
    found = [figures_of(subject.evaluation) for subject in subjects]
    return tuple(key for key in found[0] if all(key in other for other in found[1:]))


def comparisons(subjects: Sequence[Subject]) -> dict[tuple[str, str], Comparison]:
    """Every headline figure, compared in pairs, and p corrected for all of them, since one page shows and counts them.

    Raises where the test samples differ.
    """
    wanted = [key for key in common_figures(subjects) if key[1] in SHOWN]
    each = [compare(*(s.evaluation for s in subjects), method=method, metric=metric) for method, metric in wanted]
    return dict(zip(wanted, corrected_together(each), strict=True))


@in_style
def runs_picture(subjects: Sequence[Subject]) -> Picture | None:
    """A group a figure, a dot a run."""
    keys = [key for key in common_figures(subjects) if key[1] in SHOWN]
    if not keys:
        return None
    step = 0.75 / len(subjects)
    figure, axes = new_figure(5.6, 1.4 + len(keys) * max(0.45, 0.21 * len(subjects)))
    found = [figures_of(subject.evaluation) for subject in subjects]
    rows = []
    for number, (subject, figures) in enumerate(zip(subjects, found, strict=True)):
        colour, label = colour_of(number), short(subject.name, 24)
        for group, key in enumerate(keys):
            value = figures[key][1]
            place = group + (number - (len(subjects) - 1) / 2) * step
            axes.plot([100 * value.low, 100 * value.high], [place] * 2, color=colour, linewidth=3, alpha=0.4)
            mark = MARKS[number % len(MARKS)]
            axes.plot(100 * value.value, place, mark, color=colour, markersize=6, label=None if group else label)
            rows.append((subject.name, without_k(found[0][key][0]), value.value, value.low, value.high))
    axes.set_yticks(range(len(keys)), [without_k(found[0][key][0]) for key in keys])
    axes.set_ylim(len(keys) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    for above, below in pairwise(range(len(keys))):
        axes.axhline((above + below) / 2, color=FAINT, linewidth=0.4, alpha=0.5)
    axes.set_xlabel("per cent, with 95 % interval")
    longest = max(len(short(subject.name, 24)) for subject in subjects)
    columns = 3 if longest <= 15 else 2  # what fits above the picture
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=min(columns, len(subjects)))
    return Picture(
        name="runs",
        title="Every run by itself",
        verdict=Verdict(
            "open",
            "Intervals of this picture overlap easily; whether one run is better is said by the paired differences, "
            "which compare the runs sample by sample.",
        ),
        alt="Accuracies of the runs as dots with 95 % intervals.",
        figure=figure,
        table=Table(("run", "figure", "value", "low", "high"), tuple(rows)),
    )


@in_style
def differences_picture(found: dict[tuple[str, str], Comparison]) -> Picture | None:
    """First minus second with its paired interval; real ones are filled."""
    every = [difference for one in found.values() for difference in one.differences]
    if not every:
        return None
    figure, axes = new_figure(5.6, 1.0 + 0.4 * len(every))
    axes.axvline(0, color=FAINT, linewidth=1)
    for place, one in enumerate(every):
        real = one.verdict == "real"
        colour = COLOURS[0] if real else FAINT
        low, high = 100 * one.estimate.low, 100 * one.estimate.high
        axes.plot([low, high], [place, place], color=colour, linewidth=3, alpha=0.5)
        axes.plot(
            100 * one.estimate.value, place, "o", color=colour, markersize=6, fillstyle="full" if real else "none"
        )
    names = [
        f"{short(one.first, 18)} − {short(one.second, 18)}\n{one.figure.replace(' accuracy', '')}" for one in every
    ]
    axes.set_yticks(range(len(every)), names, fontsize=8.5)
    axes.set_ylim(len(every) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("difference in points, with paired 95 % interval")
    told = sum(one.verdict == "real" for one in every)
    return Picture(
        name="differences",
        title="Paired differences",
        verdict=Verdict(
            "open",
            f"To the right of zero the first run is better, to the left the second; a filled dot is a real difference: "
            f"{told or 'none'} of {len(every)} here.",
        ),
        alt="Differences between runs with paired 95 % intervals around a line at zero.",
        figure=figure,
        table=_table_of(every),
    )


def _table_of(differences: Sequence[Difference]) -> Table:
    names = ("first", "second", "figure", "difference", "low", "high", "test", "p (Holm)", "verdict")
    rows = (
        (one.first, one.second, one.figure, *astuple(one.estimate), one.test.name, one.p_holm, one.verdict)
        for one in differences
    )
    return Table(names, tuple(rows))


def without_k(title: str) -> str:
    """Without the k, which may differ from run to run.

    >>> without_k("k-NN (k = 10), balanced"), without_k("k-NN (k = 5, small classes)")
    ('k-NN, balanced', 'k-NN')
    """
    return re.sub(r" \(k = \d+[^)]*\)", "", title)
