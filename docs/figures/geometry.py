"""What training does to the cosines of pairs: pixels of scikit-learn's digits against embeddings trained on them.

    python docs/figures/geometry.py        # writes docs/figures/geometry.png and geometry.csv, a minute on one core

Trains `ContrastiveTransformer` (SINCERE, 8 epochs, seed 0) on 1,258 digits, and looks at the 359 test digits: all
64,261 pairs, before and after. Pixels are centred first: as they are, all of them point the same way.
"""

import csv
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from sklearn.datasets import load_digits

from sincere.data import stratified_split
from sincere.embeddings import EmbeddingSet
from sincere.estimators import ContrastiveTransformer
from sincere.geometry import Geometry, describe
from sincere.report.palette import cosines_map

WITHIN, BETWEEN, TARGET = "#0072B2", "#D55E00", "#009E73"  # Okabe and Ito


def described() -> list[Geometry]:
    pixels, digits = load_digits(return_X_y=True)
    train, _, test = stratified_split(torch.from_numpy(digits), seed=0)
    model = ContrastiveTransformer(epochs=8, width=128, random_state=0).fit(pixels[train], digits[train])
    sets = {"pixels, centred": pixels - pixels[train].mean(axis=0), "SINCERE embeddings": model.transform(pixels)}
    return [
        describe(EmbeddingSet.from_arrays(rows[test], digits[test], name="digits"), name=name, bins=50)
        for name, rows in sets.items()
    ]


def draw_histograms(axes: Axes, found: Geometry) -> None:
    histograms = found.histograms
    for counts, total, colour, mean, side in (
        (histograms.between, histograms.pairs_between, BETWEEN, histograms.mean_between, "two classes"),
        (histograms.within, histograms.pairs_within, WITHIN, histograms.mean_within, "one class"),
    ):
        shares = 100 * np.array(counts) / total
        label = f"{side}: {total:,} pairs, mean {mean:.2f}".replace("-", "−")
        axes.stairs(shares, histograms.edges, fill=True, color=colour, alpha=0.45, label=label)
        axes.stairs(shares, histograms.edges, color=colour, lw=1.2)
    axes.axvline(
        found.simplex.target, ymax=0.75, color=TARGET, lw=1.6, ls="--", label="two classes of the simplex: −1/9"
    )
    axes.set(xlim=(-1, 1), xlabel="cosine of a pair", ylabel="share of the pairs in a bin, %")
    axes.legend(loc="upper left", frameon=False, fontsize=10)
    axes.set_ylim(0, axes.get_ylim()[1] * 1.3)
    axes.set_title(f"{found.name}: {100 * histograms.overlap:.1f} % overlap", loc="left")


def draw_means(axes: Axes, found: Geometry) -> None:
    means = np.array(found.similarity.means)
    image = axes.imshow(means, vmin=-1, vmax=1, cmap=cosines_map())
    for a in range(len(means)):
        for b in range(len(means)):
            colour = "white" if abs(means[a, b]) > 0.6 else "black"
            axes.text(
                b,
                a,
                f"{means[a, b]:.1f}".replace("-0.0", "0.0").replace("-", "−"),
                ha="center",
                va="center",
                color=colour,
                fontsize=8,
            )
    axes.set(xticks=range(10), yticks=range(10), xlabel="digit", ylabel="digit")
    axes.set_title(f"mean cosine by class pair, n = {found.samples}", loc="left")
    axes.figure.colorbar(image, ax=axes, shrink=0.85, label="mean cosine")


def main() -> None:
    torch.set_num_threads(1)
    plt.rcParams.update({"font.size": 12, "axes.titlesize": 13})
    figure, axes = plt.subplots(2, 2, figsize=(11, 8.6), layout="constrained", width_ratios=(1.25, 1))
    rows = []
    for (left, right), found in zip(axes, described(), strict=True):
        left.spines[["top", "right"]].set_visible(False)
        draw_histograms(left, found)
        draw_means(right, found)
        print(found, *found.summary, "", sep="\n")
        histograms = found.histograms
        edges = zip(histograms.edges, histograms.edges[1:], histograms.within, histograms.between, strict=False)
        rows += [(found.name, f"{low:.2f}", f"{high:.2f}", *counts) for low, high, *counts in edges]
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=130)
    with Path(__file__).with_suffix(".csv").open("w", newline="") as file:
        csv.writer(file).writerows([("embeddings", "from", "to", "pairs of one class", "pairs of two"), *rows])


if __name__ == "__main__":
    main()
