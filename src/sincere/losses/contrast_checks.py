"""Checks of contrasts that a caller passes beside the batch, and of a similarity of the caller's own."""

from torch import Tensor

from sincere.checks import check_device, shape_of
from sincere.errors import InputError, OptionError


def check_given_together(
    contrast_embeddings: Tensor | None, contrast_labels: Tensor | None, *, needs_labels: bool, include_batch: bool
) -> None:
    """Contrasts come with their labels, unless the caller's pair weights say who is whose positive."""
    if needs_labels and (contrast_embeddings is None) != (contrast_labels is None):
        missing = "contrast_labels" if contrast_labels is None else "contrast_embeddings"
        by_place = " Options are given by name, temperature=0.1, and a queue as *queue.contrasts()."
        hint = "" if isinstance(contrast_embeddings, Tensor | None) else by_place
        raise InputError(f"contrast_embeddings and contrast_labels go together: {missing} is missing.{hint}")
    if contrast_embeddings is None and include_batch:
        raise OptionError(
            "include_batch=True adds the batch to given contrasts: pass contrast_embeddings, or leave it out."
        )


def check_contrast_rows(embeddings: Tensor, contrasts: Tensor) -> None:
    if embeddings.shape[-1] != contrasts.shape[-1]:
        raise InputError(
            "contrast_embeddings must have the embeddings' dimension: "
            f"expected (m, {embeddings.shape[-1]}), got {shape_of(contrasts)}."
        )
    check_device("contrast_embeddings", contrasts, "embeddings", embeddings.device)


def check_contrast_labels(labels: Tensor, contrast_labels: Tensor) -> None:
    if labels.shape[1:] != contrast_labels.shape[1:]:
        raise InputError(
            "labels and contrast_labels must be of one kind, both (n,) or both (n, classes) with the same classes: "
            f"got {shape_of(labels)} and {shape_of(contrast_labels)}."
        )


def check_matrix(matrix: object, n: int, m: int) -> Tensor:
    """What a similarity of the caller's own returned."""
    if not isinstance(matrix, Tensor) or tuple(matrix.shape) != (n, m):
        came = shape_of(matrix) if isinstance(matrix, Tensor) else type(matrix).__name__
        raise InputError(
            f"similarity must return one number per pair: expected ({n}, {m}), got {came}. "
            "It is called with the anchors (n, d) and the contrasts (m, d)."
        )
    return matrix
