"""Checks of labels that are not class numbers: several labels, probabilities of classes, and numbers."""

import torch
from torch import Tensor

from sincere.checks import check_device, hint_about_views, shape_of
from sincere.errors import InputError, OptionError


def check_no_class_ignored(ignore_label: int) -> None:
    """In multi-hot labels no number is a class, so that a number from 0 up would be ignored itself, without a word."""
    if ignore_label >= 0:
        raise OptionError(
            f"ignore_label={ignore_label} is a class number, and multi-hot labels hold none: mark unlabelled samples "
            "by a negative entry in their row, labels.int().masked_fill(unlabelled.unsqueeze(1), -1). Drop the option."
        )


def check_probabilities(name: str, labels: object, of: str, embeddings: Tensor) -> None:
    """One row of class probabilities per sample of the embeddings, which are called `of`."""
    samples, views = embeddings.shape[0], embeddings.shape[1] if embeddings.ndim == 3 else None
    if not isinstance(labels, Tensor) or labels.ndim != 2 or labels.shape[0] != samples or labels.shape[1] == 0:
        came = shape_of(labels) if isinstance(labels, Tensor) else type(labels).__name__
        hint = ""
        if isinstance(labels, Tensor) and labels.ndim == 2:
            hint = hint_about_views(labels, samples, of, views)
        raise InputError(
            f"{name} must hold class probabilities, one row per sample: expected ({samples}, classes), got {came}. "
            'For one weight per pair pass targets="pairs"; for class numbers use SupConLoss, which it then equals.'
            f"{hint}"
        )
    check_device(name, labels, "embeddings", embeddings.device)


def check_numbers(name: str, labels: object, of: str, embeddings: Tensor) -> None:
    """One number, or one row of numbers, per sample of the embeddings."""
    samples, views = embeddings.shape[0], embeddings.shape[1] if embeddings.ndim == 3 else None
    if not isinstance(labels, Tensor):
        raise InputError(
            f"{name} must be a torch.Tensor of numbers, one per sample of {of}: got {type(labels).__name__}. "
            "Use torch.as_tensor(...)."
        )
    if labels.ndim not in (1, 2) or labels.shape[0] != samples or labels.shape[1:] == (0,):
        raise InputError(
            f"{name} must hold one number per sample of {of}, or one row of numbers: expected ({samples},) or "
            f"({samples}, k), got {shape_of(labels)}.{hint_about_views(labels, samples, of, views)}"
        )
    if labels.is_complex() or labels.dtype == torch.bool:
        raise InputError(
            f"{name} must be real numbers, between which there is a distance: got {labels.dtype}. For classes use "
            "SINCERELoss."
        )
    check_device(name, labels, of, embeddings.device)
