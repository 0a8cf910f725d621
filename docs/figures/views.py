"""Draws docs/figures/views.png: what the image presets make of one picture and of one digit.

    python docs/figures/views.py

One row a preset: the sample as evaluation sees it, then eight random views of it. The picture is painted here; the
digit is the first of scikit-learn's. Views are shown in the colours they have before they are normalised.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import Tensor

from sincere.views import Statistics, build_views

COLUMNS = 8
ROWS = {
    "sincere": "“sincere”, “supcon”\ncrop, flip, jitter, grey",
    "simclr": "“simclr”\nstronger, and blurred",
    "plain": "“plain”\nshift, flip, hole",
    "digits": "“digits”\nwarp, blank pixels, noise",
}


def painted(side: int = 64) -> Tensor:
    """A house under a sun, uint8 (1, 3, side, side): something that shows crops, flips and colours."""
    y, x = torch.meshgrid(torch.linspace(0, 1, side), torch.linspace(0, 1, side), indexing="ij")
    sky = torch.stack([0.45 + 0.3 * y, 0.7 + 0.15 * y, 0.95 - 0.05 * y])
    parts: list[tuple[Tensor, tuple[float, float, float]]] = [
        (y > 0.72 + 0.03 * torch.sin(9 * x), (0.30, 0.62, 0.26)),
        ((x - 0.80) ** 2 + (y - 0.20) ** 2 < 0.012, (1.00, 0.83, 0.20)),
        ((x > 0.18) & (x < 0.62) & (y > 0.48) & (y < 0.84), (0.86, 0.42, 0.33)),
        ((y > 0.26) & (y < 0.48) & ((x - 0.40).abs() < 1.25 * (y - 0.26)), (0.42, 0.20, 0.22)),
        ((x > 0.27) & (x < 0.37) & (y > 0.60) & (y < 0.84), (0.30, 0.18, 0.12)),
        ((x > 0.45) & (x < 0.55) & (y > 0.56) & (y < 0.68), (0.75, 0.90, 0.98)),
        ((x > 0.53) & (x < 0.58) & (y > 0.24) & (y < 0.40), (0.55, 0.25, 0.22)),
    ]
    for inside, colour in parts:
        sky = torch.where(inside, torch.tensor(colour).reshape(3, 1, 1), sky)
    return (sky * 255).round().byte().unsqueeze(0)


def digit() -> Tensor:
    """A three of scikit-learn's digits, uint8 (1, 1, 8, 8)."""
    images, labels = load_digits(return_X_y=True)
    chosen = images[labels == 3][0].reshape(1, 1, 8, 8)
    return torch.from_numpy(chosen / 16 * 255).round().byte()


def shown(views: Tensor, statistics: Statistics) -> Tensor:
    """Normalised views (n, c, h, w) as colours (n, h, w, c)."""
    mean, std = (torch.tensor(value).reshape(-1, 1, 1) for value in (statistics.mean, statistics.std))
    return (views * std + mean).clamp(0, 1).permute(0, 2, 3, 1)


def main() -> None:
    plt.rcParams.update({"font.size": 12})
    figure, axes = plt.subplots(len(ROWS), COLUMNS + 1, figsize=(12, 5.6), layout="constrained")
    for row, (name, title) in zip(axes, ROWS.items(), strict=True):
        sample = digit() if name == "digits" else painted()
        statistics = Statistics.of(sample, kind="image")
        hole = (
            {"hole": {"pixels": 24}, "shift": {"pixels": 8}} if name == "plain" else {}
        )  # for 64 pixels instead of 32
        views = build_views(name, kind="image", statistics=statistics, **hole)
        made = views(sample, count=COLUMNS, generator=torch.Generator().manual_seed(4))[0]
        pictures = shown(torch.cat([views.plain(sample), made]), statistics)
        for axis, picture in zip(row, pictures, strict=True):
            axis.imshow(picture.squeeze(-1).numpy(), cmap="gray", vmin=0, vmax=1)
            axis.set(xticks=[], yticks=[])
            for spine in axis.spines.values():
                spine.set_visible(False)
        row[0].set_ylabel(title, rotation=0, ha="right", va="center", labelpad=12)
    axes[0][0].set_title("plain(…)", fontsize=12)
    axes[0][1].set_title("eight random views", fontsize=12, loc="left")
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)


if __name__ == "__main__":
    main()
