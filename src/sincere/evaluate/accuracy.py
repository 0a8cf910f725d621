"""Accuracy in its forms. `labels` and `predicted` are class numbers (n,), `scores` are (n, classes)."""

import torch
from torch import Tensor

ENOUGH = 10  # samples for a class's share to be worth a word: its standard error is then 16 points at most


def top_k_hits(scores: Tensor, labels: Tensor, k: int) -> Tensor:
    """True where fewer than k classes score as high as the label's, (n,).

    A class with an equal score counts as before the label's: a k-NN vote leaves most classes at zero, and those are no
    answer. The predicted class itself, the first of the highest, is always a hit.
    """
    own = scores.gather(1, labels.unsqueeze(1))
    ahead = (scores >= own).sum(dim=1) - 1
    return (ahead < k) | (scores.argmax(dim=1) == labels)


def confusion_matrix(predicted: Tensor, labels: Tensor, *, classes: int) -> Tensor:
    """How many samples of class r (row) were taken for class c (column), (classes, classes)."""
    return torch.bincount(labels * classes + predicted, minlength=classes * classes).view(classes, classes)


def per_class_accuracy(correct: Tensor, labels: Tensor, *, classes: int) -> Tensor:
    """Share right within each class, float64 (classes,); NaN for a class without samples."""
    right = torch.bincount(labels, weights=correct.double(), minlength=classes)
    return right / torch.bincount(labels, minlength=classes)


def balanced_accuracy(correct: Tensor, labels: Tensor, *, classes: int) -> float:
    """Mean over the classes that have samples of the share right within each: every class counts the same."""
    return float(per_class_accuracy(correct, labels, classes=classes).nanmean())
