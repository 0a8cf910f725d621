"""Claim 10: cosines of one class with itself and with all others (SINCERE, Section 4.1, Figure 3)."""

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from typing import TYPE_CHECKING

from torch import Tensor

from sincere.claims.auroc import auroc, auroc_left_out
from sincere.claims.claim import Claim, Conditions, Outcome
from sincere.claims.experiments import BOTH, both_losses, experiments, of_one_seed
from sincere.claims.one_left_out import separation_left_out
from sincere.claims.palette import TITLES
from sincere.claims.record import Measured, Verdict
from sincere.claims.sincere_losses import SECTION, changed, known, left_out_of_one, number_of_seeds
from sincere.claims.statistics import over_seeds, wholly_above_zero, wholly_below_zero
from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.geometry import SimilarityHistograms, similarity_histograms
from sincere.recipes.cifar import LossName

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figure_3(conditions: Conditions) -> Outcome:
    """Target and noise of one class: both lower and wider with SINCERE, and less of them in common."""
    one = experiments(conditions)[0]
    sets = {loss: [run.embeddings("test") for run in one.runs(loss)] for loss in BOTH}
    found = {loss: [similarity_histograms(embedded) for embedded in sets[loss]] for loss in BOTH}
    names = found["sincere"][0].class_names
    chosen = names.index("truck") if "truck" in names else len(names) - 1
    without = left_out_of_one(
        sets, lambda some: {**separation_left_out(some, chosen), "auroc": auroc_left_out(some, chosen)}
    )
    changes = {
        name: changed(
            f"{what.format(names[chosen])}, SINCERE − SupCon", _change(found, chosen, read), without, name, paper
        )
        for name, (what, read, paper) in READ.items()
    }
    area, *areas = _areas(sets, chosen, without)
    verdict, reason = judged_separation(changes, of_one_seed(one))
    reason += beside_the_overlap(area, names[chosen])
    rows = [
        {"loss": loss, "run": number, "left": left, "target": target, "noise": other}
        for loss in BOTH
        for number, h in enumerate(found[loss])
        for left, target, other in zip(h.edges, h.within_by_class[chosen], h.between_by_class[chosen], strict=False)
    ]
    return Outcome(
        verdict,
        reason,
        f"{one.title}; class {names[chosen]!r}; {number_of_seeds(one)}",
        (
            *changes.values(),
            *(over_seeds(f"overlap, {TITLES[loss]}", [_overlap(h, chosen) for h in found[loss]]) for loss in BOTH),
            area,
            *areas,
        ),
        tuple(rows),
        lambda figure: _draw_histograms(figure, {loss: found[loss][0] for loss in BOTH}, chosen),
    )


def judged_separation(changes: Mapping[str, Measured], luck: str = "") -> tuple[Verdict, str]:
    """Both distributions lower and wider, and less of them in common; without a lower noise there is nothing of it."""
    holds = {
        "the mean cosine of target and of noise is lower": [
            wholly_below_zero(changes[name]) for name in ("target", "noise")
        ],
        "both spread wider": [wholly_above_zero(changes[name]) for name in ("target spread", "noise spread")],
        "target and noise overlap less": [wholly_below_zero(changes["overlap"])],
    }
    failed = "".join(f" Not shown: {name}{_which(each)}." for name, each in holds.items() if not all(each))
    whole = all(all(each) for each in holds.values())
    verdict: Verdict = "reproduced" if whole else "partly" if wholly_below_zero(changes["noise"]) else "not reproduced"
    return verdict, f"Criteria, with SINCERE and over the whole interval: {'; '.join(holds)}.{luck}{failed}"


def _areas(
    sets: Mapping[LossName, list[EmbeddingSet]], chosen: int, without: Mapping[str, Tensor] | None
) -> list[Measured]:
    """AUROC of the class, the difference first, and of all classes, where an interval would take minutes."""
    name = sets["sincere"][0].class_names[chosen]
    found = {(of, loss): [auroc(some, of) for some in sets[loss]] for of in (chosen, None) for loss in BOTH}
    changes = [a - b for a, b in zip(found[chosen, "sincere"], found[chosen, "supcon"], strict=True)]
    return [
        changed(f"AUROC of {name}, SINCERE − SupCon", changes, without, "auroc", None),
        *(
            over_seeds(f"AUROC of {'all classes' if of is None else name}, {TITLES[loss]}", values)
            for (of, loss), values in found.items()
        ),
    ]


