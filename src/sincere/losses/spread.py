"""The spread loss: SINCERE, and a term that keeps a class from collapsing to a point."""

from typing import Unpack

import torch
from torch import Tensor

from sincere.checks import check_embeddings, shape_of
from sincere.errors import InputError, OptionError
from sincere.losses.backends.select import row_statistics
from sincere.losses.options import LossOptions, Settings, loss_function, settings_from
from sincere.losses.pairs import Pairs, fold_views, in_full_precision, make_pairs
from sincere.losses.reduction import reduce_over_anchors
from sincere.losses.similarity import inner_product_rows, zero_unless


@loss_function
def spread(
    embeddings: Tensor,
    labels: Tensor,
    contrast_embeddings: Tensor | None = None,
    contrast_labels: Tensor | None = None,
    *,
    alpha: float = 0.5,
    **options: Unpack[LossOptions],
) -> Tensor:
    r"""L_spread: attract a class as a whole, and tell its members apart by their views.

    .. math:: \ell_t = (1 - \alpha)\, \ell_t^{SINCERE}
              + \alpha \Big( \log \sum_{p \in P} e^{s_{tp}} - s_{tt'} \Big)

    t' is the other view of t's own sample (with more than two views, the mean over them). The second term pushes
    members of one class apart on purpose, so that structure inside a class survives.

    Source: Chen et al., 2022, arXiv 2204.07596, L_spread = (1−α) L_attract + α L_repel.
    Conventions: as :func:`sincere`, which it equals at α = 0. With positives="jaccard" or "per_label" the sum over P
    carries the same weights as the first term; of "per_label" they sum to the number of the anchor's labels, so that
    one label per sample gives a value α log|P| lower than class numbers do, with the same gradient.
    Differs from: the authors' code, whose released flag for leaving positives out of the denominator is inverted.

    Args:
        embeddings: (b, v, d), v ≥ 2.
        labels: (b,), or multi-hot (b, classes).
        contrast_embeddings: needs `include_batch=True`, since t' must be among the positives.
        contrast_labels: labels of the contrasts.
        alpha: share of the second term, 0 to 1.
        options: see :class:`sincere.losses.options.LossOptions`.
    """
    settings = settings_from(options)
    check_alpha(alpha)
    _check_spread(embeddings, labels, contrast_embeddings, settings)
    embeddings = in_full_precision(embeddings)  # once, so that its two uses add their gradients in full precision
    pairs = make_pairs(embeddings, labels, contrast_embeddings, contrast_labels, settings)
    stats = row_statistics(pairs, "mean_softplus", "lse_pos")
    valid = stats.has_positive
    apart = torch.where(valid, stats["lse_pos"], 0) - _own_view_logits(embeddings, pairs)
    return reduce_over_anchors((1 - alpha) * stats["mean_softplus"] + alpha * apart, valid, pairs)


def _own_view_logits(embeddings: Tensor, pairs: Pairs) -> Tensor:
    """mean over t' of s_tt': (b·v,). From the b·v² pairs of views alone; but a similarity of the caller's own may look
    at whole batches, so there from the matrix that it gave for them."""
    rows, views = fold_views(embeddings)
    samples, similarity, temperature = embeddings.shape[0], pairs.settings.similarity, pairs.settings.temperature
    if callable(similarity):
        among_own = pairs.logits()[:, pairs.own_rows]
        matrix = among_own.reshape(samples, views, samples, views).diagonal(dim1=0, dim2=2).permute(2, 0, 1)
        temperature = 1.0  # it is in the logits already
    else:
        a, c = inner_product_rows(zero_unless(pairs.relation.labelled, rows), None, similarity)
        c = a if c is None else c
        matrix = a.view(samples, views, a.shape[1]) @ c.view(samples, views, c.shape[1]).mT
    others = ~torch.eye(views, dtype=torch.bool, device=rows.device)
    total = torch.where(others, matrix, 0).sum(dim=2)
    if isinstance(temperature, Tensor):
        temperature = temperature.reshape(()).to(device=rows.device, dtype=rows.dtype)
    return total.flatten() / (views - 1) / temperature


def check_alpha(alpha: object) -> None:
    is_number = isinstance(alpha, (int, float)) and not isinstance(alpha, bool)
    if not is_number or not 0 <= alpha <= 1:  # type: ignore[operator]
        raise OptionError(f"alpha must lie between 0 and 1: got {alpha!r}.")


def _check_spread(embeddings: Tensor, labels: Tensor, contrast_embeddings: Tensor | None, settings: Settings) -> None:
    check_embeddings("embeddings", embeddings, labels)
    if embeddings.ndim != 3 or embeddings.shape[1] < 2:
        raise InputError(
            "embeddings must hold at least two views of each sample, (b, v, d) with v ≥ 2, since the spread loss tells "
            f"members of a class apart by their views: got {shape_of(embeddings)}."
        )
    if contrast_embeddings is not None and not settings.include_batch:
        raise OptionError(
            "the spread loss needs each anchor's other view among its positives, and contrasts alone do not hold it: "
            "pass include_batch=True."
        )
