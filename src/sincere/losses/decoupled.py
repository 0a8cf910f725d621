"""The decoupled loss: positives leave the denominator altogether."""

from typing import Unpack

from torch import Tensor

from sincere.losses.combination import Batch, combined_loss
from sincere.losses.options import LossOptions, loss_function
from sincere.losses.statistics import Combination

COMBINATION = Combination(lse_neg=1, mean_pos=-1, needs_negatives=True)


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

    Source: Yeh et al., 2022, arXiv 2110.06848, Eq. 6, with the mean over all positives of an anchor.
    Conventions: as :func:`sincere`; the value can be negative. An anchor without negatives has no denominator, so
    it carries no loss either: a batch of one class gives 0.
    """
    batch = Batch(embeddings, labels, contrast_embeddings, contrast_labels)
    return combined_loss(COMBINATION, batch, options)
