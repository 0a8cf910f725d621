"""What log f becomes when a loss is minimised on samples of two known densities: the ratio, or something else.

python docs/figures/theory_density_ratio.py        # writes docs/figures/theory_density_ratio.png, ten seconds
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch

from sincere import theory

COLOURS = {"sincere": "#0072B2", "supcon": "#D55E00"}


def main() -> None:
    torch.set_num_threads(1)
    plt.rcParams.update(
        {"font.size": 12, "axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left"}
    )
    figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 4.6), layout="constrained")
    fit = theory.density_ratio_fit()
    print(fit)
    left.plot(fit.grid, fit.log_ratio, color="black", lw=4, alpha=0.3, label="log ratio of the densities")
    left.plot(fit.grid, fit.log_f, color=COLOURS["sincere"], lw=1.8, label="log f, fitted by SINCERE")
    left.fill_between(fit.grid, -8, -8 + 2 * fit.weight / fit.weight.max(), color="0.85", lw=0)
    left.text(0.4, -7.6, "samples", ha="center", color="0.3")
    left.set(
        title=f"SINCERE finds the density ratio: slope {fit.slope:.3f}",
        xlabel="x",
        ylabel="log f, centred",
        ylim=(-8, 3),
    )
    left.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 0.25))
    for loss, marker, name in (("sincere", "s", "SINCERE"), ("supcon", "o", "SupCon")):
        table = theory.density_ratio_fit(loss, family="tabular", positives=8)
        print(table)
        right.plot(
            table.log_ratio, table.log_f, marker, color=COLOURS[loss], ms=8, label=f"{name}, slope {table.slope:.2f}"
        )
    line = table.log_ratio
    right.plot(line, line, color="black", lw=4, alpha=0.3, label="the ratio r itself", zorder=0)
    right.plot(line, table.log_posterior, "--", color=COLOURS["supcon"], lw=1.5, label="r / (|N| + |P| r)", zorder=0)
    right.set(xlabel="log ratio of the densities, centred", ylabel="log f, centred")
    right.set_title("SupCon finds a ratio that levels off (|P| = |N| = 8)")
    right.legend(frameon=False, loc="lower right")
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=150)


if __name__ == "__main__":
    main()
