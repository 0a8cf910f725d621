"""Claims 8 and 9: what training with each loss ends at, in loss and in similarity (SINCERE, Section 4.1)."""

from collections.abc import Callable, Mapping, Sequence
from math import log
from typing import TYPE_CHECKING, TypeAlias

from torch import Tensor

from sincere.claims.claim import Claim, Conditions, Outcome
from sincere.claims.experiments import BOTH, Experiment, as_far_as_run, both_losses, experiments, of_one_seed
from sincere.claims.one_left_out import similarities_left_out, with_jackknife
from sincere.claims.palette import COLOURS, TITLES
from sincere.claims.record import Measured, Verdict
from sincere.claims.statistics import over_seeds, wholly_below_zero
from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.geometry import PairSimilarity, similarity_by_class_pair
from sincere.losses.floors import simplex_gap
from sincere.recipes.cifar import LossName

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLE_1 = {
    ("cifar10", "supcon"): (6.93, 4.69),
    ("cifar10", "sincere"): (6.82, 0.24),
    ("cifar100", "supcon"): (6.91, 2.43),
    ("cifar100", "sincere"): (6.90, 0.14),
}
Curves: TypeAlias = dict[tuple[str, LossName], list[list[float]]]  # by data and loss: one list a seed


def table_1(conditions: Conditions) -> Outcome:
    """Losses that start alike and end apart."""
    found = experiments(conditions)
    curves = {(one.data, loss): [run.epoch_losses() for run in one.runs(loss)] for one in found for loss in BOTH}
    measured = [
        over_seeds(
            f"{data} {TITLES[loss]}, {when} epoch", [curve[place] for curve in runs], paper=_printed(data, loss, place)
        )
        for (data, loss), runs in curves.items()
        for when, place in (("first", 0), ("last", -1))
    ]
    alike = all(_start_alike(curves, one.data) for one in found)
    apart = all(_end_apart(curves, one) for one in found)
    verdict: Verdict = "reproduced" if alike and apart else "partly" if alike or apart else "not reproduced"
    rows = [
        {"data": data, "loss": loss, "run": number, "epoch": epoch, "training_loss": value}
        for (data, loss), runs in curves.items()
        for number, curve in enumerate(runs)
        for epoch, value in enumerate(curve, start=1)
    ]
    reason = (
        "Criteria: mean losses of the first epoch within 5 % of each other; at the end SINCERE below log 2, at which a "
        "positive beats all negatives together, and SupCon between 95 % of log|P|, its floor for equal classes, and "
        "log 2 above that floor, below which the positives together beat all negatives."
        + ("" if alike else " The first epochs differ by more.")
        + ("" if apart else " The last epochs do not fulfil it.")
    )
    return Outcome(
        *as_far_as_run(verdict, reason, found),
        "; ".join(one.title for one in found) + f"; {found[0].seeds_in_words}",
        tuple(measured),
        tuple(rows),
        lambda figure: _draw_curves(figure, found, curves),
    )


def _printed(data: str, loss: str, place: int) -> str | None:
    known = TABLE_1.get((data, loss))
    return None if known is None else f"{known[place]:.2f}"


def _start_alike(curves: Curves, data: str) -> bool:
    """Every first epoch of one loss within 5 % of the other's."""
    pairs = zip(curves[data, "sincere"], curves[data, "supcon"], strict=True)
    return all(abs(a[0] - b[0]) <= 0.05 * b[0] for a, b in pairs)


def _end_apart(curves: Curves, one: Experiment) -> bool:
    """SINCERE below log 2 and SupCon near log|P|, with as many of each class in a batch as there are on average."""
    classes = len(one.run("supcon", one.seeds[0]).embeddings("test").class_names)
    floor = log(one.rows_of_a_batch / classes - 1)
    low = all(curve[-1] < log(2) for curve in curves[one.data, "sincere"])
    return low and all(0.95 * floor <= curve[-1] < floor + log(2) for curve in curves[one.data, "supcon"])


