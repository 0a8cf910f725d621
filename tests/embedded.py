"""Embedding sets and plain NumPy truths that the tests of `sincere.geometry` share. Nothing here uses the package."""

import itertools

import numpy as np
import torch

from sincere.embeddings import EmbeddingSet


def made(n=90, classes=5, dim=6, noise=0.7, seed=0, **options):
    """Clusters with lengths between 0.5 and 1.5, in no order of class."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, dim, generator=torch.Generator().manual_seed(5))
    labels = torch.randint(classes, (n,), generator=generator)
    lengths = torch.rand(n, 1, generator=generator) + 0.5
    rows = lengths * (centres[labels] + noise * torch.randn(n, dim, generator=generator))
    names = tuple(f"class {number}" for number in range(classes))
    return EmbeddingSet(rows, labels, names, options.pop("name", "made"), **options)


def simplex(classes=5, members=4, dim=8, turn=0):
    """Every class one point, the points a regular simplex, turned at random."""
    left, sizes, _ = torch.linalg.svd(torch.eye(classes, dtype=torch.float64) - 1 / classes)
    corners = torch.zeros(classes, dim, dtype=torch.float64)
    room = min(dim, classes)  # the last of `classes` directions has length 0
    corners[:, :room] = (left * sizes)[:, :room] if classes > 1 else 1
    rotation, _ = torch.linalg.qr(
        torch.randn(dim, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(turn))
    )
    labels = torch.arange(classes).repeat_interleave(members)
    rows = torch.nn.functional.normalize(corners @ rotation, dim=1)[labels].float()
    return EmbeddingSet(rows, labels, tuple(map(str, range(classes))), "simplex")


def unit(found):
    """float64 unit rows; zero rows stay zero."""
    rows = found.embeddings.double().numpy()
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norms > 0, norms, 1)


def pairs(found):
    """(i, j, cosine, same class) of every two samples, i < j."""
    rows, labels = unit(found), found.labels.tolist()
    for i, j in itertools.combinations(range(len(labels)), 2):
        yield i, j, float(rows[i] @ rows[j]), labels[i] == labels[j]


def cosines(found):
    """Two arrays: cosines of pairs of one class, and of two."""
    everything = list(pairs(found))
    return tuple(np.array([cos for *_, cos, same in everything if same is wanted]) for wanted in (True, False))
