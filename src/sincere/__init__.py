"""Supervised contrastive learning: losses that are exactly their papers' equations, in memory linear in the batch.

The losses are here. The rest of the pipeline is imported where it is used: `sincere.data`, `views`, `encoders`,
`train`, `embeddings`, `evaluate`, `estimators`; `sincere.load(run)` brings a trained model back.
"""

from typing import TYPE_CHECKING, Any

from sincere.losses.cached_backward import cached_backward
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

if TYPE_CHECKING:
    from sincere.embeddings.loaded import load

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
    "load",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`load` needs the pipeline, which a training loop that wants a loss should not have to wait for."""
    if name == "load":
        from sincere.embeddings.loaded import load

        return load
    raise AttributeError(f"module 'sincere' has no attribute {name!r}")
