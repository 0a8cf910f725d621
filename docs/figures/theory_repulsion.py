"""Three losses from one start: who is pushed apart on the way, and how close the classes come.

python docs/figures/theory_repulsion.py        # writes docs/figures/theory_repulsion.png, a minute on one core
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch

from sincere import theory

NAMES = {"supcon": "SupCon", "sincere": "SINCERE", "set_nce": "set loss"}
COLOURS = {"supcon": "#D55E00", "sincere": "#0072B2", "set_nce": "#009E73"}
MARKERS = {"supcon": "o", "sincere": "s", "set_nce": "^"}
LINES = {"supcon": "-", "sincere": "-", "set_nce": "--"}
SEEDS = range(5)


def main() -> None:
    torch.set_num_threads(1)
    plt.rcParams.update(
        {"font.size": 12, "axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left"}
    )
    figure, panels = plt.subplots(1, 3, figsize=(14, 4.4), layout="constrained")
    runs = [theory.repulsion_dynamics(seed=seed) for seed in SEEDS]
    print(runs[0])
    for loss, name in NAMES.items():
        for axes, field, factor in ((panels[0], "repelled", 100), (panels[1], "within", 1)):
            values = factor * torch.tensor([getattr(run.of(loss), field) for run in runs])
            style = {"color": COLOURS[loss], "ls": LINES[loss]}
            axes.plot(runs[0].steps, values.mean(dim=0), label=name, lw=2, **style)
            axes.fill_between(
                runs[0].steps, values.amin(dim=0), values.amax(dim=0), color=COLOURS[loss], alpha=0.18, lw=0
            )
        ends = torch.tensor([[run.of(loss).within[-1], run.of(loss).between[-1]] for run in runs])
        print(loss, "ends within, between:", ends.mean(dim=0).tolist(), "±", ends.std(dim=0).tolist())
    panels[0].set(
        title="Same-class pairs that the loss\npushes apart", xlabel="step (5 starts)", ylabel="%", ylim=(-3, 75)
    )
    panels[0].text(150, 3, "SINCERE and the set loss: none", ha="right", color=COLOURS["sincere"])
    panels[0].text(75, 66, "SupCon", color=COLOURS["supcon"])
    panels[1].set(
        title="Cosine within classes:\nSINCERE stops pulling sooner",
        xlabel="step",
        ylabel="mean cosine",
        ylim=(-0.05, 1.02),
    )
    panels[1].legend(frameon=False, loc="lower right")
    grown = theory.repulsion_by_positives()
    print(grown)
    for loss, name in NAMES.items():
        points = grown.of(loss)
        errors = [2 * p.push_error for p in points]
        panels[2].errorbar(
            [p.positives for p in points],
            [p.push for p in points],
            errors,
            fmt=MARKERS[loss] + LINES[loss],
            color=COLOURS[loss],
            label=name,
            ms=6,
        )
    panels[2].set_xscale("log", base=2)
    panels[2].set_xticks([p.positives for p in points], [str(p.positives) for p in points])
    panels[2].set(
        title="Push on an anchor's positives,\n|N| = 32 held still",
        xlabel="positives |P|",
        ylabel="sum of positive coefficients",
    )
    panels[2].text(32, 0.015, "SINCERE and the set loss: 0", ha="right", color=COLOURS["sincere"])
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=150)


if __name__ == "__main__":
    main()
