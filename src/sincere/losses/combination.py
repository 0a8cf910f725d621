"""A loss as a linear combination of row statistics: the form that most of the family has.

    ℓ_t = Σ_k c_k · statistic_k(t) + c_log · log|P| + constant

Stated as data, a loss can be computed from any backend's statistics, or whole by fused kernels.
"""

from dataclasses import dataclass, replace
from functools import partial

from torch import Tensor

from sincere.losses.backends import fused, small
from sincere.losses.backends.select import kernels_take_whole_loss, row_statistics, small_takes_whole_loss
from sincere.losses.class_balance import per_anchor_balanced, statistics_wanted
from sincere.losses.options import LossOptions, Settings, settings_from
from sincere.losses.pairs import make_pairs
from sincere.losses.reduction import reduce_over_anchors
from sincere.losses.statistics import Combination, per_anchor, valid_anchors


@dataclass(frozen=True)
class Batch:
    """What a caller passed to a loss."""

    embeddings: Tensor
    labels: Tensor
    contrast_embeddings: Tensor | None = None
    contrast_labels: Tensor | None = None


def combined_loss(combination: Combination, batch: Batch, options: LossOptions) -> Tensor:
    """The loss that `combination` states, over the caller's batch."""
    settings = settings_from(options)
    alone = batch.contrast_embeddings is None and batch.contrast_labels is None
    if alone and kernels_take_whole_loss(batch.embeddings, batch.labels, settings):
        return fused.loss(combination, batch.embeddings, batch.labels, settings)
    if alone and small_takes_whole_loss(batch.embeddings, batch.labels, settings, combination.margin):
        definition = partial(_by_definition, combination, batch.labels, settings)
        found = small.loss(combination, batch.embeddings, batch.labels, settings, definition)
        if found is not None:
            return found
    return _from_statistics(combination, batch, settings)


def _by_definition(combination: Combination, labels: Tensor, settings: Settings, embeddings: Tensor) -> Tensor:
    return _from_statistics(combination, Batch(embeddings, labels), replace(settings, backend="dense"))


def _from_statistics(combination: Combination, batch: Batch, settings: Settings) -> Tensor:
    """The general path: any batch, by any backend."""
    pairs = make_pairs(batch.embeddings, batch.labels, batch.contrast_embeddings, batch.contrast_labels, settings)
    if settings.class_balanced:
        stats = row_statistics(pairs, *statistics_wanted(combination), margin=combination.margin)
        values = per_anchor_balanced(combination, stats, pairs.relation)
    else:
        stats = row_statistics(pairs, *combination.wanted, margin=combination.margin)
        values = per_anchor(combination, stats)
    return reduce_over_anchors(values, valid_anchors(combination, stats), pairs)