def _draw_curves(figure: "Figure", found: tuple[Experiment, ...], curves: Curves) -> None:
    axes = figure.subplots(1, len(found), squeeze=False)[0]
    for axis, one in zip(axes, found, strict=True):
        classes = len(one.run("supcon", one.seeds[0]).embeddings("test").class_names)
        rows, temperature = one.rows_of_a_batch, one.plain.loss.temperature
        for loss in BOTH:
            for number, curve in enumerate(curves[one.data, loss]):
                label = TITLES[loss] if number == 0 else None
                axis.plot(range(1, len(curve) + 1), curve, color=COLOURS[loss], label=label, linewidth=1.5)
        negatives = rows * (1 - 1 / classes)
        scarce = negatives * 2.718281828 ** -simplex_gap(classes, temperature)
        axis.axhline(log(rows / classes - 1 + scarce), color=COLOURS["supcon"], linestyle="--", linewidth=1)
        axis.axhline(log(1 + scarce), color=COLOURS["sincere"], linestyle="--", linewidth=1)
        axis.axhline(log(rows - 1), color="0.5", linestyle=":", linewidth=1)
        axis.annotate("log(n − 1)", (1, log(rows - 1)), va="bottom", color="0.4", fontsize=8)
        axis.set(title=one.data, xlabel="epoch", ylabel="mean training loss", ylim=(0, 1.1 * log(rows - 1)))
        axis.legend(frameon=False, title="floors dashed")


def figure_2(conditions: Conditions) -> Outcome:
    """Lower similarity with SINCERE, and more so between classes."""
    one = experiments(conditions)[0]
    sets = {loss: [run.embeddings("test") for run in one.runs(loss)] for loss in BOTH}
    found: dict[str, list[PairSimilarity]] = {
        loss: [similarity_by_class_pair(embedded) for embedded in sets[loss]] for loss in BOTH
    }
    means = {
        (loss, which): [known(pair.within if which == "within" else pair.between) for pair in found[loss]]
        for loss in BOTH
        for which in ("within", "between")
    }
    changes = {
        which: [a - b for a, b in zip(means["sincere", which], means["supcon", which], strict=True)]
        for which in ("within", "between")
    }
    changes["between − within"] = [b - w for w, b in zip(changes["within"], changes["between"], strict=True)]
    without = left_out_of_one(sets, similarities_left_out)
    differences = (
        ("within", "SINCERE − SupCon within classes", "−0.06"),
        ("between", "SINCERE − SupCon between classes", "−0.11"),
        ("between − within", "change between classes minus that within", "−0.05"),
    )
    measured = (
        *(
            changed(what, changes[which], without, which, paper if one.data == "cifar10" else None)
            for which, what, paper in differences
        ),
        *(over_seeds(f"{TITLES[loss]} {which}", values) for (loss, which), values in means.items()),
    )
    *lower, most = map(wholly_below_zero, measured[:3])
    verdict: Verdict = "reproduced" if all(lower) and most else "partly" if any(lower) else "not reproduced"
    names = found["sincere"][0].class_names
    rows = [
        {"loss": loss, "run": number, "row": a, "column": b, "mean_cosine": pair.means[i][j]}
        for loss in BOTH
        for number, pair in enumerate(found[loss])
        for i, a in enumerate(names)
        for j, b in enumerate(names)
    ]
    return Outcome(
        verdict,
        "Criteria: the mean cosine is lower with SINCERE, within classes and between them, and it falls more between "
        "classes than within them, all over the whole interval."
        + ("" if most else " It is not shown to fall more there.")
        + against_the_paper(measured)
        + f"{of_one_seed(one)} The regular simplex has −1/{len(names) - 1} = {_signed(-1 / (len(names) - 1))} between "
        "classes.",
        f"{one.title}; test pairs; {number_of_seeds(one)}",
        measured,
        tuple(rows),
        lambda figure: _draw_heatmaps(figure, found["supcon"][0], found["sincere"][0]),
    )


