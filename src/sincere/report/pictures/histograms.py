"""Cosines of same-class pairs against cosines of other pairs: the less the two hills overlap, the better."""

import numpy as np

from sincere.geometry.record import SimilarityHistograms
from sincere.report.palette import OTHER, SAME
from sincere.report.picture import Picture, Table, in_style, new_figure
from sincere.report.subject import Subject
from sincere.report.verdict import Verdict, graded, percent, signed
from sincere.tables import amount


@in_style
def histograms_picture(subject: Subject) -> Picture:
    """Shares of pairs by cosine, each hill adding up to 100 %."""
    found = subject.geometry.histograms
    edges = np.array(found.edges)
    figure, axes = new_figure(5.6, 3.5)
    hills = (
        ("same class (target)", found.within, SAME, "-", "////"),
        ("other class (noise)", found.between, OTHER, "--", ""),
    )
    for title, counts, colour, line, hatch in hills:
        if not sum(counts):
            continue
        shares = 100 * np.array(counts) / sum(counts)
        axes.stairs(shares, edges, fill=True, color=colour, alpha=0.22, linewidth=0, hatch=hatch)
        axes.stairs(shares, edges, color=colour, linewidth=1.7, linestyle=line, label=title)
    seen = np.nonzero(np.array(found.within) + np.array(found.between))[0]
    if len(seen):
        margin = 0.04
        axes.set_xlim(max(-1.0, edges[seen[0]] - margin), min(1.0, edges[seen[-1] + 1] + margin))
    axes.set_xlabel("cosine of two embeddings")
    axes.set_ylabel("per cent of pairs in a bin")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.16), ncols=2)
    rows = zip(found.edges[:-1], found.edges[1:], found.within, found.between, strict=True)
    return Picture(
        name="similarities",
        title="Target and noise",
        verdict=_verdict(found),
        alt="Histograms of the cosine of same-class pairs and of other-class pairs.",
        figure=figure,
        table=Table(("from", "to", "same-class pairs", "other-class pairs"), tuple(rows)),
    )


def _verdict(found: SimilarityHistograms) -> Verdict:
    if found.overlap is None or found.median_within is None or found.median_between is None:
        there = "Only one" if found.pairs_within or found.pairs_between else "Neither"
        return Verdict("open", f"{there} of the two hills exists: it takes two classes, and two samples of a class.")
    pairs = amount(found.pairs_within + found.pairs_between, "pair")
    drawn = "" if found.sampled is None else f" of {found.sampled:,} samples drawn at random"
    grade = graded(found.overlap, good=0.1, mixed=0.3)
    end = {
        "good": "targets and noise are well apart",
        "mixed": "most pairs can be told apart, some cannot",
        "poor": "many pairs of two classes look like pairs of one",
    }[grade]
    return Verdict(
        grade,
        f"The two hills share {percent(found.overlap)} of their area (0 is best; {pairs}{drawn}): the median cosine is "
        f"{signed(found.median_within)} within classes and {signed(found.median_between)} between them, so {end}.",
    )
