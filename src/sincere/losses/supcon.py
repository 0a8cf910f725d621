"""SupCon: the supervised contrastive loss of Khosla et al., in both of its forms."""

from typing import Literal, Unpack

from torch import Tensor

from sincere.checks import check_choice
from sincere.losses.backends.select import row_statistics
from sincere.losses.options import LossOptions, loss_function, settings_from
from sincere.losses.pairs import make_pairs
from sincere.losses.reduction import reduce_over_anchors


@loss_function
def supcon(
    embeddings: Tensor,
    labels: Tensor,
    contrast_embeddings: Tensor | None = None,
    contrast_labels: Tensor | None = None,
    *,
    form: Literal["out", "in"] = "out",
    **options: Unpack[LossOptions],
) -> Tensor:
    r"""SupCon: each positive competes with everybody else, other positives included.

    .. math:: \ell_t^{out} = \frac{1}{|P|} \sum_{p \in P} -\log \frac{e^{s_{tp}}}{\sum_{a \in A} e^{s_{ta}}}
              \qquad
              \ell_t^{in} = -\log \frac{\frac{1}{|P|} \sum_{p \in P} e^{s_{tp}}}{\sum_{a \in A} e^{s_{ta}}}

    Source: Khosla et al., 2020, arXiv 2004.11362, Eq. 2 (out, the one that everybody uses) and Eq. 3 (in).
    Conventions: as :func:`sincere`. Identical embeddings within a class do not give 0 but about log |P|
    (:func:`sincere.diagnose` shows this floor): the other positives stay in the denominator.
    Differs from: the authors' code, which multiplies by τ/0.07 and takes the mean over all anchors
    (:mod:`sincere.compat` does both).
    """
    check_choice("form", form, ("out", "in"))
    pairs = make_pairs(embeddings, labels, contrast_embeddings, contrast_labels, settings_from(options))
    if form == "out":
        stats = row_statistics(pairs, "lse_all", "mean_pos")
        per_anchor = stats["lse_all"] - stats["mean_pos"]
    else:
        stats = row_statistics(pairs, "lse_all", "lse_pos")
        per_anchor = stats["lse_all"] - stats["lse_pos"] + stats.weight_sum.log()
    return reduce_over_anchors(per_anchor, stats.has_positive, pairs)
