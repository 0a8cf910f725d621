"""The configuration of a run as a whole: its parts together, and what they cannot be together."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sincere.errors import OptionError
from sincere.runs import read_json
from sincere.tables import amount
from sincere.train.config import (
    BatchesConfig,
    ComputeConfig,
    DataConfig,
    EncoderConfig,
    HeadConfig,
    LossConfig,
    MemoryConfig,
    Objective,
    OptimizerConfig,
    ReportingConfig,
    ScheduleConfig,
    ViewsConfig,
)
from sincere.train.fields import check_at_least, check_fields, differences, from_json, to_json


@dataclass(frozen=True)
class TrainConfig:
    """A run, whole.

    >>> config = TrainConfig(epochs=20, optimizer=OptimizerConfig(lr=0.1))
    >>> TrainConfig.from_json(config.to_json()) == config
    True

    objective: "contrastive" (the loss on embeddings); "cross_entropy" (a linear classifier on embeddings, which are
        the features unless a head is asked for); "fixed_simplex" (cross-entropy with classifier weights fixed to the
        vertices of a regular simplex, on unit embeddings at the loss's temperature); "joint" (the contrastive loss on
        embeddings plus cross_entropy_weight times the cross-entropy of a linear classifier on features, in one stage).
    seed: of weights, batches and views. The random numbers of a step depend on it and on the step alone.
    """

    data: DataConfig = field(default_factory=DataConfig)
    batches: BatchesConfig = field(default_factory=BatchesConfig)
    views: ViewsConfig = field(default_factory=ViewsConfig)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    head: HeadConfig = field(default_factory=HeadConfig)
    objective: Objective = "contrastive"
    cross_entropy_weight: float = 1.0
    loss: LossConfig = field(default_factory=LossConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    compute: ComputeConfig = field(default_factory=ComputeConfig)
    reporting: ReportingConfig = field(default_factory=ReportingConfig)
    epochs: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        check_at_least(1, epochs=self.epochs)
        check_at_least(0, seed=self.seed, cross_entropy_weight=self.cross_entropy_weight)
        self._check_schedule()
        self._check_views()
        self._check_memory()

    @property
    def contrastive(self) -> bool:
        """Does a contrastive loss take part?"""
        return self.objective in ("contrastive", "joint")

    def _check_schedule(self) -> None:
        if self.schedule.warmup_epochs > self.epochs:
            raise OptionError(
                f"schedule.warmup_epochs must fit into the run's {amount(self.epochs, 'epoch')}: "
                f"got {self.schedule.warmup_epochs}."
            )
        highest = max(self.schedule.warmup_start_lr, self.schedule.end_lr)
        if highest > self.optimizer.lr:
            raise OptionError(
                f"schedule.warmup_start_lr and schedule.end_lr must not exceed optimizer.lr, {self.optimizer.lr}: "
                f"got {highest}."
            )

    def _check_views(self) -> None:
        needs_two = self.contrastive and self.loss.name in ("infonce", "spread")
        if (needs_two or self.memory.momentum is not None) and self.views.count < 2:
            who = f"loss {self.loss.name!r}" if needs_two else "memory.momentum"
            raise OptionError(f"{who} needs at least two views of a sample: got views.count={self.views.count}.")

    def _check_memory(self) -> None:
        memory = self.memory
        if not memory.queue and memory.momentum is None:
            return
        if self.objective != "contrastive":
            raise OptionError(f'memory belongs to objective="contrastive": got {self.objective!r}.')
        if self.loss.name in ("infonce", "spread"):
            raise OptionError(
                f"memory cannot serve loss {self.loss.name!r}, whose positive is a sample's other view and not any of "
                "its class: use sincere, supcon, eps_supinfonce, decoupled or set_nce."
            )
        if self.compute.chunk_size is not None:
            raise OptionError("memory and compute.chunk_size exclude each other: both stand for a larger batch.")

    def to_json(self) -> dict[str, Any]:
        """What `json.dumps` takes, and `from_json` gives back."""
        return to_json(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "TrainConfig":
        """Settings that are left out keep their defaults; unknown ones are refused."""
        return from_json(cls, values)

    @classmethod
    def load(cls, path: str | Path) -> "TrainConfig":
        """From a config.json, or from the folder of a run."""
        place = Path(path)
        return cls.from_json(read_json(place / "config.json" if place.is_dir() else place))

    def differences(self, other: "TrainConfig") -> list[str]:
        """The settings that make another run of it: everything but `reporting`."""
        return changed(self.to_json(), other.to_json())


def changed(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """The settings of two configurations as JSON that differ, but for `reporting`."""
    mine, others = json.loads(json.dumps(ours)), json.loads(json.dumps(theirs))
    return list(differences({**mine, "reporting": None}, {**others, "reporting": None}))
