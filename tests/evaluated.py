"""Embedding sets and evaluations that the tests of `sincere.evaluate` share."""

import numpy as np
import torch

from sincere.embeddings import EmbeddingSet
from sincere.evaluate import EvaluationOptions, evaluate

EVERYTHING = ("knn", "class_means", "linear", "linear_paper", "retrieval")


def made(n, seed, *, noise=1.0, classes=7, name="made", features=True):
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, 10, generator=torch.Generator().manual_seed(5))
    labels = torch.arange(n) % classes
    rows = centres[labels] + noise * torch.randn(n, 10, generator=generator)
    names = tuple(f"class {number}" for number in range(classes))
    return EmbeddingSet(rows[:, :6].contiguous(), labels, names, name, features=rows if features else None)


def with_correct(correct, *, name, labels=None):
    """An evaluation whose k-NN was right exactly where `correct` says."""
    correct = np.asarray(correct, dtype=bool)
    labels = np.zeros(len(correct), dtype=int) if labels is None else np.asarray(labels)
    rows = torch.eye(8)[:8]
    train = EmbeddingSet(rows, torch.arange(8), tuple("abcdefgh"), "train")
    predicted = torch.as_tensor(np.where(correct, labels, (labels + 1) % 8))
    test = EmbeddingSet(rows[predicted], torch.as_tensor(labels), tuple("abcdefgh"), "test")
    return evaluate(train, test, options=EvaluationOptions(methods=("knn",), k=1, draws=100), name=name)
