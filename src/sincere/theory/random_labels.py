"""How long it takes to fit random labels: steps against the share of labels that are random (Graf et al., 2021)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from sincere.checks import check_choice
from sincere.defaults import usual_defaults
from sincere.errors import OptionError
from sincere.tables import amount, columns
from sincere.theory.fit_times import FitTime, FitTimes, FitTrend, fit_growth, fit_trend
from sincere.theory.objectives import CHOICES, LOSSES
from sincere.theory.record import Record
from sincere.theory.regression import Estimate, needs_scipy


@dataclass(frozen=True)
class RandomLabels(FitTimes, Record):
    """Steps to fit by loss, share and seed, with tests of their trend."""

    classes: int
    samples: int
    dim: int
    hidden: int
    separation: float
    optimizer: str
    rate: float
    batch: int
    temperature: float
    threshold: float
    max_steps: int
    runs: tuple[FitTime, ...]
    trends: tuple[FitTrend, ...]
    growth: dict[str, Estimate]

    def __str__(self) -> str:
        title = (
            f"steps until {100 * self.threshold:g} % of {self.samples} training labels are right, "
            f"{self.classes} classes in {self.dim} dimensions, {self.optimizer}; "
            f"mean over {len({run.seed for run in self.runs})} seeds"
        )
        table: list[tuple[str, ...]] = [
            ("loss", *(f"{100 * share:g} % random" for share in self.shares), "curvature", "so")
        ]
        for trend in self.trends:
            means = (sum(found) / len(found) for found in (self.steps(trend.loss, share) for share in self.shares))
            table.append((trend.loss, *(f"{mean:.0f}" for mean in means), str(trend.curvature), trend.shape))
        lines = [title, *columns(table)]
        lines += [f"{loss} grew {ratio} times as much as cross_entropy" for loss, ratio in self.growth.items()]
        return "\n".join([*lines, *([f"! {amount(self.unfitted, 'run')} never fitted"] if self.unfitted else [])])


@usual_defaults()
def random_labels(
    losses: Sequence[str] = ("cross_entropy", "supcon"),
    *,
    shares: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 1.0),
    seeds: int = 3,
    first_seed: int = 0,
    classes: int = 8,
    samples: int = 256,
    dim: int = 16,
    hidden: int = 64,
    separation: float = 5.0,
    optimizer: Literal["sgd", "adam"] = "sgd",
    rate: float = 0.05,
    batch: int = 64,
    temperature: float = 0.1,
    threshold: float = 0.99,
    max_steps: int = 3000,
    every: int = 5,
) -> RandomLabels:
    """Train a small network on Gaussian clusters some of whose labels are random, until it fits all but 1 %.

    A network of two hidden layers; "fitted" is the argmax of the logits for cross-entropy, and the nearest class mean
    of the embeddings for a contrastive loss, on all training samples. For each seed and share both losses see the
    same samples, labels and batches. SGD has momentum 0.9.

    Args:
        losses: contrastive losses, or "cross_entropy".
        shares: of labels that are drawn anew, each uniform over the classes.
        seeds: runs of each; at least two, since intervals are over seeds.
        first_seed: from which they count up.
        classes: clusters.
        samples: points altogether.
        dim: of the points.
        hidden: width of the network.
        separation: norm of the clusters' centres; the noise around them has deviation 1 in each direction.
        optimizer: "sgd" or "adam". It matters: see docs/theory.md.
        rate: learning rate.
        batch: samples of a step.
        temperature: of the contrastive losses.
        threshold: share of training samples that must be right.
        max_steps: after which a run is given up.
        every: steps between two looks at the training accuracy.
    """
    check_choice("optimizer", optimizer, ("sgd", "adam"))
    for loss in losses:
        check_choice("loss", loss, CHOICES)
    if not losses or len(set(shares)) < 3 or min(shares) < 0 or max(shares) > 1 or seeds < 2:
        raise OptionError(
            "a curvature needs a loss, at least three shares from 0 to 1, and its interval two seeds: "
            f"got losses={tuple(losses)}, shares={tuple(shares)}, seeds={seeds}."
        )
    if min(classes, samples, dim, hidden, batch, max_steps, every) < 1:
        raise OptionError(
            "classes, samples, dim, hidden, batch, max_steps and every must be at least 1: "
            f"got {classes=}, {samples=}, {dim=}, {hidden=}, {batch=}, {max_steps=}, {every=}."
        )
    needs_scipy()
    training = _Training(optimizer, rate, batch, temperature, threshold, max_steps, every)
    runs = []
    for loss in losses:
        for share in shares:
            for seed in range(first_seed, first_seed + seeds):
                points, labels = _clusters(samples, classes, dim, separation, share, seed)
                network, weights = _network(dim, hidden, classes if loss == "cross_entropy" else 16, seed)
                steps, fitted = _steps_to_fit(loss, points, labels, network, weights, training, seed)
                runs.append(FitTime(loss, float(share), seed, steps, fitted))
    return RandomLabels(
        classes=classes,
        samples=samples,
        dim=dim,
        hidden=hidden,
        separation=separation,
        optimizer=optimizer,
        rate=rate,
        batch=batch,
        temperature=temperature,
        threshold=threshold,
        max_steps=max_steps,
        runs=tuple(runs),
        trends=tuple(fit_trend(loss, runs) for loss in losses),
        growth=fit_growth(losses, runs),
    )


def _clusters(
    samples: int, classes: int, dim: int, separation: float, share: float, seed: int
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, dim, dtype=torch.float64, generator=generator)
    centres = separation * centres / centres.norm(dim=1, keepdim=True)
    labels = torch.arange(samples) % classes
    points = centres[labels] + torch.randn(samples, dim, dtype=torch.float64, generator=generator)
    # The order and the new labels are the same for every share, so that a larger share contains the smaller ones.
    order = torch.randperm(samples, generator=generator)
    drawn = torch.randint(classes, (samples,), generator=generator)
    chosen = order[: round(share * samples)]
    labels[chosen] = drawn[chosen]
    return points, labels


def _network(dim: int, hidden: int, outputs: int, seed: int) -> tuple[Callable[[Tensor], Tensor], list[Tensor]]:
    generator = torch.Generator().manual_seed(1000 + seed)
    weights: list[Tensor] = []
    for inputs, size in ((dim, hidden), (hidden, hidden), (hidden, outputs)):
        weights.append(torch.randn(size, inputs, dtype=torch.float64, generator=generator) * (2 / inputs) ** 0.5)
        weights.append(torch.zeros(size, dtype=torch.float64))
    for weight in weights:
        weight.requires_grad_()

    def network(x: Tensor) -> Tensor:
        x = F.relu(F.linear(x, weights[0], weights[1]))
        x = F.relu(F.linear(x, weights[2], weights[3]))
        return F.linear(x, weights[4], weights[5])

    return network, weights


@dataclass(frozen=True)
class _Training:
    """How a network is trained, and when it has fitted."""

    optimizer: str
    rate: float
    batch: int
    temperature: float
    threshold: float
    max_steps: int
    every: int

    def descend(self, weights: list[Tensor]) -> torch.optim.Optimizer:
        if self.optimizer == "sgd":
            return torch.optim.SGD(weights, lr=self.rate, momentum=0.9)
        return torch.optim.Adam(weights, lr=self.rate)


def _steps_to_fit(
    loss: str,
    points: Tensor,
    labels: Tensor,
    network: Callable[[Tensor], Tensor],
    weights: list[Tensor],
    training: _Training,
    seed: int,
) -> tuple[int, bool]:
    descend = training.descend(weights)
    generator = torch.Generator().manual_seed(2000 + seed)
    for step in range(training.max_steps + 1):
        if (
            step % training.every == 0
            and _training_accuracy(loss, network(points).detach(), labels) >= training.threshold
        ):
            return step, True
        rows = torch.randperm(len(labels), generator=generator)[: training.batch]
        output = network(points[rows])
        value = (
            F.cross_entropy(output, labels[rows])
            if loss == "cross_entropy"
            else LOSSES[loss](output, labels[rows], temperature=training.temperature, backend="dense")
        )
        descend.zero_grad()
        value.backward()  # type: ignore[no-untyped-call]
        descend.step()
    return training.max_steps, False


def _training_accuracy(loss: str, output: Tensor, labels: Tensor) -> float:
    if loss != "cross_entropy":
        output = F.normalize(output, dim=1)
        means = output.new_zeros(int(labels.max()) + 1, output.shape[1]).index_add_(0, labels, output)
        output = output @ F.normalize(means, dim=1).T
    return float((output.argmax(dim=1) == labels).double().mean())
