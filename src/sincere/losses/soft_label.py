"""Soft labels: how much two samples belong together is a number, not a yes or no."""

from typing import Unpack, get_args

from torch import Tensor

from sincere.checks import check_choice
from sincere.errors import OptionError
from sincere.losses.backends.select import row_statistics
from sincere.losses.class_balance import refuse_class_balance
from sincere.losses.options import DEFAULTS, LossOptions, Settings, loss_function, settings_from
from sincere.losses.pairs import SoftTargets, make_pairs
from sincere.losses.reduction import reduce_over_anchors

TARGETS = get_args(SoftTargets)


@loss_function
def soft_label(
    embeddings: Tensor,
    labels: Tensor,
    contrast_embeddings: Tensor | None = None,
    contrast_labels: Tensor | None = None,
    *,
    targets: SoftTargets = "classes",
    **options: Unpack[LossOptions],
) -> Tensor:
    r"""Generalised supervised contrastive loss: cross-entropy between label similarity and embedding similarity.

    .. math:: \ell_t = -\sum_{a \in A} w_{ta} \log \frac{e^{s_{ta}}}{\sum_{a' \in A} e^{s_{ta'}}},
              \qquad \sum_{a \in A} w_{ta} = 1

    Source: Kim et al., 2022, arXiv 2206.00384 (GenSCL).
    Conventions: as :func:`supcon`, which it equals for one-hot labels. Weights are normalised over A here, so any
    scale will do. An anchor without a positive weight carries no loss.

    Args:
        embeddings: (n, d), or (b, v, d).
        labels: targets="classes": class probabilities (n, classes), as from mixup, CutMix or a teacher; w is the cosine
            of two samples' rows. A row with a negative entry is unlabelled. targets="pairs": w itself, (n, m), or
            (b, b) for samples with views; a negative weight counts as 0. Labels are constants: no gradient goes into
            them.
        contrast_embeddings: (m, d).
        contrast_labels: class probabilities of the contrasts; not used with targets="pairs".
        options: see :class:`sincere.losses.options.LossOptions`.
    """
    settings = settings_from(options)
    check_targets(targets, settings)
    pairs = make_pairs(embeddings, labels, contrast_embeddings, contrast_labels, settings, soft=targets)
    stats = row_statistics(pairs, "lse_all", "mean_pos")
    return reduce_over_anchors(stats["lse_all"] - stats["mean_pos"], stats.has_positive, pairs)


def check_targets(targets: object, settings: Settings) -> None:
    check_choice("targets", targets, TARGETS)
    refuse_class_balance(settings.class_balanced, "soft labels are no classes")
    if settings.positives != "any":
        raise OptionError(
            f"positives={settings.positives!r} says how multi-hot labels make positives, and soft labels say it "
            'themselves: leave it out. A matrix of Jaccard weights can be passed with targets="pairs".'
        )
    if settings.ignore_label != DEFAULTS["ignore_label"]:
        raise OptionError(
            f"ignore_label={settings.ignore_label} is a class, and soft labels have none: mark unlabelled samples by a "
            'negative entry in their row (targets="classes"), or by weights of 0 (targets="pairs").'
        )
    if targets == "pairs" and settings.ignored_as_negatives:
        raise OptionError(
            'ignored_as_negatives=True is about unlabelled samples, and targets="pairs" knows none: every sample is a '
            "contrast, with weight 0 a negative. Drop the option."
        )
    if targets == "pairs" and (settings.gather or settings.include_batch):
        raise OptionError(
            'targets="pairs" describes the pairs that were passed in, so it cannot be joined with other processes\' '
            'or the batch\'s: use targets="classes", whose weights follow from the labels.'
        )
    if targets == "pairs" and settings.reduction == "class_mean":
        raise OptionError(
            'reduction="class_mean" needs classes, and targets="pairs" has none: use "mean", or targets="classes".'
        )
