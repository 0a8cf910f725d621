"""How far the saddle points of the set loss are from the exact value, on random scores and on the worst we could find.

    python docs/figures/set_loss_accuracy.py           # writes set_loss_accuracy.csv and .png beside it, one minute
    python docs/figures/set_loss_accuracy.py --cost    # prints what exact, saddle and SINCERE cost, writes nothing

All formulas for log e_k share the terms in front of log Pr[k elements are drawn] (sincere.losses.subsets), so the error
of that logarithm is the error of log e_k; the loss's own error is 1/k of it.

    exact      the recurrence, float64
    textbook   −½ log 2πV for the logarithm, π_a ≈ p_a for the inclusion probabilities
    ours       saddle_log_probability and saddle_inclusion, which is what method="saddle" computes
"""

import argparse
import csv
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from torch import Tensor

import sincere.functional as SF
from sincere.losses import subsets

CASES = ((20, 2), (20, 10), (100, 1), (100, 10), (100, 50), (1000, 10), (1000, 100))
SPREADS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
DRAWS, SEED = 200, 0
SHOWN = 60  # of the draws, in the figure
ROWS_AT_ONCE = 20  # exact_inclusion holds rows × n × k numbers

# The search: this many starts for each n, this many steps uphill, then sums of a few elements and many faint ones.
SEARCH_SIZES, STARTS, STEPS = (2, 3, 4, 6, 10, 24), 150, 250
FAINT = 400

TEXTBOOK, OURS = "#D55E00", "#0072B2"  # Okabe and Ito's vermilion and blue


@dataclass(frozen=True)
class Errors:
    """One entry a draw: V, the errors of log e_k, and the largest and mean error of its inclusion probabilities."""

    scores: str  # "normal", or how the worst case was looked for
    spread: float | None
    n: int
    k: Tensor
    v: Tensor
    textbook: Tensor
    ours: Tensor
    inclusion_textbook: Tensor
    inclusion_ours: Tensor
    inclusion_ours_mean: Tensor

    def summary(self) -> dict[str, object]:
        """A row of the table; k is that of the worst draw."""
        return {
            "scores": self.scores,
            "n": self.n,
            "k": int(self.k[self.ours.argmax()]),
            "spread": "" if self.spread is None else self.spread,
            "draws": len(self.v),
            "median_v": float(self.v.median()),
            "textbook_max": float(self.textbook.max()),
            "textbook_mean": float(self.textbook.mean()),
            "ours_max": float(self.ours.max()),
            "ours_mean": float(self.ours.mean()),
            "inclusion_textbook_max": float(self.inclusion_textbook.max()),
            "inclusion_ours_max": float(self.inclusion_ours.max()),
            "inclusion_ours_mean": float(self.inclusion_ours_mean.mean()),
        }


def errors(scores: str, p: Tensor, k: Tensor, spread: float | None = None) -> Errors:
    """Compare both formulas with the exact value at the probabilities `p`, whose rows sum to `k`."""
    parts = zip(p.split(ROWS_AT_ONCE), k.split(ROWS_AT_ONCE), strict=True)
    true_inclusion = torch.cat([subsets.exact_inclusion(rows, sizes) for rows, sizes in parts])
    truth = subsets.exact_log_probability(p, k)
    v = (p * (1 - p)).sum(dim=1)
    inclusion = (subsets.saddle_inclusion(p) - true_inclusion).abs()
    return Errors(
        scores=scores,
        spread=spread,
        n=p.shape[1],
        k=k,
        v=v,
        textbook=(-0.5 * torch.log(2 * math.pi * v) - truth).abs(),
        ours=(subsets.saddle_log_probability(p) - truth).abs(),
        inclusion_textbook=(p - true_inclusion).abs().amax(dim=1),
        inclusion_ours=inclusion.amax(dim=1),
        inclusion_ours_mean=inclusion.mean(dim=1),
    )


def balanced(s: Tensor, k: Tensor) -> Tensor:
    """p_a = σ(s_a + λ) with the λ that makes them sum to k."""
    everyone = torch.ones_like(s, dtype=torch.bool)
    return subsets.drawing_probabilities(s, everyone, subsets.balancing_tilt(s, everyone, k))


def random_scores() -> Iterator[Errors]:
    for n, k in CASES:
        for spread in SPREADS:
            generator = torch.Generator().manual_seed(SEED)
            s = torch.randn(DRAWS, n, dtype=torch.float64, generator=generator) * spread
            sizes = torch.full((DRAWS,), k)
            yield errors("normal", balanced(s, sizes), sizes, spread)


def uphill(n: int) -> Errors:
    """Scores that gradient ascent makes as bad as it can, from random starts, for too high and for too low a value."""
    generator = torch.Generator().manual_seed(SEED)
    k = torch.randint(1, n, (2 * STARTS,), generator=generator)
    scale = 8 * torch.rand(2 * STARTS, 1, dtype=torch.float64, generator=generator)
    s = torch.randn(2 * STARTS, n, dtype=torch.float64, generator=generator) * scale
    sign = torch.ones(2 * STARTS, 1, dtype=torch.float64)
    sign[STARTS:] = -1
    momentum, size = torch.zeros_like(s), torch.zeros_like(s)
    for step in range(STEPS):
        p = balanced(s, k)
        direction = sign * (subsets.saddle_inclusion(p) - subsets.exact_inclusion(p, k))
        momentum = 0.9 * momentum + 0.1 * direction
        size = 0.99 * size + 0.01 * direction.square()
        s = (s + 0.5 * 0.99**step * momentum / (size.sqrt() + 1e-9)).clamp(-60, 60)
    return errors("uphill", balanced(s, k), k)


