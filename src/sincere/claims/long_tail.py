"""Digits of which some are rare: whether what class sizes do to the optimum shows in a network that is trained."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

from sincere.claims.claim import Conditions
from sincere.claims.experiments import BOTH, digits
from sincere.claims.palette import COLOURS, GREY, TITLES
from sincere.claims.record import Measured, number
from sincere.claims.statistics import covers_zero, over_seeds
from sincere.data import LabelledData, Splits, open_data
from sincere.embeddings import EmbeddingSet
from sincere.train import BatchesConfig, LossConfig, TrainConfig

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LARGEST, RATIO, CLASSES, RARE = 100, 25, 10, 4
EPOCHS, BATCH = 40, 64
BALANCED, DEALT = "class-balanced", "balanced batches"
WAYS: dict[str, dict[str, object]] = {  # options of the loss
    "mean over anchors": {},
    "mean over classes": {"reduction": "class_mean"},
    DEALT: {},
    BALANCED: {"reduction": "class_mean", "class_balanced": True},
}


@dataclass(frozen=True)
class TailReading:
    """What one run made of rare and of frequent classes."""

    loss: str
    way: str
    seed: int
    rare_cosine: float  # between the means of rare classes, training embeddings
    accuracy: float  # by class means on as many test images of each class, percent
    rare_accuracy: float  # of the rare classes among them


def class_sizes() -> list[int]:
    """From the largest class down, by a constant factor."""
    return [round(LARGEST * RATIO ** (-rank / (CLASSES - 1))) for rank in range(CLASSES)]


def tailed_digits(seed: int) -> tuple[Splits, Tensor]:
    """Few training images of some digits, and the digits from the most to the least frequent: another order a seed."""
    whole = open_data("digits", validation_share=0.0, test_share=0.35, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(CLASSES, generator=generator)
    fewest = int(torch.bincount(whole.test.labels).min())
    train = _first_of_each(whole.train, order, class_sizes(), generator)
    test = _first_of_each(whole.test, order, [fewest] * CLASSES, generator)
    return Splits(train, None, test), order


def _first_of_each(data: LabelledData, order: Tensor, sizes: Sequence[int], generator: torch.Generator) -> LabelledData:
    shuffled = torch.randperm(len(data), generator=generator)
    chosen = [shuffled[data.labels[shuffled] == label][:size] for label, size in zip(order, sizes, strict=True)]
    return data.subset(torch.cat(chosen))


def read(train: EmbeddingSet, test: EmbeddingSet, order: Tensor) -> tuple[float, float, float]:
    """Mean cosine of rare classes, and accuracies by class means: on all classes, and on rare ones."""
    rows, rare = normalize(train.embeddings, dim=1), order[-RARE:]
    means = normalize(torch.stack([rows[train.labels == label].mean(dim=0) for label in range(CLASSES)]), dim=1)
    cosines = (means @ means.T)[rare][:, rare]
    right = (normalize(test.embeddings, dim=1) @ means.T).argmax(dim=1) == test.labels
    of_rare = right[torch.isin(test.labels, rare)]
    apart = float((cosines.sum() - cosines.trace()) / (RARE * (RARE - 1)))
    return apart, 100 * float(right.double().mean()), 100 * float(of_rare.double().mean())


def long_tail(conditions: Conditions) -> list[TailReading]:
    """Every loss in every way, from each seed: the same images and the same first weights."""
    found = []
    for seed in range(conditions.seed, conditions.seed + (20 if conditions.full else 3)):
        data, order = tailed_digits(seed)
        plain = replace(digits(conditions).plain, epochs=EPOCHS, seed=seed)
        plain = replace(plain, data=replace(plain.data, source="rare digits"))
        for loss in BOTH:
            for way in WAYS:
                name = f"rare-digits-{loss}-{way.replace(' ', '-')}-{seed}"
                conditions.say(f"run {name}")
                run = conditions.laboratory.trained(name, _config(plain, loss, way), data)
                found.append(
                    TailReading(loss, way, seed, *read(run.embeddings("train"), run.embeddings("test"), order))
                )
    return found


def _config(plain: TrainConfig, loss: str, way: str) -> TrainConfig:
    sampler: Literal["balanced", "shuffled"] = "balanced" if way == DEALT else "shuffled"
    chosen = LossConfig(loss, plain.loss.temperature, options=dict(WAYS[way]))
    return replace(plain, loss=chosen, batches=BatchesConfig(BATCH, sampler, drop_last=False))


def tail_figures(found: Sequence[TailReading]) -> list[Measured]:
    """Cosines and accuracies of each way, and what balancing changes against the mean over anchors, seed by seed."""
    figures = []
    for loss in BOTH:
        for way in WAYS:
            of_way = [one for one in found if (one.loss, one.way) == (loss, way)]
            title = f"rare digits, {TITLES[loss]}, {way}"
            figures.append(over_seeds(f"{title}: cosine of rare classes", [one.rare_cosine for one in of_way]))
            figures.append(over_seeds(f"{title}: accuracy on rare classes, %", [one.rare_accuracy for one in of_way]))
    return [*figures, *changes(found).values()]


def changes(found: Sequence[TailReading]) -> dict[tuple[str, str, str], Measured]:
    """Class-balanced − another way, seed by seed, by loss, other way and figure."""
    others = [way for way in WAYS if way != BALANCED]
    by = {(one.loss, one.way, one.seed): one for one in found}
    seeds = sorted({one.seed for one in found})
    words = {
        "rare_cosine": "cosine of rare classes",
        "rare_accuracy": "accuracy on rare classes, points",
        "accuracy": "accuracy, points",
    }
    return {
        (loss, way, field): over_seeds(
            f"rare digits, {TITLES[loss]}, {BALANCED} − {way}: {what}",
            [getattr(by[loss, BALANCED, seed], field) - getattr(by[loss, way, seed], field) for seed in seeds],
        )
        for loss in BOTH
        for way in others
        for field, what in words.items()
    }


def tail_answer(found: Sequence[TailReading]) -> str:
    """In plain words, from the figures."""
    changed, (plain, weighed, dealt, _) = changes(found), WAYS
    sentences = []
    for loss in BOTH:
        cosine, accuracy = (changed[loss, plain, field] for field in ("rare_cosine", "rare_accuracy"))
        over = [f"by {_told(changed[loss, way, 'rare_accuracy'])} against {way}" for way in (weighed, dealt)]
        sentences.append(
            f"with {TITLES[loss]}, against the {plain}, the cosine of rare ones by {_told(cosine)} and the accuracy on "
            f"them by {_told(accuracy)} points; that accuracy {', and '.join(over)}"
        )
    return (
        "In networks trained on digits of which some are rare, such balancing changes "
        f"{'. It changes '.join(sentences)}."
    )


def _told(measured: Measured) -> str:
    unclear = covers_zero(measured) or measured.low is None
    return f"{measured}{' (no difference shown)' if unclear else ''}"


def tail_setting(found: Sequence[TailReading]) -> str:
    """What was run, in words."""
    sizes = class_sizes()
    return (
        f"scikit-learn's digits with {sizes[0]} to {sizes[-1]} training images a class ({number(RATIO)} : 1, the "
        f"{RARE} rarest have {sizes[-RARE]} or fewer; which they are changes with the seed), small CNN, {EPOCHS} "
        f"epochs, batch {BATCH}, nearest class mean of test embeddings, as many of each class; "
        f"{len({one.seed for one in found})} seeds"
    )


def draw_tail(axis: "Axes", found: Sequence[TailReading]) -> None:
    """Cosine of rare classes in each way, with every seed as a point."""
    for shift, loss in zip((-0.12, 0.12), BOTH, strict=True):
        for place, way in enumerate(WAYS):
            values = [one.rare_cosine for one in found if (one.loss, one.way) == (loss, way)]
            axis.plot([place + shift] * len(values), values, ".", color=COLOURS[loss], alpha=0.35, markersize=4)
            axis.plot(place + shift, sum(values) / len(values), "_", color=COLOURS[loss], markersize=14)
    axis.axhline(-1 / (CLASSES - 1), color=GREY, linewidth=0.8)
    axis.set_xticks(range(len(WAYS)), [way.replace(" ", "\n", 1).replace("-b", "-\nb") for way in WAYS], fontsize=8)
    axis.set(ylabel="cosine of two rare classes", title="Trained: digits, 25 : 1")
