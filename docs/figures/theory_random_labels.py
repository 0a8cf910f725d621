"""Steps to fit against the share of random labels, for cross-entropy and SupCon, by SGD and by Adam.

python docs/figures/theory_random_labels.py        # writes theory_random_labels.png and .csv, minutes on one core
"""

import csv
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch

from sincere import theory

NAMES = {"cross_entropy": "cross-entropy", "supcon": "SupCon"}
COLOURS = {"cross_entropy": "#009E73", "supcon": "#D55E00"}
MARKERS = {"cross_entropy": "^", "supcon": "o"}
SEEDS = 5
SETTINGS = (("sgd", 0.05, "SGD, momentum 0.9; 5 seeds"), ("adam", 0.002, "Adam; 5 seeds"))


def main() -> None:
    torch.set_num_threads(1)
    plt.rcParams.update(
        {"font.size": 12, "axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left"}
    )
    figure, panels = plt.subplots(1, 2, figsize=(11.5, 4.5), layout="constrained")
    with Path(__file__).with_suffix(".csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["optimizer", "loss", "share", "seed", "steps", "fitted"])
        for axes, (optimizer, rate, title) in zip(panels, SETTINGS, strict=True):
            found = theory.random_labels(optimizer=optimizer, rate=rate, seeds=SEEDS)
            print(found)
            for run in found.runs:
                rows.writerow([optimizer, run.loss, run.share, run.seed, run.steps, run.fitted])
            for loss, name in NAMES.items():
                steps = torch.tensor([found.steps(loss, share) for share in found.shares], dtype=torch.float64)
                shares = [100 * share for share in found.shares]
                axes.plot(
                    shares,
                    steps.mean(dim=1),
                    MARKERS[loss] + "-",
                    color=COLOURS[loss],
                    label=f"{name}: {found.trend(loss).shape}",
                )
                axes.plot(shares, steps, MARKERS[loss], color=COLOURS[loss], ms=3.5, alpha=0.45)
            axes.set(
                title=title, xlabel="labels that are random, %", ylabel="steps until 99 % of the training labels fit"
            )
            axes.set_ylim(0, 1.25 * max(run.steps for run in found.runs))
            axes.legend(frameon=False, loc="upper left")
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=150)


if __name__ == "__main__":
    main()
