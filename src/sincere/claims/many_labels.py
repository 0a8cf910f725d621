"""Claim 24: many labels per sample, on pairs of digits side by side that carry both digits as labels."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

import sincere.functional as SF
from sincere.claims.claim import Claim, Conditions, Outcome
from sincere.claims.experiments import QUICK_SEEDS, digits
from sincere.claims.pictures import draw_intervals
from sincere.claims.record import Measured, number
from sincere.claims.statistics import over_seeds
from sincere.data import LabelledData, Splits, open_data
from sincere.embeddings import EmbeddingSet
from sincere.train import LossConfig

DIGITS = 10
PAIRS = [(a, b) for a in range(DIGITS) for b in range(a, DIGITS)]  # a class of the data is an unordered pair
Positives = Literal["any", "jaccard"]


class PairedLabels(nn.Module):
    """SINCERE on the labels of the pair that a class stands for, as multi-hot vectors."""

    def __init__(self, *, temperature: float, positives: Positives) -> None:
        super().__init__()
        self.temperature, self.positives = temperature, positives
        self.register_buffer("table", multi_hot(), persistent=False)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        table: Tensor = self.get_buffer("table")
        return SF.sincere(embeddings, table[labels] > 0, temperature=self.temperature, positives=self.positives)


def multi_hot() -> Tensor:
    """Which digits each class holds, (55, 10)."""
    table = torch.zeros(len(PAIRS), DIGITS)
    for place, pair in enumerate(PAIRS):
        table[place, list(pair)] = 1
    return table


def paired_digits(samples: int, *, seed: int) -> Splits:
    """Images of two digits side by side, in either order; digits of one split stay within it."""
    data = open_data("digits", validation_share=0.0, test_share=0.4)
    generator = torch.Generator().manual_seed(seed)
    names = tuple(f"{a} and {b}" for a, b in PAIRS)
    places = {pair: place for place, pair in enumerate(PAIRS)}

    def paired(part: LabelledData, count: int) -> LabelledData:
        chosen = torch.randint(len(part), (count, 2), generator=generator)
        images = torch.cat([part.inputs[chosen[:, 0]], part.inputs[chosen[:, 1]]], dim=3)
        sides = part.labels[chosen].sort(dim=1).values.tolist()
        labels = torch.tensor([places[a, b] for a, b in sides])
        return LabelledData(images, labels, names, "image", "pairs of digits")

    return Splits(paired(data.train, samples), None, paired(data.test, samples))


@dataclass(frozen=True)
class Reading:
    """How well embeddings of one run find the digits."""

    mean_average_precision: float  # of a linear classifier for each digit, mean over digits, percent
    neighbour_jaccard: float  # mean |y ∩ y'| / |y ∪ y'| with the nearest other test sample, percent


def read(train: EmbeddingSet, test: EmbeddingSet) -> Reading:
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
    from sklearn.metrics import average_precision_score  # type: ignore[import-untyped]

    table = multi_hot()
    known, wanted = table[train.labels], table[test.labels]
    rows = [torch.nn.functional.normalize(found.embeddings, dim=1) for found in (train, test)]
    precisions = []
    for digit in range(DIGITS):
        model = LogisticRegression(C=10.0, max_iter=1000).fit(rows[0].numpy(), known[:, digit].numpy())
        scores = model.decision_function(rows[1].numpy())
        precisions.append(100 * float(average_precision_score(wanted[:, digit].numpy(), scores)))
    nearest = (rows[1] @ rows[1].T).fill_diagonal_(-2).argmax(dim=1)
    both, either = torch.minimum(wanted, wanted[nearest]).sum(1), torch.maximum(wanted, wanted[nearest]).sum(1)
    return Reading(sum(precisions) / DIGITS, 100 * float((both / either).mean()))


def many_labels(conditions: Conditions) -> Outcome:
    samples, seeds = (6000, 5) if conditions.full else (1500, QUICK_SEEDS)
    own = f"{PairedLabels.__module__}:{PairedLabels.__name__}"
    ways = {
        "any shared label": LossConfig(own, options={"positives": "any"}),
        "shared labels by Jaccard": LossConfig(own, options={"positives": "jaccard"}),
        "every pair a class": LossConfig("sincere"),
    }
    found: dict[str, list[Reading]] = {}
    for way, loss in ways.items():
        found[way] = [_read_run(conditions, way, loss, samples, conditions.seed + number) for number in range(seeds)]
    figures = [
        over_seeds(f"{way}, {what} %", [getattr(one, field) for one in readings])
        for what, field in (("mean average precision", "mean_average_precision"), ("Jaccard", "neighbour_jaccard"))
        for way, readings in found.items()
    ]
    rows: list[dict[str, Any]] = [
        {"positives": way, "seed": conditions.seed + seed, **one.__dict__}
        for way, readings in found.items()
        for seed, one in enumerate(readings)
    ]
    return Outcome(
        "answered",
        answer(figures[: len(ways)]),
        f"{samples:,} images of two digits side by side, both digits as labels; small CNN, 15 epochs; a linear "
        f"classifier for each digit on test embeddings, and the nearest test neighbour; {seeds} seeds",
        tuple(figures),
        tuple(rows),
        lambda figure: draw_intervals(figure, figures[: len(ways)], "mean average precision of the digits, %"),
    )


def _read_run(conditions: Conditions, way: str, loss: LossConfig, samples: int, seed: int) -> Reading:
    name = f"pairs-{samples}-{way.replace(' ', '-')}-{seed}"
    conditions.say(f"run {name}")
    plain = digits(conditions).plain
    config = replace(plain, loss=loss, seed=seed, data=replace(plain.data, source="pairs of digits"))
    run = conditions.laboratory.trained(name, config, paired_digits(samples, seed=0))
    return read(run.embeddings("train"), run.embeddings("test"))


def answer(figures: list[Measured]) -> str:
    """Which way of choosing positives finds the digits best, and whether the next is shown to be worse."""
    best, second = sorted(figures, key=lambda one: -one.value)[:2]
    apart = best.low is not None and second.high is not None and best.low > second.high
    names = [one.what.rpartition(", ")[0] for one in (best, second)]
    told = "their intervals do not meet" if apart else "their intervals overlap"
    return (
        f"Multi-label SINCERE trains as it stands. Best by mean average precision is {names[0]!r}, "
        f"{number(best.value)} %, before {names[1]!r}, {number(second.value)} %; {told}."
    )


MANY_LABELS = (
    Claim(
        24,
        "many-labels",
        "open question 1 on Feeney and Hughes 2023",
        "what to do with many labels per sample: which others are positives, and by how much",
        "no figure: an open question",
        many_labels,
        decisive="^(any shared label|every pair a class), mean",
    ),
)
