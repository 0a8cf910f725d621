"""Supervised contrastive learning: losses that are exactly their papers' equations, in memory linear in the batch."""

from sincere.losses.diagnosis import Diagnosis, LossReading, diagnose
from sincere.losses.modules import (
    DecoupledLoss,
    EpsSupInfoNCELoss,
    InfoNCELoss,
    SetLoss,
    SINCERELoss,
    SoftLabelLoss,
    SpreadLoss,
    SupConLoss,
)
from sincere.losses.queue import LabelQueue
from sincere.train.cached_backward import cached_backward

__all__ = [
    "DecoupledLoss",
    "Diagnosis",
    "EpsSupInfoNCELoss",
    "InfoNCELoss",
    "LabelQueue",
    "LossReading",
    "SINCERELoss",
    "SetLoss",
    "SoftLabelLoss",
    "SpreadLoss",
    "SupConLoss",
    "cached_backward",
    "diagnose",
]
__version__ = "0.1.0"
