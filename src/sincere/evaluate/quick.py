"""A few figures for the log of a training loop: plain numbers, without intervals."""

import torch
from torch import Tensor

from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.errors import InputError
from sincere.evaluate.retrieval import retrieve
from sincere.nearest.class_means import class_mean_scores, class_means
from sincere.nearest.default_k import default_k
from sincere.nearest.neighbours import nearest, vote


def quick_figures(
    embeddings: object,
    labels: object,
    references: object = None,
    reference_labels: object = None,
    *,
    k: int | None = None,
) -> dict[str, float]:
    """How good embeddings are at this moment, as shares from 0 to 1 by name, ready to be logged.

    >>> quick_figures([[1.0, 0.1], [1.0, 0.2], [0.1, 1.0], [0.3, 1.0]], ["cat", "cat", "dog", "dog"])
    {'knn': 1.0, 'recall_at_1': 1.0, 'r_precision': 1.0, 'map_at_r': 1.0}

    They are what :func:`evaluate` gives, without its bootstrap. With references, such as training samples, `knn` and
    `class_means` are fitted on those. Without, every sample is judged by the others, and there are no class means.
    Retrieval is always among the samples themselves, and left out where no class has two of them. Samples labelled −1,
    which are unlabelled for the losses, are left out.

    Args:
        embeddings: (n, d), of any floating-point type, on any device, with a graph or without; an array, or lists.
        labels: (n,) whole numbers or texts: a tensor, an array or a list.
        references: (m, d), to be the neighbours of k-NN; every class of the labels must be among theirs.
        reference_labels: (m,).
        k: how many neighbours vote; 20 unless given, fewer where classes are small.
    """
    if (references is None) != (reference_labels is None):
        raise InputError("references and reference_labels come together: pass both, or neither.")
    found = _labelled(embeddings, labels)
    known = None if references is None else _labelled(references, reference_labels)
    if known is not None:
        found = found.with_classes(known.class_names)
    figures: dict[str, float] = {}
    others = len(found) - 1 if known is None else len(known)
    if len(found) and others > 0:
        figures["knn"] = _knn(found, known, k)
    if len(found) and known is not None and others > 0:
        classes = len(known.class_names)
        means = class_means(known.embeddings, known.labels, classes=classes)
        figures["class_means"] = _share_right(class_mean_scores(found.embeddings, means), found.labels)
    if len(found) > 1:
        retrieved = retrieve(found.embeddings, found.labels, ks=(1,))
        if retrieved.queries.numel():
            figures["recall_at_1"] = float(retrieved.recall[1].mean())
            figures["r_precision"] = float(retrieved.r_precision.mean())
            figures["map_at_r"] = float(retrieved.average_precision.mean())
    return figures


def _labelled(embeddings: object, labels: object) -> EmbeddingSet:
    """What came as a set, where the embeddings were, without unlabelled samples."""
    made = EmbeddingSet.from_arrays(embeddings, labels, unlabelled="drop")
    return made.to(embeddings.device) if isinstance(embeddings, Tensor) else made


def _knn(found: EmbeddingSet, known: EmbeddingSet | None, k: int | None) -> float:
    """Share of samples for which the k nearest vote right; among the other samples where none are known."""
    pool = found if known is None else known
    counts = torch.bincount(pool.labels) - int(known is None)  # a sample does not find itself
    k = default_k(counts) if k is None else k
    near = nearest(found.embeddings, None if known is None else known.embeddings, pool.labels, k=k)
    return _share_right(vote(near, classes=len(pool.class_names), k=k), found.labels)


def _share_right(scores: Tensor, labels: Tensor) -> float:
    return float((scores.argmax(dim=1) == labels).double().mean())
