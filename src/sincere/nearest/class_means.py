"""Nearest class mean: the classifier that has nothing to fit but an average."""

import torch
from torch import Tensor

from sincere.losses.similarity import unit_rows
from sincere.nearest.precision import full_precision


def class_means(vectors: Tensor, labels: Tensor, *, classes: int) -> Tensor:
    """The unit vector along Σ v_i/‖v_i‖ over the samples of each class, (classes, d); NaN for a class without any."""
    sums = torch.zeros(classes, vectors.shape[1], dtype=torch.float64, device=vectors.device)
    sums.index_add_(0, labels, unit_rows(vectors).double())
    empty = torch.bincount(labels, minlength=classes) == 0
    return unit_rows(sums).masked_fill(empty.unsqueeze(1), torch.nan).to(vectors.dtype)


@full_precision()
def class_mean_scores(queries: Tensor, means: Tensor) -> Tensor:
    """Cosine of every query with every class mean, (n, classes); −inf for a class without samples."""
    precision = torch.promote_types(queries.dtype, torch.promote_types(means.dtype, torch.float32))
    return (unit_rows(queries.to(precision)) @ means.to(precision).T).nan_to_num(nan=-torch.inf)
