"""Arrays and classes → a trained model: the loop behind the estimators, without scikit-learn."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import cos, pi
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from sincere.checks import check_choice, is_number, is_whole
from sincere.data import ClassBatches
from sincere.defaults import gradients_on
from sincere.encoders import EmbeddingModel, ProjectionHead, build_encoder, seeded
from sincere.errors import OptionError
from sincere.estimators.telling import told
from sincere.train.config import LOSSES
from sincere.train.progress import Length, Show
from sincere.views import Statistics, build_views

LossName: TypeAlias = Literal["sincere", "supcon", "eps_supinfonce", "decoupled", "set_nce"]
WARMUP = 0.05  # share of all steps over which the learning rate rises


@dataclass(frozen=True)
class FitOptions:
    """The estimators' parameters of the same names."""

    loss: LossName
    temperature: float
    dim: int
    width: int
    depth: int
    views: int
    noise: float
    mask: float
    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float

    def __post_init__(self) -> None:
        check_choice("loss", self.loss, get_args(LossName))
        for name in ("views", "epochs", "batch_size"):
            value = getattr(self, name)
            if not is_whole(value) or value < 1:
                raise OptionError(f"{name} must be a whole number from 1: got {value!r}.")
        for name in ("learning_rate", "weight_decay", "noise", "mask"):
            if not is_number(value := getattr(self, name)):
                raise OptionError(f"{name} must be a number: got {value!r}.")
        if not 0 < self.learning_rate < float("inf"):
            raise OptionError(f"learning_rate must be positive and finite: got {self.learning_rate!r}.")
        if not 0 <= self.weight_decay < float("inf"):
            raise OptionError(f"weight_decay must be at least 0 and finite: got {self.weight_decay!r}.")
        if not 0 <= self.noise < float("inf"):
            raise OptionError(f"noise must be at least 0 and finite: got {self.noise!r}.")
        if not 0 <= self.mask <= 1:
            raise OptionError(f"mask must lie between 0 and 1: got {self.mask!r}.")


@gradients_on()
def fit_model(rows: Tensor, labels: Tensor, options: FitOptions, *, seed: int, show: Show) -> EmbeddingModel:
    """Train an MLP and its head on standardised rows (n, features), on their device."""
    device, features = rows.device, rows.shape[1]
    generator = torch.Generator(device).manual_seed(seed)
    model = _new_model(features, options, seed=seed).to(device)
    views = build_views(
        "array",
        kind="array",
        statistics=Statistics((0.0,) * features, (1.0,) * features),  # the rows are standardised already
        mask={"share": options.mask},
        noise={"strength": options.noise},
    )
    loss = LOSSES[options.loss](temperature=options.temperature)
    batches = ClassBatches(labels, batch_size=options.batch_size, seed=seed)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=options.weight_decay)
    length = Length(options.epochs, options.epochs * len(batches))
    rates = _learning_rates(options.learning_rate, length.steps)
    with told(show, length, device) as telling:
        for chosen in (one for epoch in range(options.epochs) for one in batches.batches(epoch)):
            chosen = chosen.to(device)
            seen = views(rows[chosen], count=options.views, generator=generator)
            embeddings = model(seen.flatten(0, 1)).unflatten(0, seen.shape[:2])
            optimizer.param_groups[0]["lr"] = next(rates)
            optimizer.zero_grad()
            value = loss(embeddings, labels[chosen])
            value.backward()
            optimizer.step()
            telling.add(value, len(chosen))
    if not all(bool(values.isfinite().all()) for values in model.state_dict().values()):
        raise OptionError(
            "training must end with finite weights, and some are NaN or infinite: choose a smaller learning_rate "
            f"(got {options.learning_rate:g}), weight_decay ({options.weight_decay:g}) or noise ({options.noise:g})."
        )
    return model.eval()


def _new_model(features: int, options: FitOptions, *, seed: int) -> EmbeddingModel:
    with seeded(torch.Generator().manual_seed(seed)):
        encoder = build_encoder(
            "mlp",
            kind="array",
            shape=(features,),
            width=options.width,
            depth=options.depth,
            residual=True,
        )
        return EmbeddingModel(encoder, ProjectionHead(options.width, dim=options.dim))


def _learning_rates(peak: float, steps: int) -> Iterator[float]:
    """A straight warm-up, then a half cosine to nearly zero."""
    warmup = max(1, round(WARMUP * steps))
    for step in range(steps):
        yield (
            peak * (step + 1) / warmup
            if step < warmup
            else peak * (1 + cos(pi * (step - warmup) / (steps - warmup))) / 2
        )
