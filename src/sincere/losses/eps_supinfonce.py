"""ε-SupInfoNCE: SINCERE with a margin between positives and negatives."""

from typing import Unpack

from torch import Tensor

from sincere.errors import OptionError
from sincere.losses.combination import Batch, combined_loss
from sincere.losses.options import LossOptions, loss_function
from sincere.losses.statistics import Combination


@loss_function
def eps_supinfonce(
    embeddings: Tensor,
    labels: Tensor,
    contrast_embeddings: Tensor | None = None,
    contrast_labels: Tensor | None = None,
    *,
    epsilon: float = 0.25,
    **options: Unpack[LossOptions],
) -> Tensor:
    r"""ε-SupInfoNCE: positives must beat the negatives by a margin ε on the logits.

    .. math:: \ell_t = \frac{1}{|P|} \sum_{p \in P}
              -\log \frac{e^{s_{tp}}}{e^{s_{tp} - \epsilon} + \sum_{j \in N} e^{s_{tj}}}
              = \operatorname{mean}_{p \in P}
              \operatorname{softplus}(\operatorname{lse}_N(t) + \epsilon - s_{tp}) - \epsilon

    Source: Barbano et al., 2023, arXiv 2211.05568; ε = 0.25 is the authors' choice for CIFAR.
    Conventions: as :func:`sincere`, which it equals at ε = 0; ε is subtracted from s = sim/τ; a batch of one class
    gives the constant −ε with a zero gradient.
    Differs from: the authors' code, which adds 1e-6 inside the logarithm (4.47018 for 4.46983).
    """
    check_epsilon(epsilon)
    batch = Batch(embeddings, labels, contrast_embeddings, contrast_labels)
    combination = Combination(mean_softplus=1, margin=float(epsilon), constant=-float(epsilon))
    return combined_loss(combination, batch, options)


def check_epsilon(epsilon: object) -> None:
    is_number = isinstance(epsilon, (int, float)) and not isinstance(epsilon, bool)
    if not is_number or not 0 <= epsilon < float("inf"):  # type: ignore[operator]
        raise OptionError(f"epsilon must be a finite number ≥ 0, a margin on sim/temperature: got {epsilon!r}.")
