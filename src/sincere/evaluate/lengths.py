"""Where lengths of vectors mislead a linear probe: losses of cosines leave them to chance, class by class.

A probe gives large weights to a class whose training vectors are short, so that a new sample that fits none of the
classes well goes to that one.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

MANY = 0.05  # of the test samples, beyond those that are of the class,
LEAST = 20  # and no fewer: one or two of a small test set are chance
UNLIKE = 1.5  # times as long: the longest class beside the one that swallows others


def lengths_of_classes(vectors: Tensor, labels: Tensor, *, classes: int) -> Tensor:
    """Mean length of each class's vectors, (classes,); NaN of a class without any."""
    lengths = vectors.double().norm(dim=1)
    total: Tensor = lengths.new_zeros(classes).index_add_(0, labels, lengths)
    return total / torch.bincount(labels, minlength=classes)


def swallowed(
    predicted: Tensor, labels: Tensor, lengths: Tensor, class_names: tuple[str, ...], which: str
) -> Iterator[str]:
    """A note, if far too many samples are taken for a class whose training vectors are shorter than most."""
    given, own = (torch.bincount(numbers, minlength=len(class_names)) for numbers in (predicted, labels))
    sink = int((given - own).argmax())
    short = bool(lengths[sink] <= lengths.nanmedian()) and float(lengths.nan_to_num().max() / lengths[sink]) >= UNLIKE
    if short and int(given[sink] - own[sink]) >= max(LEAST, MANY * len(labels)):
        yield (
            f"the linear probe takes {int(given[sink]):,} of {len(labels):,} test samples for {class_names[sink]!r}, "
            f"of which there are {int(own[sink]):,}: training {which} of that class are short beside others, which "
            "gives them large weights. A probe on directions alone (unit_probe=True, --unit-probe) does without lengths"
        )
