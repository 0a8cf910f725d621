"""Supervised contrastive learning: losses that are exactly their papers' equations, in memory linear in the batch."""

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

__all__ = [
    "DecoupledLoss",
    "EpsSupInfoNCELoss",
    "InfoNCELoss",
    "SINCERELoss",
    "SetLoss",
    "SoftLabelLoss",
    "SpreadLoss",
    "SupConLoss",
]
__version__ = "0.1.0"
