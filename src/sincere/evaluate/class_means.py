"""Nearest class mean by its address among the methods of evaluation; `sincere.nearest` computes it."""

from sincere.nearest.class_means import class_mean_scores, class_means

__all__ = ["class_mean_scores", "class_means"]
