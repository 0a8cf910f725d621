"""The set loss: the probability of a class's members all at once."""

from typing import Any, Literal, Unpack, get_args

import torch
from torch import Tensor

from sincere.checks import check_choice
from sincere.errors import OptionError
from sincere.losses.backends import set_rows, transforms
from sincere.losses.backends.select import kernels_take_whole_loss
from sincere.losses.class_balance import refuse_class_balance
from sincere.losses.options import LossOptions, Settings, loss_function, settings_from
from sincere.losses.pairs import make_pairs
from sincere.losses.reduction import reduce_over_anchors

Method = Literal["auto", "exact", "saddle"]
METHODS = get_args(Method)
PLAIN = (Tensor, torch.nn.Parameter)


@loss_function
def set_nce(
    embeddings: Tensor,
    labels: Tensor,
    contrast_embeddings: Tensor | None = None,
    contrast_labels: Tensor | None = None,
    *,
    method: Method = "auto",
    **options: Unpack[LossOptions],
) -> Tensor:
    r"""The set loss: which k of the other samples are the anchor's class, as one question.

    .. math:: \ell_t = \frac{1}{k} \Big[ \log e_k\big(\{e^{s_{ta}}\}_{a \in A}\big) - \sum_{p \in P} s_{tp} \Big],
              \qquad k = |P|

    e_k is the elementary symmetric polynomial: the sum over all k-subsets of A of the product of their e^s. With π_a
    the probability that a is in a random k-subset, ∂ℓ/∂s_tp = (π_p − 1)/k ≤ 0 and ∂ℓ/∂s_tn = π_n/k ≥ 0: members of
    a class are never pushed apart.

    Source: ours; the probability is SINCERE's Eq. 17 (arXiv 2309.14277, Appendix B), whose Section 5 leaves the loss
    open as exponential. docs/set-loss.md derives it, the algorithms and their accuracy.
    Conventions: as :func:`sincere`; k = 1 gives InfoNCE; a batch of one class gives 0.

    Args:
        embeddings: (n, d), or (b, v, d).
        labels: integer classes, or multi-hot with positives="any"; a set has members, so "jaccard" and "per_label"
            are refused.
        contrast_embeddings: (m, d).
        contrast_labels: labels of the contrasts.
        method: "exact", O(m·k) an anchor; "saddle" by an approximation, O(m) an anchor, whose largest error found is
            0.0403/k (a search, no proof); "auto" takes "exact" while m times the largest k is at most 32,768. Where
            kernels compute "saddle" on a GPU, and looking at k would wait for the device, it takes "exact" up to 64
            contrasts alone. "saddle" by kernels can be recorded as a CUDA graph, "exact" cannot.
        options: see :class:`sincere.losses.options.LossOptions`.
    """
    settings = settings_from(options)
    check_sets(method, settings)
    alone = contrast_embeddings is None and contrast_labels is None
    if alone and _kernels_take_whole(embeddings, labels, settings, method):
        return _whole_loss()(embeddings, labels, settings)  # type: ignore[no-any-return]
    pairs = make_pairs(embeddings, labels, contrast_embeddings, contrast_labels, settings)
    if pairs.relation.kind in ("jaccard", "per_label"):
        raise OptionError(
            f'the set loss asks which samples are members, and positives="{pairs.relation.kind}" gives degrees of '
            f'membership: use positives="any", or another loss with "{pairs.relation.kind}".'
        )
    per_anchor, num_pos = set_rows.set_values(pairs, method)
    return reduce_over_anchors(per_anchor, num_pos > 0, pairs)


def check_sets(method: object, settings: Settings) -> None:
    check_choice("method", method, METHODS)
    refuse_class_balance(settings.class_balanced, "in the set loss sets compete")


def _kernels_take_whole(embeddings: Tensor, labels: Tensor, settings: Settings, method: Method) -> bool:
    """Can kernels go from these embeddings to the reduced loss? They do so in eager code alone: a graph that is
    compiled or traced, fake tensors, and every mistake go the general way, and so do losses that are not reduced."""
    if method == "exact" or settings.reduction == "none" or settings.check_finite:
        return False
    if torch.compiler.is_compiling() or type(embeddings) not in PLAIN or transforms.are_recorded():
        return False
    if not kernels_take_whole_loss(embeddings, labels, settings):
        return False
    small = embeddings.shape[:-1].numel() <= set_rows.EXACT_CONTRASTS  # then "auto" is exact, as `set_values` has it
    return method == "saddle" or settings.backend == "triton" or not small


def _whole_loss() -> Any:
    """Triton is imported when it is first used."""
    from sincere.losses.backends import triton_set_program

    return triton_set_program.loss
