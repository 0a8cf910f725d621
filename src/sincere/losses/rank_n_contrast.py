"""Rank-N-Contrast: labels are numbers, and similarities are ordered as the distances between labels are."""

from typing import Literal, Unpack, get_args

from torch import Tensor

from sincere.checks import check_choice
from sincere.errors import OptionError
from sincere.losses.backends.rank_rows import rank_values
from sincere.losses.class_balance import refuse_class_balance
from sincere.losses.options import DEFAULTS, LossOptions, Settings, loss_function, settings_from
from sincere.losses.pairs import make_pairs
from sincere.losses.reduction import reduce_over_anchors

Ties = Literal["compete", "spared"]
Distance = Literal["l1", "l2"]


@loss_function
def rank_n_contrast(
    embeddings: Tensor,
    labels: Tensor,
    contrast_embeddings: Tensor | None = None,
    contrast_labels: Tensor | None = None,
    *,
    ties: Ties = "compete",
    distance: Distance = "l1",
    **options: Unpack[LossOptions],
) -> Tensor:
    r"""Rank-N-Contrast, for regression: every contrast is a positive, against those whose labels are farther away.

    .. math:: \ell_t = \frac{1}{|A|} \sum_{j \in A} -\log \frac{e^{s_{tj}}}{\sum_{k \in S_{tj}} e^{s_{tk}}},
              \qquad S_{tj} = \{k \in A : |y_t - y_k| \ge |y_t - y_j|\}

    Source: Zha et al., 2023, arXiv 2210.01189, Eq. 1 and 2. ties="spared" is ours: S_tj is j and the contrasts
    that are *strictly* farther, so that equal labels are never pushed apart, and the mean is over those j for which
    there are any. On one-hot rows, whose distances are 0 and 2, it is SINCERE.
    Conventions: as :func:`sincere`, but for labels: a label that is not finite (NaN) marks an unlabelled sample, which
    is no anchor and no contrast. The cost is O(n² log n) beside the logits.
    Differs from: the authors' code has similarity −‖a − b‖ and temperature 2, which is
    ``similarity=lambda a, b: -torch.cdist(a, b), temperature=2.0`` here.

    Args:
        embeddings: (n, d), or (b, v, d): the views of a sample share its label.
        labels: numbers (n,), or rows of numbers (n, k). No gradient goes into them.
        contrast_embeddings: (m, d).
        contrast_labels: labels of the contrasts.
        ties: whether contrasts at the same distance "compete" with each other, as in the paper, or are "spared".
        distance: of rows of numbers, "l1" as in the paper, or "l2".
        options: see :class:`sincere.losses.options.LossOptions`.
    """
    settings = settings_from(options)
    check_ranking(ties, distance, settings)
    pairs = make_pairs(embeddings, labels, contrast_embeddings, contrast_labels, settings, soft="numbers")
    per_anchor, counted = rank_values(pairs, spared=ties == "spared", power=1.0 if distance == "l1" else 2.0)
    return reduce_over_anchors(per_anchor, (counted > 0) & pairs.relation.labelled, pairs)


def check_ranking(ties: object, distance: object, settings: Settings) -> None:
    check_choice("ties", ties, get_args(Ties))
    check_choice("distance", distance, get_args(Distance))
    refuse_class_balance(settings.class_balanced, "numbers are no classes")
    if settings.positives != "any":
        raise OptionError(
            f"positives={settings.positives!r} says how multi-hot labels make positives, and numbers make everybody "
            "one: leave it out."
        )
    if settings.ignore_label != DEFAULTS["ignore_label"]:
        raise OptionError(
            f"ignore_label={settings.ignore_label} is a class, and {settings.ignore_label} may be a number like any "
            "other: mark unlabelled samples by NaN."
        )
    if settings.ignored_as_negatives:
        raise OptionError(
            "ignored_as_negatives=True makes unlabelled samples negatives, and how far away they are is not known: "
            "drop the option."
        )
    if settings.reduction == "class_mean":
        raise OptionError('reduction="class_mean" needs classes, and numbers are none: use "mean" and weights.')
