"""SupCon: the supervised contrastive loss of Khosla et al., in both of its forms."""

from typing import Literal, Unpack, get_args

from torch import Tensor

from sincere.checks import check_choice
from sincere.losses.combination import Batch, combined_loss
from sincere.losses.options import LossOptions, loss_function
from sincere.losses.statistics import Combination

Form = Literal["out", "in"]
FORMS = get_args(Form)
OUT = Combination(lse_all=1, mean_pos=-1)
IN = Combination(lse_all=1, lse_pos=-1, log_positives=1)


@loss_function
def supcon(
    embeddings: Tensor,
    labels: Tensor,
    contrast_embeddings: Tensor | None = None,
    contrast_labels: Tensor | None = None,
    *,
    form: Form = "out",
    **options: Unpack[LossOptions],
) -> Tensor:
    r"""SupCon: each positive competes with all other contrasts, other positives included.

    .. math:: \ell_t^{out} = \frac{1}{|P|} \sum_{p \in P} -\log \frac{e^{s_{tp}}}{\sum_{a \in A} e^{s_{ta}}}
              \qquad
              \ell_t^{in} = -\log \frac{\frac{1}{|P|} \sum_{p \in P} e^{s_{tp}}}{\sum_{a \in A} e^{s_{ta}}}

    Source: Khosla et al., 2020, arXiv 2004.11362, Eq. 2 (out, the usual one) and Eq. 3 (in).
    Conventions: as :func:`sincere`. Identical embeddings within a class do not give 0 but about log |P|
    (:func:`sincere.diagnose` shows this floor): the other positives stay in the denominator.
    Differs from: the authors' code, which multiplies by τ/0.07 and takes the mean over all anchors
    (:mod:`sincere.compat` does both).
    """
    check_form(form)
    batch = Batch(embeddings, labels, contrast_embeddings, contrast_labels)
    return combined_loss(OUT if form == "out" else IN, batch, options)


def check_form(form: object) -> None:
    check_choice("form", form, FORMS)
