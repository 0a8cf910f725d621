"""How far the saddle points of the set loss are from the exact value, on random scores and on the worst we could find.

    python docs/figures/set_loss_accuracy.py           # writes set_loss_accuracy.csv and .png beside it, a minute
    python docs/figures/set_loss_accuracy.py --cost    # prints what exact, saddle and SINCERE cost, writes nothing

All formulas for log e_k share the terms in front of log Pr[k elements are drawn] (sincere.losses.subsets), so the error
of that logarithm is the error of log e_k; the loss's own error is 1/k of it.

    exact      by the tree of products, float64
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
from sincere.losses import subset_tree, subsets

CASES = ((20, 2), (20, 10), (100, 1), (100, 10), (100, 50), (1000, 10), (1000, 100))
SPREADS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
DRAWS, SEED = 200, 0
SHOWN = 60  # of the draws, in the figure
ROWS_AT_ONCE = 20  # of which the exact inclusion is computed: it holds many numbers of each

# The search for the worst case: this many starts for each n and direction, this many steps uphill.
SEARCH_SIZES, STARTS, STEPS, STEP = (2, 3, 4, 6, 10, 24), 150, 250, 0.3
# The same with up to COINS elements of any probability and, on either side, FAINT that share a mean. The lower mean is
# at most LARGEST_MEAN, the other at most COINS + 1 above it, so LARGEST_COUNT or more have a chance below 1e-12.
COINS, FAINT, LARGEST_MEAN, LARGEST_COUNT = 6, 400, 5.0, 45

TEXTBOOK, OURS = "#D55E00", "#0072B2"  # Okabe and Ito's vermilion and blue


@dataclass(frozen=True)
class Errors:
    """One entry a draw: V, the errors of log e_k, and the largest and mean error of its inclusion probabilities.

    Errors are absolute; `ours` is positive where the value is too high.
    """

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
            "k": int(self.k[self.ours.abs().argmax()]),
            "spread": "" if self.spread is None else self.spread,
            "draws": len(self.v),
            "median_v": float(self.v.median()),
            "textbook_max": float(self.textbook.max()),
            "textbook_mean": float(self.textbook.mean()),
            "ours_max": float(self.ours.abs().max()),
            "ours_mean": float(self.ours.abs().mean()),
            "ours_too_high": float(self.ours.max().clamp(min=0)),
            "ours_too_low": float((-self.ours).max().clamp(min=0)),
            "inclusion_textbook_max": float(self.inclusion_textbook.max()),
            "inclusion_ours_max": float(self.inclusion_ours.max()),
            "inclusion_ours_mean": float(self.inclusion_ours_mean.mean()),
        }


def errors(scores: str, p: Tensor, k: Tensor, spread: float | None = None) -> Errors:
    """Compare both formulas with the exact value at the probabilities `p`, whose rows sum to `k`."""
    parts = zip(p.split(ROWS_AT_ONCE), k.split(ROWS_AT_ONCE), strict=True)
    true_inclusion = torch.cat([subset_tree.inclusion(rows, sizes) for rows, sizes in parts])
    truth = subset_tree.exact_log_probability(p, k)
    v = (p * (1 - p)).sum(dim=1)
    inclusion = (subsets.saddle_inclusion(p) - true_inclusion).abs()
    return Errors(
        scores=scores,
        spread=spread,
        n=p.shape[1],
        k=k,
        v=v,
        textbook=(-0.5 * torch.log(2 * math.pi * v) - truth).abs(),
        ours=subsets.saddle_log_probability(p) - truth,
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


def with_tilt(s: Tensor, k: Tensor) -> Tensor:
    """As `balanced`, and differentiable: a Newton step at the solution has the derivative of the solution."""
    p = balanced(s.detach(), k)
    tilt = torch.logit(p, eps=1e-300)[:, :1] - s.detach()[:, :1]
    p = torch.sigmoid(s + tilt)
    step = (p.sum(dim=1) - k) / (p * (1 - p)).sum(dim=1).detach()
    return torch.sigmoid(s + (tilt - step.unsqueeze(1)))


def ascend(parameters: list[Tensor], objective: Callable[[], Tensor]) -> None:
    """Each row of the parameters on its own, uphill by Adam with falling steps."""
    optimizer = torch.optim.Adam(parameters, lr=STEP, maximize=True)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.985)
    for _ in range(STEPS):
        optimizer.zero_grad()
        objective().nan_to_num(0.0).sum().backward()
        for parameter in parameters:
            assert parameter.grad is not None
            parameter.grad.nan_to_num_(0.0, 0.0, 0.0)
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            for parameter in parameters:
                parameter.clamp_(-40, 40)


def both_directions(count: int) -> Tensor:
    """+1 to look for too high a value, −1 for too low a one."""
    return torch.tensor([1.0, -1.0], dtype=torch.float64).repeat_interleave(count)


def uphill(n: int, of: str) -> Errors:
    """Scores that gradient ascent makes as bad as it can, for log e_k or for the first inclusion probability."""
    generator = torch.Generator().manual_seed(SEED)
    sign = both_directions(STARTS)
    k = torch.randint(1, n, (2 * STARTS,), generator=generator)
    scale = 8 * torch.rand(2 * STARTS, 1, dtype=torch.float64, generator=generator)
    s = (torch.randn(2 * STARTS, n, dtype=torch.float64, generator=generator) * scale).requires_grad_()

    def objective() -> Tensor:
        p = with_tilt(s, k)
        if of == "value":
            return sign * (subsets.saddle_log_probability(p) - subset_tree.exact_log_probability(p, k))
        others = subset_tree.count_distribution(p[:, 1:], n).gather(1, k.unsqueeze(1) - 1).squeeze(1)
        truth = p[:, 0] * others / subset_tree.exact_log_probability(p, k).exp()
        return sign * (subsets.saddle_inclusion(p)[:, 0] - truth)

    ascend([s], objective)
    return errors(f"uphill, {of}", balanced(s.detach(), k), k)


def coins_and_faint(coins: int, of: str) -> Errors:
    """The same for a few coins and many faint elements: FAINT that share a mean, and FAINT that lack one.

    As the faint ones grow in number they become two Poisson counts, which is where the ascent above leads as n grows.
    Their counts are binomial, so a step costs little; the errors in the end are by the recurrence, as everywhere.
    """
    generator = torch.Generator().manual_seed(SEED)
    sign = both_directions(STARTS)
    excess = torch.randint(-1, coins + 2, (2 * STARTS,), generator=generator)
    x = (3 * torch.randn(2 * STARTS, coins, dtype=torch.float64, generator=generator)).requires_grad_()
    y = (3 * torch.randn(2 * STARTS, dtype=torch.float64, generator=generator)).requires_grad_()

    def parts() -> tuple[Tensor, Tensor, Tensor]:
        """The coins, and the two means: heads expected, plus the first, minus the second, are `excess`."""
        q = torch.sigmoid(x)
        missing = excess - q.sum(dim=1)
        lower = LARGEST_MEAN * torch.sigmoid(y)
        return q, lower + missing.clamp(min=0), lower + (-missing).clamp(min=0)

    def probabilities() -> Tensor:
        q, drawn, left_out = parts()
        high, low = ((mean / FAINT).unsqueeze(1).expand(-1, FAINT) for mean in (drawn, left_out))
        return torch.cat([q, high, 1 - low], dim=1)

    def objective() -> Tensor:
        q, drawn, left_out = parts()
        truth = chance(q, drawn, left_out, excess)
        if of == "value":
            return sign * (subsets.saddle_log_probability(probabilities()) - truth.log())
        inclusion = q[:, 0] * chance(q[:, 1:], drawn, left_out, excess - 1) / truth
        return sign * (subsets.saddle_inclusion(probabilities())[:, 0] - inclusion)

    ascend([x, y] if coins else [y], objective)
    with torch.no_grad():
        return errors(f"{coins} coins and faint, {of}", probabilities(), excess + FAINT)


def chance(q: Tensor, drawn: Tensor, left_out: Tensor, excess: Tensor) -> Tensor:
    """Pr[heads among q + faint ones drawn − faint ones left out = excess]."""
    coins = subset_tree.count_distribution(q, q.shape[1])
    plus, minus = (binomial(mean) for mean in (drawn, left_out))
    total = torch.zeros_like(drawn)
    counts = torch.arange(LARGEST_COUNT, device=q.device)
    for heads in range(q.shape[1] + 1):
        other = heads + counts - excess.unsqueeze(1)
        matching = minus.gather(1, other.clamp(0, LARGEST_COUNT - 1))
        inside = (other >= 0) & (other < LARGEST_COUNT)
        total = total + coins[:, heads] * torch.where(inside, plus * matching, 0).sum(dim=1)
    return total


def binomial(mean: Tensor) -> Tensor:
    """Pr[j of FAINT] for j < LARGEST_COUNT, each with probability mean / FAINT."""
    j = torch.arange(LARGEST_COUNT, dtype=torch.float64)
    ways = math.lgamma(FAINT + 1) - torch.lgamma(j + 1) - torch.lgamma(FAINT - j + 1)
    rate = (mean / FAINT).clamp(min=1e-12).unsqueeze(1)
    return torch.exp(ways + j * rate.log() + (FAINT - j) * torch.log1p(-rate))


def draw(axes: Axes, found: list[Errors], textbook: str, ours: str) -> float:
    """Every draw of both formulas against its V, and the worst that any search found for ours."""
    normal = [of for of in found if of.scores == "normal"]
    v = torch.cat([of.v[:SHOWN] for of in normal])
    for name, style, colour in ((textbook, "s", TEXTBOOK), (ours, "o", OURS)):
        error = torch.cat([getattr(of, name)[:SHOWN].abs() for of in normal])
        axes.plot(v, error, style, color=colour, ms=3, mew=0, alpha=0.5)
    worst = max(float(getattr(of, ours).abs().max()) for of in found)
    axes.axhline(worst, color="black", lw=1)
    axes.set(xscale="log", yscale="log", xlim=(1e-6, 200))
    axes.set_xlabel("V: how undecided the draw is (training → 0)")
    return worst


def draw_all(found: list[Errors], path: Path) -> None:
    plt.rcParams.update({"font.size": 13, "axes.titlesize": 14, "axes.spines.top": False, "axes.spines.right": False})
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.9), layout="constrained")
    worst = draw(left, found, "textbook", "ours")
    left.set(ylim=(1e-6, 50), ylabel=r"error of $\log e_k$")
    left.text(2e-6, worst * 1.25, f"worst of ours: {worst:.4f}", va="bottom")
    left.text(3e-4, 9, "textbook", color=TEXTBOOK)
    left.text(5e-4, 1e-5, "ours", color=OURS)
    left.set_title("As classes separate, the textbook's saddle\npoint explodes; ours is right at both ends", loc="left")
    worst = draw(right, found, "inclusion_textbook", "inclusion_ours")
    right.set(ylim=(1e-9, 1), ylabel=r"largest error of an inclusion probability $\pi_a$")
    right.text(2e-6, worst * 1.4, f"worst of ours: {worst:.4f}", va="bottom")
    right.set_title("So is its gradient, the\ninclusion probabilities", loc="left")
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
    found = list(random_scores())
    for of in ("value", "inclusion"):
        found += [uphill(n, of) for n in SEARCH_SIZES]
        found += [coins_and_faint(coins, of) for coins in range(of == "inclusion", COINS + 1)]
    here = Path(__file__)
    write_csv(found, here.with_suffix(".csv"))
    draw_all(found, here.with_suffix(".png"))


if __name__ == "__main__":
    main()
