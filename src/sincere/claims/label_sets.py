"""Data whose samples carry several labels, for claim 24: every combination of labels is a class of the data."""

from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from sincere.data import LabelledData, Splits, open_data

DIGITS = 10
SLOTS = 3  # digits side by side in an image, at most
FREQUENCY = 0.75  # of a digit, as a share of that of the digit before it


@dataclass(frozen=True)
class LabelSets:
    """Samples, and which labels each class of them stands for."""

    splits: Splits
    table: Tensor  # (classes, labels), 0 or 1
    names: tuple[str, ...]  # of the labels
    rare: tuple[int, ...]  # the labels that few samples carry

    def hot(self, classes: Tensor) -> Tensor:
        """The labels of samples of these classes, (n, labels)."""
        return self.table[classes.cpu()]


def digits_in_a_row(samples: int, *, seed: int) -> LabelSets:
    """Images of one to three digits side by side, which are their labels; 0 is the most frequent and 9 the least.

    The digits of one split stay within it. The free places of an image are blank.
    """
    data = open_data("digits", validation_share=0.0, test_share=0.4)
    generator = torch.Generator().manual_seed(seed)
    combos = [one for size in range(1, SLOTS + 1) for one in combinations(range(DIGITS), size)]
    places = {frozenset(one): place for place, one in enumerate(combos)}
    names = tuple(" and ".join(map(str, one)) for one in combos)
    weights = FREQUENCY ** torch.arange(DIGITS).double()

    def in_a_row(part: LabelledData, count: int) -> LabelledData:
        weight = weights[part.labels] / torch.bincount(part.labels, minlength=DIGITS)[part.labels]
        chosen = torch.multinomial(weight, count * SLOTS, replacement=True, generator=generator).view(count, SLOTS)
        filled = torch.randint(1, SLOTS + 1, (count,), generator=generator)
        order = torch.rand(count, SLOTS, generator=generator).argsort(dim=1)
        there = order < filled.unsqueeze(1)
        images = part.inputs[chosen] * there.view(count, SLOTS, 1, 1, 1)
        labels = [places[frozenset(part.labels[row[kept]].tolist())] for row, kept in zip(chosen, there, strict=True)]
        rows = torch.cat(images.unbind(dim=1), dim=3)
        return LabelledData(rows, torch.tensor(labels), names, "image", "digits in a row")

    splits = Splits(in_a_row(data.train, samples), None, in_a_row(data.test, samples))
    table = torch.zeros(len(combos), DIGITS)
    for place, one in enumerate(combos):
        table[place, list(one)] = 1
    return LabelSets(splits, table, tuple(map(str, range(DIGITS))), rare=tuple(range(6, DIGITS)))


def questions(source: str) -> LabelSets:
    """TREC's questions with both of their labels, one of 6 kinds and one of 50 finer ones.

    40 % of the published training set are the test samples, since the published test set has 500.
    """
    splits = open_data(source, level="fine", validation_share=0.0, test_share=0.4)
    fine = splits.train.class_names
    coarse = sorted({name.partition(":")[0] for name in fine})
    table = torch.zeros(len(fine), len(coarse) + len(fine))
    for place, name in enumerate(fine):
        table[place, coarse.index(name.partition(":")[0])] = 1
        table[place, len(coarse) + place] = 1
    sizes = torch.bincount(splits.train.labels, minlength=len(fine))
    few = (sizes < 50).nonzero().flatten().tolist()
    return LabelSets(splits, table, (*coarse, *fine), rare=tuple(len(coarse) + place for place in few))
