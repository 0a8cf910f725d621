"""Which losses push members of one class apart: the coefficient of every same-class pair under three losses.

    python docs/figures/repulsion.py        # writes docs/figures/repulsion.png, half a minute on one core

Embeddings lie around the corners of a regular simplex, one corner a class, with Gaussian noise. The coefficient of a
pair (t, p) is |P| ∂ℓ_t/∂s_tp: gradient descent pulls p towards t where it is negative and pushes it away where it is
positive. It is read off the library's own losses, through a similarity that is a free matrix.
"""

from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from torch import Tensor

import sincere.functional as SF

TEMPERATURE = 0.1
CLASSES, DIM = 10, 64
MEMBERS, TIGHT = 20, 0.7  # of each class, and the length of the noise, on the left; corners have length one
SHOWN = 1000  # pairs drawn on the left
POSITIVES = (1, 2, 19)  # |P|, on the right
NOISES = (4.0, 3.0, 2.4, 2.0, 1.65, 1.4, 1.2, 1.0, 0.85, 0.7, 0.55, 0.4, 0.25, 0.12)
ANCHORS = 1200  # at least so many for each point on the right, from as many batches as that takes

# Okabe and Ito's palette, which colour-blind readers can tell apart
COLOURS = {"SupCon": "#D55E00", "SINCERE": "#0072B2", "set loss": "#009E73"}
MARKERS = {"SupCon": "o", "SINCERE": "s", "set loss": "^"}
LOSSES: dict[str, Callable[..., Tensor]] = {"SupCon": SF.supcon, "SINCERE": SF.sincere, "set loss": SF.set_nce}


def noisy_simplex(members: int, noise: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Unit rows around the corners of a simplex, and their classes."""
    generator = torch.Generator().manual_seed(seed)
    corners = torch.zeros(CLASSES, DIM, dtype=torch.float64)
    corners[:, :CLASSES] = torch.eye(CLASSES, dtype=torch.float64) - 1 / CLASSES
    labels = torch.arange(CLASSES).repeat_interleave(members)
    spread = torch.randn(len(labels), DIM, dtype=torch.float64, generator=generator) * noise / DIM**0.5
    return F.normalize(F.normalize(corners, dim=1)[labels] + spread, dim=1), labels


def coefficients(loss: Callable[..., Tensor], cosine: Tensor, labels: Tensor) -> Tensor:
    """|P| ∂ℓ_t/∂s_tp of every ordered pair of one class."""
    free = cosine.clone().requires_grad_()
    total = loss(cosine, labels, similarity=lambda a, c: free, temperature=TEMPERATURE, reduction="sum")
    (gradient,) = torch.autograd.grad(total, free)
    same = same_class(labels)
    return (gradient * TEMPERATURE * same.sum(dim=1, keepdim=True))[same]


def same_class(labels: Tensor) -> Tensor:
    return (labels[:, None] == labels) & ~torch.eye(len(labels), dtype=torch.bool)


def draw_coefficients(axes: Axes) -> None:
    z, labels = noisy_simplex(MEMBERS, TIGHT)
    cosine = z @ z.T
    of_pairs = cosine[same_class(labels)]
    shown = torch.randperm(len(of_pairs), generator=torch.Generator().manual_seed(0))[:SHOWN]
    found = {name: coefficients(loss, cosine, labels) for name, loss in LOSSES.items()}
    highest = float(found["SupCon"].max()) * 1.1
    axes.axhspan(0, highest, color=COLOURS["SupCon"], alpha=0.10, lw=0)
    axes.axhline(0, color="black", lw=0.8)
    for name, marker in MARKERS.items():
        axes.plot(of_pairs[shown], found[name][shown], marker, color=COLOURS[name], ms=3.5, alpha=0.55, mew=0)
    share = 100 * float((found["SupCon"] > 0).double().mean())
    print(f"left: {len(of_pairs)} pairs of mean cosine {of_pairs.mean():.2f}, SupCon pushes {share:.1f} % apart")
    for name, values in found.items():
        print(f"  {name}: {values.min():.3g} to {values.max():.3g}")
    edge, right = float(of_pairs[shown].min()), float(of_pairs.max())
    axes.text(edge, highest * 0.96, "pushed apart", color=COLOURS["SupCon"], va="top", style="italic")
    axes.text(edge, -1.06, "pulled together", color="0.35", va="bottom", style="italic")
    axes.text(right, highest * 0.96, f"SupCon: {share:.0f} % above 0", color=COLOURS["SupCon"], ha="right", va="top")
    axes.text(right, -0.62, "SINCERE: none", color=COLOURS["SINCERE"], ha="right")
    axes.text(right, -0.98, "set loss: none", color=COLOURS["set loss"], ha="right")
    axes.set(
        ylim=(-1.1, highest), xlabel="cosine of the pair", ylabel=r"coefficient  $|P|\,\partial\ell_t/\partial s_{tp}$"
    )
    axes.set_title("SupCon pushes the closest members\nof a class apart", loc="left")


def mean_share(loss: Callable[..., Tensor], positives: int, noise: float) -> tuple[float, float]:
    """Mean cosine within a class, and the share of same-class pairs whose coefficient is above 0, in per cent."""
    cosines, shares = [], []
    for seed in range(-(-ANCHORS // (CLASSES * (positives + 1)))):
        z, labels = noisy_simplex(positives + 1, noise, seed)
        cosine = z @ z.T
        cosines.append(float(cosine[same_class(labels)].mean()))
        shares.append(100 * float((coefficients(loss, cosine, labels) > 0).double().mean()))
    return fmean(cosines), fmean(shares)


def draw_shares(axes: Axes) -> None:
    for positives, line in zip(POSITIVES, (":", "--", "-"), strict=True):
        points = {name: [mean_share(loss, positives, noise) for noise in NOISES] for name, loss in LOSSES.items()}
        for name, marker in MARKERS.items():
            x, y = zip(*points[name], strict=True)
            axes.plot(x, y, marker + line, color=COLOURS[name], ms=5)
        of_supcon = ", ".join(f"{cosine:.2f}: {share:.1f} %" for cosine, share in points["SupCon"])
        largest = {name: round(max(share for _, share in found), 1) for name, found in points.items()}
        print(f"right, |P| = {positives}, SupCon by mean cosine: {of_supcon}\n  largest share: {largest}")
    axes.text(0.28, 24, "|P| = 19", color=COLOURS["SupCon"], ha="right")
    axes.text(0.44, 46, "SupCon, |P| = 2", color=COLOURS["SupCon"], ha="right")
    axes.text(0.98, 6.2, "SINCERE: none, for any |P|", color=COLOURS["SINCERE"], ha="right")
    axes.text(0.98, 2.2, "set loss: none, for any |P|", color=COLOURS["set loss"], ha="right")
    axes.set(xlim=(0, 1.01), ylim=(-2, 56), xlabel="mean cosine within the classes (training → 1)")
    axes.set_ylabel("same-class pairs pushed apart, %")
    axes.set_title("The tighter the classes, the more pairs:\nin the end every second one", loc="left")


def main() -> None:
    torch.set_num_threads(1)
    plt.rcParams.update({"font.size": 13, "axes.titlesize": 14, "axes.spines.top": False, "axes.spines.right": False})
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.9), layout="constrained")
    draw_coefficients(left)
    draw_shares(right)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=150)


if __name__ == "__main__":
    main()
