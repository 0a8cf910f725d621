"""Stratified splits: every part holds the classes in the proportions of the whole."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sincere.data.conversion import class_numbers
from sincere.data.options import check_shares
from sincere.seeds import seeded_generator


class SplitIndices(NamedTuple):
    """Indices of each part, ascending."""

    train: Tensor
    validation: Tensor
    test: Tensor


def stratified_split(
    labels: Tensor, *, validation_share: float = 0.1, test_share: float = 0.2, seed: int = 0
) -> SplitIndices:
    """Split samples by class into train, validation and test; the same seed gives the same split on every machine.

    A part of share p has round(p·n) of the n samples. Class c gives ⌊p·n_c⌋ of its n_c to it; what is missing comes
    one each from the classes with the largest remainders, equal remainders in random order. Every class keeps a
    sample in train, even where this leaves a part short.

    >>> [len(part) for part in stratified_split(torch.tensor([0] * 90 + [1] * 10))]
    [70, 10, 20]
    """
    check_shares(validation_share, test_share)
    given, device = class_numbers(labels), labels.device if isinstance(labels, Tensor) else torch.device("cpu")
    generator = seeded_generator(seed)
    _, numbers, counts = np.unique(given, return_inverse=True, return_counts=True)
    test = _places(counts, test_share, counts - 1, generator)
    validation = _places(counts, validation_share, counts - 1 - test, generator)
    shuffled = torch.randperm(len(labels), generator=generator).numpy()
    by_class = shuffled[np.argsort(numbers[shuffled], kind="stable")]
    place_in_class = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    first_validation, first_train = np.repeat(test, counts), np.repeat(test + validation, counts)
    parts = (
        by_class[place_in_class >= first_train],
        by_class[(first_validation <= place_in_class) & (place_in_class < first_train)],
        by_class[place_in_class < first_validation],
    )
    return SplitIndices(*(torch.from_numpy(np.sort(part)).to(device) for part in parts))


def _places(
    counts: npt.NDArray[np.int64], share: float, most: npt.NDArray[np.int64], generator: torch.Generator
) -> npt.NDArray[np.int64]:
    """How many samples each class gives to a part, by largest remainder, at most `most`."""
    quota = counts * share
    places: npt.NDArray[np.int64] = np.minimum(np.floor(quota + 1e-9).astype(np.int64), most)
    missing = round(share * int(counts.sum())) - int(places.sum())
    # Rounded, so that remainders that are equal on paper tie on every machine; a tie falls to the seed.
    remainder = np.round(quota - places, 6)
    order = torch.randperm(len(counts), generator=generator).numpy()
    order = order[np.argsort(-remainder[order], kind="stable")]
    order = order[(remainder[order] > 0) & (places[order] < most[order])]
    places[order[: max(missing, 0)]] += 1
    return places
