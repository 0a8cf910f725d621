"""How well the embeddings classify, as training goes: k nearest training samples of each validation sample."""

from dataclasses import dataclass

import torch

from sincere.data import Splits
from sincere.embeddings.embed import Precision, embed
from sincere.encoders import EmbeddingModel
from sincere.nearest.default_k import default_k
from sincere.nearest.neighbours import nearest, vote
from sincere.seeds import seeded_generator
from sincere.train.config import ReportingConfig
from sincere.views import Views


@dataclass(frozen=True)
class Validation:
    """k-NN accuracy on the validation split."""

    accuracy: float
    neighbours: int
    references: int
    samples: int


def validate(
    model: EmbeddingModel, views: Views, splits: Splits, config: ReportingConfig, *, precision: Precision
) -> Validation | None:
    """Accuracy on the validation split; None where there is none. Always among the same training samples.

    As many neighbours are asked as the configuration says; where it says nothing, as many as the classes allow.
    """
    data, train = splits.validation, splits.train
    if data is None or len(data) == 0:
        return None
    if len(train) > config.references:
        generator = seeded_generator(0, "references")
        chosen = torch.randperm(len(train), generator=generator)[: config.references]
        train = train.subset(chosen.sort().values)
    known, new = (embed(model, views, part, precision=precision, visible=False) for part in (train, data))
    k = min(config.neighbours or default_k(torch.bincount(known.labels)), len(train))
    found = nearest(new.embeddings, known.embeddings, known.labels, k=k)
    predicted = vote(found, classes=len(train.class_names), k=k).argmax(dim=1)
    accuracy = float((predicted == new.labels).double().mean())
    return Validation(accuracy, k, len(train), len(data))
