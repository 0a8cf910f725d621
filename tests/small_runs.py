"""Small data, small networks and short runs for the tests of training."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from sincere import SINCERELoss
from sincere.data import LabelledData, Splits
from sincere.train import (
    BatchesConfig,
    ComputeConfig,
    EncoderConfig,
    HeadConfig,
    OptimizerConfig,
    ReportingConfig,
    TrainConfig,
)

CLASSES = ("ant", "bee", "cat")
CPU = ComputeConfig(device="cpu")


def small_splits(samples: int = 60, features: int = 6) -> Splits:
    """Three blobs of arrays, the same every time."""
    generator = torch.Generator().manual_seed(0)
    centres = 2 * torch.randn(len(CLASSES), features, generator=generator)

    def part(count: int) -> LabelledData:
        labels = torch.arange(count) % len(CLASSES)
        inputs = centres[labels] + torch.randn(count, features, generator=generator)
        return LabelledData(inputs, labels, CLASSES, "array", "blobs")

    return Splits(part(samples), part(18), part(18))


def layers(shape: tuple[int, ...], *, dropout: float = 0.0) -> nn.Module:
    """An encoder without batch normalisation: `small_runs:layers`."""
    return nn.Sequential(nn.Linear(shape[0], 16), nn.Tanh(), nn.Dropout(dropout), nn.Linear(16, 8), nn.ReLU())


class Lengths(nn.Module):
    """A text encoder with a tokenizer of its own, which sees nothing but how long words are: `small_runs:Lengths`."""

    feature_dim = 4

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(16, 4, padding_idx=0)

    def tokenize(self, texts: Sequence[str]) -> Tensor:
        rows = [[len(word) for word in text.split()][:2] for text in texts]
        return torch.tensor([row + [0] * (2 - len(row)) for row in rows], dtype=torch.int32).unsqueeze(2)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.table(tokens.squeeze(2))


def small_config(**changes: object) -> TrainConfig:
    """A run of 3 epochs of 5 batches that says little."""
    plain = TrainConfig(
        epochs=3,
        batches=BatchesConfig(size=12),
        encoder=EncoderConfig("small_runs:layers"),
        head=HeadConfig(dim=5),
        optimizer=OptimizerConfig(lr=0.1),
        compute=CPU,
        reporting=ReportingConfig(log_every=2, validate_every=2, neighbours=3, checkpoint_seconds=None),
    )
    return replace(plain, **changes)


class Scaled(nn.Module):
    """A loss of one's own, `small_runs:Scaled`: SINCERE, `scale` times."""

    def __init__(self, *, temperature: float, scale: float) -> None:
        super().__init__()
        self.own, self.scale = SINCERELoss(temperature=temperature), scale

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        return self.scale * self.own(embeddings, labels)


class Steep(nn.Module):
    """A loss of one's own, `small_runs:Steep`, which is finite always; its gradient is not at call number `at`."""

    def __init__(self, *, temperature: float, at: int) -> None:
        super().__init__()
        self.at, self.calls = at, 0

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        self.calls += 1
        length = embeddings.square().mean()
        return length + (0 * embeddings).sum().abs().sqrt() if self.calls == self.at else length


class Odd(nn.Module):
    """A loss of one's own, `small_runs:Odd`, which returns something else than a number."""

    def __init__(self, *, temperature: float, form: str) -> None:
        super().__init__()
        self.form = form

    def forward(self, embeddings: Tensor, labels: Tensor) -> object:
        rows = embeddings.flatten(0, 1).square().sum(dim=1)
        mean = rows.mean()
        return {"rows": rows, "one row": mean.reshape(1), "float": mean.item(), "detached": mean.detach()}[self.form]
