"""Each label configuration of a batch of nine has its own minimiser; the sum over all batches has the simplex.

python docs/figures/theory_batches.py        # writes docs/figures/theory_batches.png, ten seconds on one core
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes

from sincere import theory

COLOURS = ("#0072B2", "#D55E00", "#009E73")
MARKERS = ("o", "s", "^")


def draw(axes: Axes, points: np.ndarray, counts: tuple[int, ...], title: str, below: str) -> None:
    labels = np.repeat(np.arange(len(counts)), counts)
    axes.add_patch(plt.Circle((0, 0), 1, fill=False, color="0.6", lw=1))
    corners = np.exp(1j * (np.pi / 2 + 2 * np.pi / 3 * np.arange(3)))
    axes.fill(corners.real, corners.imag, fill=False, ls=":", color="0.55", lw=1.2)
    z = points[:, 0] + 1j * points[:, 1]
    first = z[labels == 0].mean()
    z = z * (1j / (first / abs(first)))  # the first class on top
    second = z[labels == 1].mean()
    z = z if second.real < 0 or len(counts) < 3 else -z.conj()
    for c in range(len(counts)):
        own = z[labels == c]
        axes.plot([0, own.mean().real], [0, own.mean().imag], color=COLOURS[c], lw=2)
        axes.plot(own.real, own.imag, MARKERS[c], color=COLOURS[c], ms=10)
        place = 1.33 * own.mean() / abs(own.mean())
        axes.text(place.real, place.imag, str(counts[c]), color=COLOURS[c], ha="center", va="center", fontsize=13)
    axes.set_title(title, fontsize=13)
    axes.text(0, -1.72, below, ha="center", fontsize=10.5, color="0.25")
    axes.set(xlim=(-1.5, 1.5), ylim=(-1.8, 1.5), aspect="equal")
    axes.set_axis_off()


def main() -> None:
    torch.set_num_threads(1)
    found = theory.batch_minimisers()
    print(found)
    figure, panels = plt.subplots(1, 7, figsize=(14, 2.9), layout="constrained")
    for axes, one in zip(panels, found.configurations, strict=False):
        gain = "the simplex" if one.gain < 1e-6 else f"{one.gain:.3f} below the simplex"
        draw(axes, one.positions.numpy(), one.counts, " + ".join(map(str, one.counts)), gain)
    counts = (found.members,) * found.classes
    draw(panels[-1], found.positions.numpy(), counts, f"all {found.batches:,} batches", "the simplex")
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=150, bbox_inches="tight")


if __name__ == "__main__":
    main()
