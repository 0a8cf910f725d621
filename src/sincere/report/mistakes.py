"""The worst mistakes with their nearest neighbours: is the sample odd, the label wrong, or the embedding?"""

from dataclasses import dataclass

import torch
from torch import Tensor

from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.geometry.directions import vectors_on
from sincere.nearest.precision import full_precision
from sincere.report.subject import Subject

SHOWN, NEIGHBOURS = 8, 5
BLOCK = 512  # mistakes that are compared with the gallery at once


@dataclass(frozen=True)
class Neighbour:
    """A sample near a mistake."""

    sample: int  # its place in the gallery
    label: int
    cosine: float


@dataclass(frozen=True)
class Mistake:
    """A sample that was taken for another class."""

    sample: int  # its place among the test samples
    label: int
    predicted: int
    margin: float  # cosine to the nearest of the predicted class minus cosine to the nearest of its own
    neighbours: tuple[Neighbour, ...]


def gallery_of(subject: Subject) -> EmbeddingSet:
    """Where neighbours are looked for."""
    return subject.test if subject.train is None else subject.train


def worst_mistakes(subject: Subject) -> tuple[Mistake, ...]:
    """Of the first classifier: those with the largest margin against them, worst first.

    Without samples whose class has nobody to be near: they cannot be right, and their margin is no measure.
    """
    if not subject.evaluation.classifiers:
        return ()
    predicted = torch.tensor(subject.evaluation.classifiers[0].predicted)
    labels = subject.test.labels
    wrong = ((predicted != labels) & subject.attainable).nonzero().flatten()
    if not len(wrong):
        return ()
    gallery = gallery_of(subject)
    margins = torch.cat([_margins(subject, part, predicted) for part in torch.split(wrong, BLOCK)])
    order = margins.argsort(descending=True, stable=True)[:SHOWN]
    near = _cosines(subject, wrong[order]).topk(min(NEIGHBOURS, len(gallery) - subject.alone), dim=1)
    return tuple(
        Mistake(
            sample=int(wrong[row]),
            label=int(labels[wrong[row]]),
            predicted=int(predicted[wrong[row]]),
            margin=float(margins[row]),
            neighbours=tuple(
                Neighbour(int(place), int(gallery.labels[place]), float(cosine))
                for place, cosine in zip(places, values, strict=True)
            ),
        )
        for row, places, values in zip(order.tolist(), near.indices, near.values, strict=True)
    )


def _margins(subject: Subject, wrong: Tensor, predicted: Tensor) -> Tensor:
    cosines, labels = _cosines(subject, wrong), gallery_of(subject).labels
    own = _nearest_of(cosines, labels, subject.test.labels[wrong])
    return _nearest_of(cosines, labels, predicted[wrong]) - own


@full_precision()
def _cosines(subject: Subject, wrong: Tensor) -> Tensor:
    """Cosines of each mistake with the gallery; −inf with itself."""
    rows = vectors_on(subject.test.subset(wrong), "embeddings")
    cosines = rows @ vectors_on(gallery_of(subject), "embeddings").T
    if subject.alone:
        cosines[torch.arange(len(wrong)), wrong] = -torch.inf
    return cosines


def _nearest_of(cosines: Tensor, labels: Tensor, wanted: Tensor) -> Tensor:
    """The largest cosine of each row with a sample of the wanted class; −1 where the gallery has none."""
    other = labels.unsqueeze(0) != wanted.unsqueeze(1)
    return cosines.masked_fill(other, -torch.inf).amax(dim=1).clamp(min=-1)
