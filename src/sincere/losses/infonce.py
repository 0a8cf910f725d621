"""InfoNCE: no labels, the positives of an anchor are its own other views."""

from typing import Unpack

import torch
from torch import Tensor

from sincere.checks import check_embeddings, shape_of
from sincere.errors import InputError, OptionError
from sincere.losses.class_balance import refuse_class_balance
from sincere.losses.gather import rank, world_size
from sincere.losses.options import LossOptions, Settings, loss_function, settings_from
from sincere.losses.sincere import sincere


@loss_function
def infonce(
    embeddings: Tensor,
    contrast_embeddings: Tensor | None = None,
    **options: Unpack[LossOptions],
) -> Tensor:
    r"""InfoNCE / NT-Xent: tell an anchor's other view from the views of all other samples.

    .. math:: \ell_t = -\log \frac{e^{s_{tt'}}}{e^{s_{tt'}} + \sum_{j \in N} e^{s_{tj}}}

    Source: van den Oord et al., 2018, arXiv 1807.03748; SINCERE Eq. 1 and 2; Chen et al., 2020 (NT-Xent).
    Conventions: as :func:`sincere`, with each sample a class of its own. With v > 2 views the mean is over the v − 1
    other views, each against the other samples alone.

    Args:
        embeddings: (b, v, d), v ≥ 2 views of b samples; or (n, d) with contrasts.
        contrast_embeddings: (m, d), m ≥ n, where row i is the positive of anchor i and all other rows are negatives:
            keys of a momentum encoder, with a queue behind them, or the other modality.
        options: see :class:`sincere.losses.options.LossOptions`.
    """
    check_embeddings("embeddings", embeddings)
    check_without_labels(settings_from(options))
    samples = embeddings.shape[0]
    if contrast_embeddings is None:
        if embeddings.ndim != 3 or embeddings.shape[1] < 2:
            raise InputError(
                "embeddings must hold at least two views of each sample, (b, v, d) with v ≥ 2, since an anchor's "
                f"positive is its other view: got {shape_of(embeddings)}. Stack the views on dim 1, or pass "
                "contrast_embeddings."
            )
        return sincere(embeddings, _sample_numbers(samples, embeddings, options), **options)
    if isinstance(contrast_embeddings, Tensor) and contrast_embeddings.ndim == 1:
        raise InputError(
            "InfoNCE takes no labels, since a sample's other views are its positives: got "
            f"{contrast_embeddings.dtype} {shape_of(contrast_embeddings)} for contrast_embeddings. Call it with "
            "embeddings (b, v, d) alone, or use a loss with labels, such as SINCERELoss."
        )
    check_embeddings("contrast_embeddings", contrast_embeddings)
    if contrast_embeddings.shape[0] < samples:
        raise InputError(
            "contrast_embeddings must hold the positive of each anchor in the anchor's own row: "
            f"expected at least {samples} rows, got {shape_of(contrast_embeddings)}."
        )
    return sincere(
        embeddings,
        _sample_numbers(samples, embeddings, options),
        contrast_embeddings,
        _sample_numbers(contrast_embeddings.shape[0], embeddings, options),
        **options,
    )


def check_without_labels(settings: Settings) -> None:
    """Refuse options that concern labels."""
    if settings.ignore_label >= 0:
        raise OptionError(
            "ignore_label must be negative here: InfoNCE has no labels, and takes the samples' numbers 0, 1, 2, … for "
            f"classes, of which {settings.ignore_label} would be left out. Drop the option, and leave out samples "
            "yourself."
        )
    if settings.positives != "any" or settings.ignored_as_negatives:
        given = f"positives={settings.positives!r}" if settings.positives != "any" else "ignored_as_negatives=True"
        raise OptionError(f"InfoNCE has no labels, which {given} is about: drop the option.")
    refuse_class_balance(settings.class_balanced, "InfoNCE has no labels")


def _sample_numbers(samples: int, embeddings: Tensor, options: LossOptions) -> Tensor:
    """0, 1, 2, …, and with `gather` numbers that no other process uses."""
    numbers = torch.arange(samples, device=embeddings.device)
    return numbers * world_size() + rank() if options.get("gather") else numbers
