"""The losses as functions: `import sincere.functional as SF`."""

from sincere.losses.decoupled import decoupled
from sincere.losses.eps_supinfonce import eps_supinfonce
from sincere.losses.infonce import infonce
from sincere.losses.rank_n_contrast import rank_n_contrast
from sincere.losses.set_nce import set_nce
from sincere.losses.sincere import sincere
from sincere.losses.soft_label import soft_label
from sincere.losses.spread import spread
from sincere.losses.supcon import supcon

__all__ = [
    "decoupled",
    "eps_supinfonce",
    "infonce",
    "rank_n_contrast",
    "set_nce",
    "sincere",
    "soft_label",
    "spread",
    "supcon",
]