def beside_the_overlap(area: Measured, name: str) -> str:
    """Which loss separates better by a measure that knows of no bins, and that no criterion asks for."""
    better = "SINCERE" if wholly_above_zero(area) else "SupCon" if wholly_below_zero(area) else None
    found = f"{better} separates better" if better else "no difference is shown"
    return (
        f" By the AUROC (the chance that two of class {name!r} are more alike than one of them and a sample of another "
        f"class; not judged) {found}."
    )


def _which(each: Sequence[bool]) -> str:
    """Of a criterion on both distributions the one that it fails on."""
    failing = [name for name, one in zip(("target", "noise"), each, strict=False) if not one]
    return f" (not of the {failing[0]})" if len(each) == 2 and len(failing) == 1 else ""


def _change(
    found: Mapping[LossName, list[SimilarityHistograms]],
    chosen: int,
    read: Callable[[SimilarityHistograms, int], float],
) -> list[float]:
    """SINCERE − SupCon, seed by seed."""
    pairs = zip(found["sincere"], found["supcon"], strict=True)
    return [read(a, chosen) - read(b, chosen) for a, b in pairs]


def _moments(found: SimilarityHistograms, counts: Sequence[int]) -> tuple[float, float]:
    """Mean and deviation of cosines from the middles of their bins: half a bin is the most that a mean can be off."""
    middles = [(a + b) / 2 for a, b in zip(found.edges, found.edges[1:], strict=False)]
    mean = sum(c * m for c, m in zip(counts, middles, strict=True)) / sum(counts)
    return mean, sqrt(sum(c * (m - mean) ** 2 for c, m in zip(counts, middles, strict=True)) / sum(counts))


def _target(found: SimilarityHistograms, chosen: int) -> tuple[float, float]:
    return _moments(found, found.within_by_class[chosen])


def _noise(found: SimilarityHistograms, chosen: int) -> tuple[float, float]:
    return _moments(found, found.between_by_class[chosen])


def _overlap(found: SimilarityHistograms, chosen: int) -> float:
    return known(found.overlap_by_class[chosen])


# By the names of `separation_left_out`: in words, how to read it from histograms, and what the paper says of it.
READ: dict[str, tuple[str, Callable[[SimilarityHistograms, int], float], str]] = {
    "noise": ("mean cosine of {} with others", lambda h, chosen: _noise(h, chosen)[0], "lower"),
    "overlap": ("overlap of target and noise", _overlap, "better separation"),
    "target": ("mean cosine of {} with itself", lambda h, chosen: _target(h, chosen)[0], "lower"),
    "noise spread": ("deviation of cosines of {} with others", lambda h, chosen: _noise(h, chosen)[1], "wider"),
    "target spread": ("deviation of cosines of {} with itself", lambda h, chosen: _target(h, chosen)[1], "wider"),
}


def _draw_histograms(figure: "Figure", found: dict[str, SimilarityHistograms], chosen: int) -> None:
    axes = figure.subplots(2, 1, sharex=True)
    for axis, loss in zip(axes, ("supcon", "sincere"), strict=True):
        h = found[loss]
        target, noise = h.within_by_class[chosen], h.between_by_class[chosen]
        for counts, name, colour in ((target, "target: both of the class", "#0072B2"), (noise, "noise", "#D55E00")):
            shares = [100 * count / sum(counts) for count in counts]
            axis.stairs(shares, h.edges, fill=True, alpha=0.6, color=colour, label=name)
        axis.set(ylabel="% of pairs", title=f"{TITLES[loss]}, class {h.class_names[chosen]}")
        axis.legend(frameon=False, loc="upper center")
    axes[-1].set_xlabel("cosine of two test embeddings")


TARGET_AND_NOISE = (
    Claim(
        10,
        "figure-3",
        f"{SECTION}, Figure 3",
        "with SINCERE cosines of a class with itself and with others are lower, spread wider and are better separated",
        "CIFAR-10, trucks: both distributions move to lower similarities, have lower peaks, and are better separated",
        figure_3,
        ("cifar10",),
        runs=both_losses,
        decisive="^overlap of target and noise",
    ),
)
