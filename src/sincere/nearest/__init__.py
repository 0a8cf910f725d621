"""Vectors → classes by what is nearest: the mean of a class, or samples that vote. Evaluation and models share it."""

from sincere.nearest.class_means import class_mean_scores, class_means
from sincere.nearest.neighbours import Neighbours, nearest, vote

__all__ = ["Neighbours", "class_mean_scores", "class_means", "nearest", "vote"]
