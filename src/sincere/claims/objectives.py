"""Several objectives on the same data, encoder, views and epochs: runs, accuracies and paired differences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from sincere.claims.experiments import Experiment
from sincere.claims.laboratory import Trained
from sincere.claims.record import Measured
from sincere.claims.statistics import over_seeds
from sincere.evaluate import Evaluation
from sincere.evaluate.bootstrap import percentile_interval, resampled_means
from sincere.train import LossConfig, TrainConfig

DRAWS = 1000  # of the bootstrap, as in the SINCERE paper
Top: TypeAlias = Literal[1, 5]  # within how many of a classifier's first answers the right one has to be
Settings: TypeAlias = Mapping[str, Any]  # what an objective changes of the plain configuration


@dataclass(frozen=True)
class Side:
    """One objective over several seeds."""

    title: str
    runs: tuple[Trained, ...]
    evaluations: tuple[Evaluation, ...]

    def correct(self, method: str, *, top: Top = 1) -> Tensor:
        """Right or wrong by seed and test sample, float64 (seeds, samples)."""
        if top == 5:
            return torch.tensor([found.classifier(method).in_top5 for found in self.evaluations]).double()
        return torch.stack([found.correct(method).double() for found in self.evaluations])

    def top1(self, method: str) -> list[float]:
        """In percent, by seed."""
        return [100 * found.classifier(method).top1.value for found in self.evaluations]


def objective(experiment: Experiment, name: str, title: str, **settings: Any) -> Side:
    """Train and evaluate one objective with every seed of an experiment."""
    runs = tuple(
        experiment.variant(f"{name}-{seed}", _changed(experiment, seed, settings)) for seed in experiment.seeds
    )
    return Side(title, runs, tuple(map(experiment.evaluation, runs)))


def _changed(experiment: Experiment, seed: int, settings: Settings) -> TrainConfig:
    plain = replace(experiment.plain, seed=seed)
    return replace(plain, **settings)


def contrastive(name: str, experiment: Experiment, **options: Any) -> LossConfig:
    """A loss at the experiment's temperature."""
    return LossConfig(name, experiment.plain.loss.temperature, options=options)


def accuracy(side: Side, method: str, *, paper: str | None = None) -> Measured:
    """Mean top-1 over seeds in percent, with the bootstrap interval over test samples."""
    values = 100 * side.correct(method).mean(dim=0)
    low, high = percentile_interval(resampled_means(values.unsqueeze(1), draws=DRAWS, seed=0)[:, 0])
    return Measured(f"{side.title}, top-1 %", float(values.mean()), low, high, counted(side), paper)


def difference(a: Side, b: Side, method: str, *, paper: str | None = None, top: Top = 1) -> Measured:
    """The first minus the second in points, with the wider of two intervals: over test samples, paired, and over seeds.

    The losses differ, and not just these runs or these samples, where even the wider one leaves out zero.
    """
    found = over_samples(a, b, method, top=top)
    by_seed = [(100 * side.correct(method, top=top).mean(dim=1)).tolist() for side in (a, b)]
    seeds = over_seeds(found.what, [x - y for x, y in zip(*by_seed, strict=True)])
    wider = max((found, seeds), key=lambda one: (one.high or 0.0) - (one.low or 0.0))
    return replace(found, low=wider.low, high=wider.high, paper=paper)


def over_samples(a: Side, b: Side, method: str, *, top: Top = 1) -> Measured:
    """The same with the interval over test samples alone: whether these runs differ, as the SINCERE paper asks."""
    change = 100 * (a.correct(method, top=top) - b.correct(method, top=top)).mean(dim=0)
    low, high = percentile_interval(resampled_means(change.unsqueeze(1), draws=DRAWS, seed=0)[:, 0])
    return Measured(f"{a.title} − {b.title}, points", float(change.mean()), low, high, counted(a))


def counted(side: Side) -> str:
    seeds = len(side.runs)
    return f"{len(side.evaluations[0].labels):,} test samples × {seeds} seed{'s' if seeds > 1 else ''}"


def rows_of(sides: Sequence[Side], seeds: Sequence[int], methods: Sequence[str]) -> list[dict[str, Any]]:
    """For the CSV: one row a run."""
    return [
        {"objective": side.title, "seed": seed}
        | {f"{method}_top1": found.classifier(method).top1.value for method in methods}
        | {"seconds": run.seconds()}
        for side in sides
        for seed, run, found in zip(seeds, side.runs, side.evaluations, strict=True)
    ]
