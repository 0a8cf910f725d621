"""Draws docs/figures/trivial.png: the fourteen operations of TrivialAugment on two photographs.

    python docs/figures/trivial.py

The photographs are scikit-learn's samples, cut to a square and made 64 pixels wide. One is shown at strength 10 of 30
with a negative sign, where the operation has strengths and signs, and the other at strength 25 with a positive one.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from sklearn.datasets import load_sample_image
from torch import Tensor

from sincere.views import TrivialAugment
from sincere.views.trivial import OPERATIONS, STRENGTHS

SIDE, COLUMNS = 64, 7
SHOWN = {"china.jpg": (10, -1), "flower.jpg": (25, 1)}


def photograph(name: str) -> Tensor:
    """The middle of the photograph, (1, 3, side, side) in 256 levels of [0, 1]."""
    whole = torch.from_numpy(load_sample_image(name).copy()).permute(2, 0, 1).unsqueeze(0).float()
    side = min(whole.shape[2:])
    top, left = ((size - side) // 2 for size in whole.shape[2:])
    middle = whole[:, :, top : top + side, left : left + side]
    return F.interpolate(middle, size=(SIDE, SIDE), mode="bilinear", antialias=True).round().clamp(0, 255) / 255


def views(name: str) -> Tensor:
    """The photograph after each operation, (14, side, side, 3)."""
    strength, sign = SHOWN[name]
    numbers = torch.tensor(
        [
            [(place + 0.5) / len(OPERATIONS), (strength + 0.5) / STRENGTHS, 0.25 if sign < 0 else 0.75]
            for place in range(len(OPERATIONS))
        ]
    )
    return TrivialAugment()(photograph(name).expand(len(OPERATIONS), -1, -1, -1), numbers).permute(0, 2, 3, 1)


def main() -> None:
    plt.rcParams.update({"font.size": 13})
    blocks = len(OPERATIONS) // COLUMNS
    figure, axes = plt.subplots(blocks * len(SHOWN), COLUMNS, figsize=(12, 7.2), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.03, w_pad=0.03, hspace=0, wspace=0)
    for offset, name in enumerate(SHOWN):
        strength, sign = SHOWN[name]
        for place, (operation, view) in enumerate(zip(OPERATIONS, views(name), strict=True)):
            axis = axes[place // COLUMNS * len(SHOWN) + offset][place % COLUMNS]
            axis.imshow(view.numpy(), vmin=0, vmax=1, interpolation="nearest")
            axis.set(xticks=[], yticks=[])
            for spine in axis.spines.values():
                spine.set_visible(False)
            if offset == 0:
                axis.set_title(operation.replace("_", " "), fontsize=13)
            if place % COLUMNS == 0:
                axis.set_ylabel(f"{'−' if sign < 0 else '+'}{strength} of {STRENGTHS - 1}")
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)


if __name__ == "__main__":
    main()
