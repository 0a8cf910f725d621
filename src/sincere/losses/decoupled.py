"""The decoupled loss: positives leave the denominator altogether."""

from typing import Unpack

from torch import Tensor

from sincere.losses.backends.select import row_statistics
from sincere.losses.options import LossOptions, loss_function, settings_from
from sincere.losses.pairs import make_pairs
from sincere.losses.reduction import reduce_over_anchors


@loss_function
def decoupled(
    embeddings: Tensor,
    labels: Tensor,
    contrast_embeddings: Tensor | None = None,
    contrast_labels: Tensor | None = None,
    **options: Unpack[LossOptions],
) -> Tensor:
    r"""Decoupled contrastive loss, supervised: the pull on positives does not fade as they get close.

    .. math:: \ell_t = \log \sum_{j \in N} e^{s_{tj}} - \frac{1}{|P|} \sum_{p \in P} s_{tp}

    Source: Yeh et al., 2022, arXiv 2110.06848, Eq. 6, with the mean over positives of a supervised batch.
    Conventions: as :func:`sincere`; the value can be negative. An anchor without negatives has no denominator, so
    it carries no loss either: a batch of one class gives 0.
    """
    pairs = make_pairs(embeddings, labels, contrast_embeddings, contrast_labels, settings_from(options))
    stats = row_statistics(pairs, "lse_neg", "mean_pos")
    return reduce_over_anchors(stats["lse_neg"] - stats["mean_pos"], stats.has_positive & (stats.num_neg > 0), pairs)
