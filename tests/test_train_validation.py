"""k-NN while training: its k fits the references."""

import pytest
import torch

from sincere.data import LabelledData, Splits
from sincere.embeddings import EmbeddingSet
from sincere.train import ReportingConfig, validation


@pytest.fixture(autouse=True)
def inputs_are_embeddings(monkeypatch):
    def given(model, views, part, **_):
        return EmbeddingSet(part.inputs, part.labels, part.class_names, part.name)

    monkeypatch.setattr(validation, "embed", given)


def islands(classes, each, *, seed):
    centres = torch.nn.functional.normalize(torch.randn(classes, 16, generator=torch.Generator().manual_seed(0)))
    labels = torch.arange(classes).repeat(each)
    labels = torch.cat([labels, (labels[labels % 2 == 0])])  # every other class has twice as many
    noise = torch.randn(len(labels), 16, generator=torch.Generator().manual_seed(seed))
    names = tuple(f"class {c}" for c in range(classes))
    return LabelledData(centres[labels] + 0.08 * noise, labels, names, "array", "islands")


def validated(classes, each, **options):
    splits = Splits(islands(classes, each, seed=1), islands(classes, 2, seed=2), islands(classes, 2, seed=3))
    return validation.validate(None, None, splits, ReportingConfig(**options), precision="float32")


def test_small_classes_are_told_apart():
    found = validated(100, 4)
    assert (found.neighbours, found.accuracy) == (4, 1.0)


def test_large_classes_keep_twenty():
    assert validated(5, 40).neighbours == 20


def test_a_number_that_was_given_stays():
    found = validated(100, 4, neighbours=15)
    assert found.neighbours == 15
    assert found.accuracy < 0.9  # classes of four are outvoted by classes of eight
    assert validated(2, 3, neighbours=50).neighbours == 9  # there are no more


def test_k_fits_the_references_that_were_drawn():
    found = validated(100, 40, references=300)
    assert (found.references, found.neighbours <= 3) == (300, True)
