"""Claim 12: both losses confuse the same classes (SINCERE, Figure A.1)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from sincere.claims.claim import Claim, Conditions, Outcome
from sincere.claims.experiments import BOTH, both_losses, experiments
from sincere.claims.objectives import DRAWS
from sincere.claims.record import Measured, Verdict
from sincere.claims.sincere_losses import SECTION, number_of_seeds
from sincere.evaluate import Evaluation
from sincere.evaluate.bootstrap import resampled_class_means

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALIKE = 0.05  # share of a class by which cells may differ


def figure_a1(conditions: Conditions) -> Outcome:
    """Which classes are taken for which, under both losses."""
    one = experiments(conditions)[0]
    found = {loss: [one.evaluation(run) for run in one.runs(loss)] for loss in BOTH}
    names, labels = found["sincere"][0].class_names, torch.tensor(found["sincere"][0].labels)
    taken = {loss: taken_for(found[loss], one.probe) for loss in BOTH}
    a, b = (torch.zeros(len(names), len(names)).double().index_add(0, labels, taken[loss]) for loss in BOTH)
    largest = largest_difference(taken["sincere"] - taken["supcon"], labels, seeds=len(one.seeds))
    off = ~torch.eye(len(names), dtype=torch.bool)
    correlation = _correlation(a[off], b[off])
    verdict, reason = judged_confusions(largest, correlation)
    rows = [
        {"row": names[i], "column": names[j], "sincere": float(a[i, j]), "supcon": float(b[i, j])}
        for i in range(len(names))
        for j in range(len(names))
    ]
    return Outcome(
        verdict,
        f"{reason} Most confused: {_most_confused(a, names)} with SINCERE, {_most_confused(b, names)} with SupCon.",
        f"{one.title}; linear classifier; {number_of_seeds(one)}",
        (
            largest,
            Measured("correlation of the errors off the diagonal", correlation, n=f"{int(off.sum())} cells"),
        ),
        tuple(rows),
        lambda figure: _draw_confusions(figure, [b, a], names),
    )


def taken_for(found: Sequence[Evaluation], method: str) -> Tensor:
    """For each test sample the share of runs that take it for each class, float64 (samples, classes)."""
    classes = len(found[0].class_names)
    votes = [F.one_hot(torch.tensor(one.classifier(method).predicted), classes) for one in found]
    return torch.stack(votes).double().mean(dim=0)


def largest_difference(differences: Tensor, labels: Tensor, *, seeds: int) -> Measured:
    """Of all cells of two confusion matrices, in shares of the row's class; `differences` are those of `taken_for`.

    Its interval holds for all cells at once, whichever is the largest: it is as wide as the largest change of any cell
    in 95 % of the draws of test samples.
    """
    samples, classes = differences.shape
    sizes = torch.bincount(labels, minlength=classes).clamp(min=1)
    cells = torch.zeros(classes, classes).double().index_add(0, labels, differences) / sizes.unsqueeze(1)
    drawn = resampled_class_means(differences, labels, classes=classes, draws=DRAWS, seed=0)  # columns before rows
    changes = (drawn - cells.T).nan_to_num(0).abs().flatten(1).amax(dim=1)
    reach, value = float(changes.quantile(0.95)), float(cells.abs().max())
    return Measured(
        "largest difference of a cell, share of its class",
        value,
        max(0.0, value - reach),
        value + reach,
        f"{classes}² cells, {samples:,} test samples × {seeds} seed{'s' if seeds > 1 else ''}",
    )


def judged_confusions(largest: Measured, correlation: float) -> tuple[Verdict, str]:
    criterion = "Criterion: no cell of the two matrices, in shares of the row's class, differs by more than 5 points."
    if largest.value <= ALIKE:
        return "reproduced", criterion
    if largest.low is not None and largest.low <= ALIKE:
        return "partly", f"{criterion} One does, by what the luck of the test samples can do."
    if correlation > 0.5:
        return "partly", f"{criterion} One does, though the errors go together."
    return "not reproduced", criterion


def _shares(matrix: Tensor) -> Tensor:
    return matrix / matrix.sum(dim=1, keepdim=True).clamp(min=1)


def _correlation(a: Tensor, b: Tensor) -> float:
    """0 where one of them does not vary, as with no errors at all."""
    if float(a.std()) == 0 or float(b.std()) == 0:
        return 0.0
    return float(torch.corrcoef(torch.stack([a, b]))[0, 1])


def _most_confused(matrix: Tensor, names: tuple[str, ...]) -> str:
    """Of both directions together."""
    both = matrix + matrix.T
    both.fill_diagonal_(-1)
    i, j = divmod(int(both.argmax()), len(names))
    return f"{names[min(i, j)]} and {names[max(i, j)]}"


def _draw_confusions(figure: "Figure", matrices: list[Tensor], names: tuple[str, ...]) -> None:
    axes = figure.subplots(1, 2)
    errors = [100 * _shares(matrix).fill_diagonal_(0) for matrix in matrices]
    highest = max(1.0, *(float(found.max()) for found in errors))  # one scale for both
    for axis, title, found in zip(axes, ("SupCon", "SINCERE"), errors, strict=True):
        image = axis.imshow(found.tolist(), cmap="cividis", vmin=0, vmax=highest)
        axis.set(title=title, xlabel="taken for", ylabel="is")
        if len(names) <= 20:
            axis.set_xticks(range(len(names)), names, rotation=90 if max(map(len, names)) > 2 else 0)
            axis.set_yticks(range(len(names)), names)
    figure.colorbar(image, ax=axes, label="% of the class taken for another", shrink=0.8)


CONFUSIONS = (
    Claim(
        12,
        "figure-a1",
        f"{SECTION}, Figure A.1",
        "both losses confuse the same classes",
        "CIFAR-10: very similar confusion matrices, cat and dog most confused",
        figure_a1,
        ("cifar10",),
        runs=both_losses,
    ),
)
