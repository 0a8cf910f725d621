"""SINCERE: supervised InfoNCE in which members of a class are never pushed apart."""

from typing import Unpack

from torch import Tensor

from sincere.losses.combination import Batch, combined_loss
from sincere.losses.options import LossOptions, loss_function
from sincere.losses.statistics import Combination

COMBINATION = Combination(mean_softplus=1)


@loss_function
def sincere(
    embeddings: Tensor,
    labels: Tensor,
    contrast_embeddings: Tensor | None = None,
    contrast_labels: Tensor | None = None,
    **options: Unpack[LossOptions],
) -> Tensor:
    r"""SINCERE: each positive competes with the negatives alone.

    .. math:: \ell_t = \frac{1}{|P|} \sum_{p \in P} -\log \frac{e^{s_{tp}}}{e^{s_{tp}} + \sum_{j \in N} e^{s_{tj}}}
              = \operatorname{mean}_{p \in P} \operatorname{softplus}(\operatorname{lse}_N(t) - s_{tp})

    Source: Feeney and Hughes, 2023, arXiv 2309.14277, Eq. 12.
    Conventions: embeddings are normalised here (similarity="cosine"); an anchor without positives carries no loss
    and is not counted in the mean; a batch of one class gives 0; the value is the equation's, without a scale.
    Differs from: the authors' code, which gives NaN when a class has one member.

    Args:
        embeddings: (n, d), or (b, v, d) for v views of b samples.
        labels: integer classes (n,) or (b,), or multi-hot (n, classes).
        contrast_embeddings: (m, d), contrast with these instead of the batch (see `include_batch`).
        contrast_labels: labels of the contrasts.
        options: see :class:`sincere.losses.options.LossOptions`.

    >>> import torch
    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.1], [-1.0, 0.0], [-1.0, 0.1]])
    >>> round(sincere(z, torch.tensor([0, 0, 1, 1]), temperature=0.5).item(), 4)
    0.0369
    """
    batch = Batch(embeddings, labels, contrast_embeddings, contrast_labels)
    return combined_loss(COMBINATION, batch, options)