def few_and_faint() -> Errors:
    """Two elements drawn with probabilities q and 1 − q, and on either side many whose probabilities sum to `mean`.

    As the faint ones grow in number they become two Poisson counts, and the error grows to its supremum.
    """
    q = torch.tensor([0.5, 0.45, 0.4, 0.35, 0.3], dtype=torch.float64)
    means = torch.linspace(0, 0.4, 41, dtype=torch.float64)
    q, mean = (grid.flatten() for grid in torch.meshgrid(q, means, indexing="ij"))
    faint = (mean / FAINT).unsqueeze(1).expand(-1, FAINT)
    p = torch.cat([torch.stack([q, 1 - q], dim=1), faint, 1 - faint], dim=1)
    return errors("two and faint", p, torch.full((len(q),), 1 + FAINT))


def draw(axes: Axes, found: list[Errors], textbook: str, ours: str) -> float:
    """Every draw of both formulas against its V, and the worst that any search found for ours."""
    normal = [of for of in found if of.scores == "normal"]
    v = torch.cat([of.v[:SHOWN] for of in normal])
    for name, style, colour in ((textbook, "s", TEXTBOOK), (ours, "o", OURS)):
        error = torch.cat([getattr(of, name)[:SHOWN] for of in normal])
        axes.plot(v, error, style, color=colour, ms=3, mew=0, alpha=0.5)
    worst = max(float(getattr(of, ours).max()) for of in found)
    axes.axhline(worst, color="black", lw=1)
    axes.set(xscale="log", yscale="log", xlim=(1e-6, 200))
    axes.set_xlabel("V: how undecided the draw is (training → 0)")
    return worst


def draw_all(found: list[Errors], path: Path) -> None:
    plt.rcParams.update({"font.size": 13, "axes.titlesize": 14, "axes.spines.top": False, "axes.spines.right": False})
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.9), layout="constrained")
    worst = draw(left, found, "textbook", "ours")
    left.set(ylim=(1e-6, 50), ylabel=r"error of $\log e_k$")
    left.text(2e-6, worst * 1.25, f"worst found for ours: {worst:.4f}", va="bottom")
    left.text(3e-4, 9, "textbook", color=TEXTBOOK)
    left.text(5e-4, 1e-5, "ours", color=OURS)
    left.set_title("As classes separate, the textbook's saddle\npoint explodes; ours is right at both ends", loc="left")
    worst = draw(right, found, "inclusion_textbook", "inclusion_ours")
    right.set(ylim=(1e-9, 1), ylabel=r"largest error of an inclusion probability $\pi_a$")
    right.text(2e-6, worst * 1.4, f"worst found for ours: {worst:.4f}", va="bottom")
    right.set_title("So is its gradient: inclusion\nprobabilities within 0.05", loc="left")
    figure.savefig(path, dpi=150)


def write_csv(found: list[Errors], path: Path) -> None:
    rows = [of.summary() for of in found]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: f"{x:.4g}" if isinstance(x, float) else x for name, x in row.items()})


def seconds(call: Callable[[], Tensor]) -> float:
    start = time.perf_counter()
    call().backward()
    return time.perf_counter() - start


def print_cost(rounds: int = 5) -> None:
    """Forward and backward, in turns; the median over rounds of the time over SINCERE's in the same round."""
    print("n, |P|: time of one forward and backward pass over SINCERE's")
    for n, classes in ((128, 8), (256, 16), (512, 32), (1024, 64), (1024, 32)):
        z = torch.randn(n, 128, generator=torch.Generator().manual_seed(SEED)).requires_grad_()
        labels = torch.arange(n) % classes
        calls: dict[str, Callable[[], Tensor]] = {
            "SINCERE": lambda z=z, labels=labels: SF.sincere(z, labels),
            "saddle": lambda z=z, labels=labels: SF.set_nce(z, labels, method="saddle"),
            "exact": lambda z=z, labels=labels: SF.set_nce(z, labels, method="exact"),
        }
        times = [{name: seconds(call) for name, call in calls.items()} for _ in range(rounds + 1)][1:]

        def ratio(name: str, to: str, times: list[dict[str, float]] = times) -> str:
            return f"{median(t[name] / t[to] for t in times):.3g}"

        print(
            f"{n}, {n // classes - 1}: saddle × {ratio('saddle', 'SINCERE')}, exact × {ratio('exact', 'SINCERE')}, "
            f"exact over saddle {ratio('exact', 'saddle')}; "
            f"SINCERE takes {1000 * median(t['SINCERE'] for t in times):.1f} ms"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cost", action="store_true", help="print times instead")
    torch.set_num_threads(1)
    if parser.parse_args().cost:
        print_cost()
        return
    found = [*random_scores(), *(uphill(n) for n in SEARCH_SIZES), few_and_faint()]
    here = Path(__file__)
    write_csv(found, here.with_suffix(".csv"))
    draw_all(found, here.with_suffix(".png"))


if __name__ == "__main__":
    main()
