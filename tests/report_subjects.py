"""Small embedding sets and reports that the tests of `sincere.report` share."""

from dataclasses import replace
from functools import cache

import numpy as np
import torch
from sklearn.datasets import load_digits

from sincere.embeddings import EmbeddingSet
from sincere.evaluate import EvaluationOptions, evaluate
from sincere.geometry import describe
from sincere.report import Subject

HOSTILE = (
    "</script><script>window.hit=1;alert(1)</script>",
    '"><img src=x onerror="window.hit=2"> $x^2$ &amp;',
    "=1+1",
)
EPOCHS = tuple(
    {"kind": "epoch", "step": 10 * e, "epoch": e, "seconds": float(e), "loss": 4.0 / e, "excess": 4.0 / e - 0.25}
    for e in range(1, 21)
)
CHECKS = tuple({"kind": "validation", "step": 10 * e, "epoch": e, "knn_accuracy": 0.9 + e / 400} for e in (5, 10, 20))


def digits(*, noise: float = 0.0, seed: int = 0) -> tuple[EmbeddingSet, EmbeddingSet]:
    """Pixels of 400 digits as embeddings, with their pictures: 280 to judge by, 120 to judge."""
    pixels, labels = load_digits(return_X_y=True)
    pixels, labels = pixels[:400], labels[:400]
    rows = pixels + noise * np.random.default_rng(seed).normal(size=pixels.shape)
    images = (pixels.reshape(-1, 8, 8) * 15).astype(np.uint8)
    made = EmbeddingSet.from_arrays(rows[:, 10:40], labels, name="digits", images=images)
    return made.subset(torch.arange(280)), made.subset(torch.arange(280, 400))


@cache
def two_runs() -> tuple[Subject, Subject]:
    """A better and a worse one on the same samples, the first with curves."""
    first, second = (_measured(name, *digits(noise=noise)) for name, noise in (("plain", 0.0), ("noisy", 12.0)))
    return replace(first, metrics=EPOCHS + CHECKS), second


def _measured(name: str, train: EmbeddingSet, test: EmbeddingSet) -> Subject:
    options = EvaluationOptions(methods=("knn", "class_means", "retrieval"), draws=200)
    return Subject(name, test, train, evaluate(train, test, options=options, name=name), describe(test, draws=200))


def clouds(names, *, per_class=20, dim=5, noise=0.6, seed=0, shown=None) -> EmbeddingSet:
    """Clouds around random directions."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(len(names), dim))
    labels = np.arange(per_class * len(names)) % len(names)
    rows = centres[labels] + noise * random.normal(size=(len(labels), dim))
    return EmbeddingSet.from_arrays(rows, labels, class_names=tuple(names), name="clouds", shown=shown)


def hostile() -> EmbeddingSet:
    """Class names and texts that would run, if they were taken for markup."""
    return clouds(HOSTILE, noise=1.5, shown=tuple(f"{HOSTILE[i % 2]} {i}" for i in range(60)))
