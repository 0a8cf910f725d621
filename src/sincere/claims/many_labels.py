"""Claim 24: many labels per sample, on rows of digits and on questions that carry a coarse and a fine label."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sincere.functional as SF
from sincere.claims.claim import Claim, Conditions, Outcome
from sincere.claims.experiments import QUICK_SEEDS, digits
from sincere.claims.label_sets import LabelSets, digits_in_a_row, questions
from sincere.claims.palette import colour_of
from sincere.claims.record import Measured, number
from sincere.claims.statistics import covers_zero, over_seeds
from sincere.evaluate.multi_hot import evaluate_multi_hot
from sincere.recipes.laptop import trec6
from sincere.train import LossConfig, TrainConfig
from sincere.types import Positives

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FULL_SEEDS = 5
DRAWS = 100  # of intervals that nobody reads: seeds give the ones that are told
LOSSES: Mapping[str, Callable[..., Tensor]] = {"sincere": SF.sincere, "supcon": SF.supcon}


class LabelSetLoss(nn.Module):
    """SINCERE or SupCon on the labels that each class of the data stands for.

    `by_label`: an anchor counts as often as it has labels, as in MulSupCon (Zhang and Wu 2024).
    """

    def __init__(
        self, *, temperature: float, table: list[list[float]], loss: str, positives: Positives, by_label: bool = False
    ) -> None:
        super().__init__()
        self.temperature, self.loss, self.positives, self.by_label = temperature, loss, positives, by_label
        self.register_buffer("table", torch.tensor(table), persistent=False)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        hot = self.get_buffer("table")[labels]
        return LOSSES[self.loss](
            embeddings,
            hot > 0,
            temperature=self.temperature,
            positives=self.positives,
            weights=hot.sum(dim=1) if self.by_label else None,
        )


class LabelSetCrossEntropy(nn.Module):
    """What people train where samples carry several labels: a linear layer, and binary cross-entropy of each label."""

    def __init__(self, *, temperature: float, table: list[list[float]], dim: int) -> None:
        super().__init__()
        self.register_buffer("table", torch.tensor(table), persistent=False)
        self.classifier = nn.Linear(dim, len(table[0]))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        logits = self.classifier(embeddings)  # (b, views, labels)
        return F.binary_cross_entropy_with_logits(
            logits, self.get_buffer("table")[labels].unsqueeze(1).expand_as(logits)
        )


PLAIN, CROSS_ENTROPY = "SINCERE, any shared label", "binary cross-entropy"


def ways(table: Tensor, plain: TrainConfig) -> dict[str, LossConfig]:
    """Every way to learn from the labels, by its name for people; the first is what the others are compared with."""
    own, rows = f"{__name__}:", table.tolist()

    def contrastive(loss: str, positives: str, **more: Any) -> LossConfig:
        options = {"table": rows, "loss": loss, "positives": positives, **more}
        return LossConfig(own + LabelSetLoss.__name__, options=options)

    cross_entropy = {"table": rows, "dim": plain.head.dim}
    return {
        PLAIN: contrastive("sincere", "any"),
        "SINCERE, by Jaccard": contrastive("sincere", "jaccard"),
        "SINCERE, label by label": contrastive("sincere", "per_label"),
        "SupCon, any shared label": contrastive("supcon", "any"),
        "SupCon, label by label (MulSupCon)": contrastive("supcon", "per_label", by_label=True),
        "SINCERE, every combination a class": LossConfig("sincere"),
        CROSS_ENTROPY: LossConfig(own + LabelSetCrossEntropy.__name__, options=cross_entropy),
    }


@dataclass(frozen=True)
class Reading:
    """How well the test embeddings of one run tell the labels, in percent."""

    precision: float  # mean average precision of a linear classifier for each label
    rare: float  # the same over the labels that few samples carry
    jaccard: float  # labels in common with the nearest training sample


UNNAMED = " Ways that are not named have an interval of the difference over seeds that holds 0."
FIGURES = {"precision": "mean average precision", "rare": "the same of rare labels"}


@dataclass(frozen=True)
class Experiment:
    """One data set with its labels, and the configuration that all ways share."""

    name: str
    title: str
    data: LabelSets
    plain: TrainConfig

    @property
    def folder(self) -> str:
        return f"labels-{self.name}-{len(self.data.splits.train)}"

    def readings(self, conditions: Conditions, seeds: Sequence[int]) -> dict[str, list[Reading]]:
        """Of every way, seed by seed."""
        found: dict[str, list[Reading]] = {}
        for place, (way, loss) in enumerate(ways(self.data.table, self.plain).items()):
            found[way] = []
            for seed in seeds:
                conditions.say(f"{self.name}: {way}, seed {seed}")
                config = replace(self.plain, loss=loss, seed=seed)
                run = conditions.laboratory.trained(f"{self.folder}-{place}-{seed}", config, self.data.splits)
                found[way].append(read(self.data, run.embeddings("train"), run.embeddings("test")))
        return found


def read(data: LabelSets, train: Any, test: Any) -> Reading:
    found = evaluate_multi_hot(
        test.embeddings,
        data.hot(test.labels),
        train.embeddings,
        data.hot(train.labels),
        label_names=range(len(data.names)),
        draws=DRAWS,
    )
    rare = [one.linear.value for one in found.labels if int(one.name) in data.rare]
    return Reading(100 * found.linear_map.value, 100 * fmean(rare), 100 * found.neighbour_jaccard.value)


def row_experiment(conditions: Conditions) -> Experiment:
    samples = 2000 if conditions.full else 500
    plain = digits(conditions).plain
    # Many small steps; and shuffled, as other samplers would look for pairs of one combination.
    batches = replace(plain.batches, size=64, sampler="shuffled")
    plain = replace(plain, batches=batches, data=replace(plain.data, source="digits in a row"))
    title = (
        f"{samples:,} images of one to three digits side by side, each digit a label and three quarters as frequent as "
        f"the one before (rare: 6 to 9); small CNN, {plain.epochs} epochs"
    )
    return Experiment("digits", title, digits_in_a_row(samples, seed=0), plain)


def question_experiment(conditions: Conditions) -> Experiment:
    plain = trec6()
    source = conditions.path_of("trec")
    plain = replace(plain, data=replace(plain.data, source=source))
    data = questions(source if source.startswith("trec:") else f"trec:{source}")
    title = (
        f"TREC's questions, {len(data.splits.train):,} to train on, with a coarse and a fine label each (rare: the "
        f"{len(data.rare)} fine ones with fewer than 50); text encoder from scratch, {plain.epochs} epochs"
    )
    return Experiment("questions", title, data, plain)


def many_labels(conditions: Conditions) -> Outcome:
    seeds = range(conditions.seed, conditions.seed + (FULL_SEEDS if conditions.full else QUICK_SEEDS))
    found = [row_experiment(conditions)]
    if conditions.full and "trec" in conditions.data:
        found.append(question_experiment(conditions))
    read_of = {one.name: one.readings(conditions, seeds) for one in found}
    figures = [figure for name, readings in read_of.items() for figure in figures_of(name, readings)]
    rows: list[dict[str, Any]] = [
        {"data": name, "way": way, "seed": seed, **reading.__dict__}
        for name, readings in read_of.items()
        for way, some in readings.items()
        for seed, reading in zip(seeds, some, strict=True)
    ]
    return Outcome(
        "answered",
        " ".join(answer(name, readings) for name, readings in read_of.items()) + UNNAMED,
        f"{'; '.join(one.title for one in found)}; a linear classifier for each label, on test embeddings, and the "
        f"nearest training sample; {len(seeds)} seeds",
        tuple(figures),
        tuple(rows),
        lambda figure: draw(figure, read_of),
    )


def figures_of(name: str, readings: Mapping[str, Sequence[Reading]]) -> list[Measured]:
    """What SINCERE gains over cross-entropy, and what every way reaches."""
    found = []
    for field, words in FIGURES.items():
        gain = change(readings, PLAIN, CROSS_ENTROPY, field)
        found.append(replace(gain, what=f"{name}: {PLAIN} − {CROSS_ENTROPY}, {words}, points"))
        for way, some in readings.items():
            found.append(over_seeds(f"{name}: {way}, {words}, %", [getattr(one, field) for one in some]))
    return found


def change(readings: Mapping[str, Sequence[Reading]], way: str, other: str, field: str) -> Measured:
    """One way less another, in points, seed by seed."""
    pairs = zip(readings[way], readings[other], strict=True)
    return over_seeds(way, [getattr(one, field) - getattr(than, field) for one, than in pairs])


def answer(name: str, readings: Mapping[str, Sequence[Reading]]) -> str:
    """Which ways are shown to be better or worse than any shared label, on all labels and on the rare ones."""
    parts = []
    for field, words in (("precision", "all labels"), ("rare", "rare labels")):
        found = {way: change(readings, way, PLAIN, field) for way in readings if way != PLAIN}
        real = {way: one for way, one in found.items() if not covers_zero(one)}
        told = [f"{way} {one}" for way, one in sorted(real.items(), key=lambda item: -item[1].value)]
        base = fmean(getattr(one, field) for one in readings[PLAIN])
        beside = f"points more or less: {'; '.join(told)}" if told else "no other way is shown to differ"
        parts.append(f"on {words} {number(base)} %, {beside}")
    return f"{name.capitalize()}, mean average precision of {PLAIN}: {'; '.join(parts)}."


def draw(figure: "Figure", read_of: Mapping[str, Mapping[str, Sequence[Reading]]]) -> None:
    """A row for each data set and a column for each figure: every way with its interval over seeds."""
    axes = figure.subplots(len(read_of), 2, squeeze=False)
    for row, (name, readings) in zip(axes, read_of.items(), strict=True):
        for axis, field in zip(row, ("precision", "rare"), strict=True):
            for place, (way, some) in enumerate(readings.items()):
                one = over_seeds(way, [getattr(reading, field) for reading in some])
                low, high = one.ends
                reach = [[one.value - low], [high - one.value]]
                axis.errorbar(one.value, place, xerr=reach, fmt="o", color=colour_of(way), capsize=3)
            axis.set_yticks(range(len(readings)), list(readings) if field == "precision" else [])
            axis.set_ylim(len(readings) - 0.5, -0.5)
            axis.set(title=name, xlabel="mean average precision, %" if field == "precision" else "of rare labels, %")


MANY_LABELS = (
    Claim(
        24,
        "many-labels",
        "open question 1 on Feeney and Hughes 2023",
        "what to do with many labels per sample: which others are positives, and by how much",
        "no figure: an open question",
        many_labels,
        ("trec",),
        full_without_data=True,
        decisive=(
            f"^questions: (SINCERE, every combination a class|{CROSS_ENTROPY}), mean",
            f"^digits: ({PLAIN}|{CROSS_ENTROPY}), mean",
        ),
    ),
)