def against_the_paper(measured: Sequence[Measured]) -> str:
    """How many times the paper's change ours is, where the paper has the figure; the criteria ask for signs alone."""
    times = [
        f"{which} {one.value / float(one.paper.replace('−', '-')):.1f} times"
        for which in ("within classes", "between classes")
        for one in measured
        if one.paper and one.what == f"SINCERE − SupCon {which}"
    ]  # negative where the change is the other way
    return f" The change is {' and '.join(times)} that of the paper, which is not judged." if times else ""


def left_out_of_one(
    sets: Mapping[LossName, list[EmbeddingSet]], left_out: Callable[[EmbeddingSet], dict[str, Tensor]]
) -> dict[str, Tensor] | None:
    """Figures of SINCERE minus those of SupCon without each test sample; None of several seeds, which need none."""
    if len(sets["sincere"]) > 1:
        return None
    sincere, supcon = (left_out(sets[loss][0]) for loss in BOTH)
    return {which: figures - supcon[which] for which, figures in sincere.items()}


def changed(
    what: str, changes: list[float], without: Mapping[str, Tensor] | None, which: str, paper: str | None
) -> Measured:
    """SINCERE − SupCon over seeds; of one seed with the interval over test samples, which both runs share."""
    if without is None:
        return over_seeds(what, changes, paper=paper)
    return with_jackknife(what, changes[0], without[which], paper=paper)


def _signed(value: float) -> str:
    return f"{value:.4f}".replace("-", "−")


def known(value: float | None) -> float:
    assert value is not None  # test sets of these experiments have pairs of every kind
    return value


def number_of_seeds(one: Experiment) -> str:
    return "1 seed" if len(one.seeds) == 1 else f"{len(one.seeds)} seeds"


def _draw_heatmaps(figure: "Figure", supcon: PairSimilarity, sincere: PairSimilarity) -> None:
    axes = figure.subplots(1, 2, sharey=True)
    for axis, title, found in zip(axes, ("SupCon", "SINCERE"), (supcon, sincere), strict=True):
        cells = [[float("nan") if cell is None else cell for cell in row] for row in found.means]
        image = axis.imshow(cells, vmin=-1, vmax=1, cmap="PuOr")
        places = range(len(found.class_names))
        within, between = (f"{known(mean):.2f}".replace("-", "−") for mean in (found.within, found.between))
        axis.set_title(f"{title}: within {within}, between {between}", fontsize=9)
        if len(places) <= 20:
            axis.set_xticks(places, found.class_names, rotation=90 if max(map(len, found.class_names)) > 2 else 0)
            axis.set_yticks(places, found.class_names)
    figure.colorbar(image, ax=axes, label="mean cosine of test pairs", shrink=0.8)


SECTION = "Feeney and Hughes 2023, arXiv 2309.14277"
SINCERE_LOSSES = (
    Claim(
        8,
        "table-1",
        f"{SECTION}, Table 1",
        "the losses begin alike and end far apart: SINCERE near 0, SupCon near the logarithm of the positives",
        "CIFAR-10: SupCon 6.93 → 4.69, SINCERE 6.82 → 0.24; CIFAR-100: 6.91 → 2.43, 6.90 → 0.14",
        table_1,
        ("cifar10", "cifar100"),
        one_will_do=True,
        runs=both_losses,
        decisive="^(cifar10|digits) .* last epoch",
    ),
    Claim(
        9,
        "figure-2",
        f"{SECTION}, Figure 2",
        "embeddings of SINCERE are less similar than SupCon's, most of all those of different classes",
        "CIFAR-10 test pairs: lower by 0.06 within a class and by 0.11 between classes",
        figure_2,
        ("cifar10",),
        runs=both_losses,
        decisive="between classes$",
    ),
)
