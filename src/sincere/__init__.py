"""Supervised contrastive learning: losses that are exactly their papers' equations, in memory linear in the batch.

The losses are here. The rest of the pipeline is imported where it is used: `sincere.data`, `views`, `encoders`,
`train`, `recipes`, `embeddings`, `evaluate`, `estimators`, `geometry`, `report`, `theory`. The losses as functions
are in `sincere.functional`, drop-in replacements of other libraries' in `sincere.compat`. `sincere.load(run)` brings a
trained model back.
"""

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sincere.embeddings.loaded import load
    from sincere.losses.cached_backward import cached_backward
    from sincere.losses.diagnosis import Diagnosis, diagnose
    from sincere.losses.loss_readings import LossReading
    from sincere.losses.modules import (
        DecoupledLoss,
        EpsSupInfoNCELoss,
        InfoNCELoss,
        RankNContrastLoss,
        SetLoss,
        SINCERELoss,
        SoftLabelLoss,
        SpreadLoss,
        SupConLoss,
    )
    from sincere.losses.queue import LabelQueue

__all__ = [
    "DecoupledLoss",
    "Diagnosis",
    "EpsSupInfoNCELoss",
    "InfoNCELoss",
    "LabelQueue",
    "LossReading",
    "RankNContrastLoss",
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

# Imported when they are asked for. A training loop that wants a loss does not wait for the pipeline, and the command
# line hears Ctrl-C before torch is there.
_HOMES = {
    "cached_backward": "losses.cached_backward",
    "Diagnosis": "losses.diagnosis",
    "LossReading": "losses.loss_readings",
    "diagnose": "losses.diagnosis",
    "LabelQueue": "losses.queue",
    "load": "embeddings.loaded",
}


def __getattr__(name: str) -> Any:
    if name in __all__:
        home = import_module(f"sincere.{_HOMES.get(name, 'losses.modules')}")
        globals()[name] = found = getattr(home, name)
        return found
    if name in _packages():
        return import_module(f"sincere.{name}")
    raise AttributeError(f"module 'sincere' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_packages(), "__all__", "__doc__", "__version__"})


def _packages() -> set[str]:
    return {module.name for module in iter_modules(__path__) if not module.name.startswith("_")}
