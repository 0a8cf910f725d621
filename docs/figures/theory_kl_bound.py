"""log|N| − loss against the true divergence of two Gaussians, by |N| and by temperature of the critic.

python docs/figures/theory_kl_bound.py        # writes theory_kl_bound.png and .csv beside it, twenty seconds
"""

import csv
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes

from sincere import theory

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
NAMES = {"infonce": "InfoNCE, |P| = 1", "sincere": "SINCERE, |P| = 8", "supcon": "SupCon, |P| = 8"}
COLOURS = {"infonce": "#E69F00", "sincere": "#0072B2", "supcon": "#D55E00"}
MARKERS = {"infonce": "v", "sincere": "s", "supcon": "o"}
TEMPERATURES = {
    0.25: ("#D55E00", "^"),
    0.5: ("#E69F00", "v"),
    1.0: ("#0072B2", "s"),
    2.0: ("#009E73", "D"),
    4.0: ("#CC79A7", "o"),
}


def finish(axes: Axes, found: theory.KlBoundCurve, title: str) -> None:
    axes.axhline(found.divergence, color="black", lw=1.2)
    axes.text(1024, found.divergence + 0.13, f"true divergence, {found.divergence:g} nats", ha="right")
    axes.plot(SIZES[:4], torch.tensor(SIZES[:4]).log(), ":", color="0.5")
    axes.text(3.6, 1.55, "log|N|", color="0.4", ha="right")
    axes.set_xscale("log", base=2)
    axes.set(
        xlabel=f"negatives |N| ({found.samples:,} anchors)", ylabel="log|N| − loss, nats", ylim=(-4, 2.6), title=title
    )
    axes.set_xticks(SIZES[::2], map(str, SIZES[::2]))


def main() -> None:
    torch.set_num_threads(1)
    plt.rcParams.update(
        {"font.size": 12, "axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left"}
    )
    by_loss = theory.kl_bound_on_gaussians(negatives=SIZES, samples=4000)
    by_temperature = theory.kl_bound_on_gaussians(
        negatives=SIZES, samples=4000, losses=("sincere",), temperatures=tuple(TEMPERATURES)
    )
    print(by_loss, by_temperature, sep="\n")
    figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 4.7), layout="constrained")
    for loss, name in NAMES.items():
        points = by_loss.of(loss)
        errors = [2 * p.error for p in points]
        # InfoNCE and SINCERE estimate the same number: a little to the left, both can be seen.
        places = [size * (0.88 if loss == "infonce" else 1) for size in SIZES]
        bounds = [p.bound for p in points]
        left.errorbar(places, bounds, errors, fmt=MARKERS[loss] + "-", color=COLOURS[loss], label=name, ms=6)
    finish(left, by_loss, "The bound holds and tightens as |N| grows")
    left.legend(loc="lower right", frameon=False)
    for temperature, (colour, marker) in TEMPERATURES.items():
        points = by_temperature.of("sincere", temperature)
        errors = [2 * p.error for p in points]
        label = "τ = 1, exact" if temperature == 1 else f"τ = {temperature:g}"
        right.errorbar(SIZES, [p.bound for p in points], errors, fmt=marker + "-", color=colour, label=label, ms=5)
    finish(right, by_temperature, "Too sharp a critic gets worse with |N|")
    right.legend(loc="lower left", frameon=False, title="scores: log ratio / τ")
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=150)
    with Path(__file__).with_suffix(".csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["loss", "temperature", "negatives", "bound", "standard_error", "divergence"])
        for p in (*by_loss.points, *by_temperature.points):
            rows.writerow([p.loss, p.temperature, p.negatives, f"{p.bound:.5f}", f"{p.error:.5f}", by_loss.divergence])


if __name__ == "__main__":
    main()
