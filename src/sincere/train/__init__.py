"""Training: a configuration, the loop, and everything that it can be made of."""

from sincere.losses.cached_backward import cached_backward
from sincere.train.config import (
    BatchesConfig,
    ComputeConfig,
    DataConfig,
    EncoderConfig,
    HeadConfig,
    LossConfig,
    MemoryConfig,
    OptimizerConfig,
    ReportingConfig,
    ScheduleConfig,
    ViewsConfig,
)
from sincere.train.lars import LARS
from sincere.train.loop import TrainedRun, train
from sincere.train.meter import DivergedError
from sincere.train.muon import Muon
from sincere.train.train_config import TrainConfig

__all__ = [
    "LARS",
    "BatchesConfig",
    "ComputeConfig",
    "DataConfig",
    "DivergedError",
    "EncoderConfig",
    "HeadConfig",
    "LossConfig",
    "MemoryConfig",
    "Muon",
    "OptimizerConfig",
    "ReportingConfig",
    "ScheduleConfig",
    "TrainConfig",
    "TrainedRun",
    "ViewsConfig",
    "cached_backward",
    "train",
]
