"""Lemma 2 by going through every placement of the targets in every data set of a small discrete model."""

from dataclasses import dataclass
from itertools import combinations, product

import torch
from torch import Tensor

from sincere.defaults import usual_defaults
from sincere.errors import OptionError
from sincere.theory.critic import critic_loss
from sincere.theory.record import Record


@dataclass(frozen=True)
class Lemma2Check(Record):
    """The posterior of the last target by Bayes' rule against the formula, Eq. 8, and against the library's loss."""

    symbols: int
    samples: int  # n, of one data set
    known: int  # |P|, targets whose place is known
    datasets: int  # all symbolsⁿ of them
    posteriors: int  # compared numbers
    difference: float  # largest |Bayes − Eq. 8|
    loss_difference: float  # largest |−log Bayes − the library's SINCERE with log f = log ratio|
    supcon_mass: tuple[float, float]  # least and largest Σ_i of what SupCon's softmax gives the candidates; 1 for Bayes
    expected_gain: float  # E[log Bayes − log(1/candidates)]: how much the data tell, in nats
    seed: int

    def __str__(self) -> str:
        low, high = self.supcon_mass
        return "\n".join(
            [
                f"{self.datasets:,} data sets of {self.samples} samples over {self.symbols} symbols, "
                f"|P| = {self.known}: {self.posteriors:,} posteriors",
                f"  Bayes against Eq. 8                        at most {self.difference:.1e}",
                f"  −log Bayes against the SINCERE loss        at most {self.loss_difference:.1e}",
                f"  total that SupCon's softmax gives them     {low:.3f} to {high:.3f}, a probability has 1",
            ]
        )


@usual_defaults()
def lemma2_by_enumeration(*, symbols: int = 3, samples: int = 6, known: int = 2, seed: int = 0) -> Lemma2Check:
    """Compare Eq. 8 with Bayes' rule over all placements of |P| + 1 targets, for every possible data set.

    The model is Appendix B's: every set of |P| + 1 of the n places is as likely to be the targets', samples at these
    come from p(x | y_t), all others from p(x | not y_t). Knowing |P| of the places leaves a posterior for the last,
    by summing over the sets that contain them. Two random distributions over the symbols, float64.
    """
    if symbols < 1 or known < 0 or samples < known + 1 or symbols**samples > 200_000:
        raise OptionError(
            "there must be room for one more target than known, and at most 200,000 data sets: "
            f"got symbols={symbols}, samples={samples}, known={known}."
        )
    generator = torch.Generator().manual_seed(seed)
    target, noise = torch.rand(2, symbols, dtype=torch.float64, generator=generator).add(0.05).unbind()
    target, noise = target / target.sum(), noise / noise.sum()
    data = torch.tensor(list(product(range(symbols), repeat=samples)))
    posterior, weight = _posterior_by_bayes(target[data], noise[data], known)
    ratio = (target / noise)[data]
    candidates = ratio[:, known:]
    formula = candidates / candidates.sum(dim=1, keepdim=True)
    # Each candidate as the positive of its own row, all others as negatives.
    last = samples - known
    positives = candidates.log().reshape(-1, 1)
    others = torch.stack([candidates[:, [j for j in range(last) if j != i]] for i in range(last)], dim=1)
    losses = critic_loss("sincere", positives, others.log().flatten(0, 1)).reshape(-1, last)
    mass = candidates.sum(dim=1) / ratio.sum(dim=1)
    return Lemma2Check(
        symbols=symbols,
        samples=samples,
        known=known,
        datasets=len(data),
        posteriors=posterior.numel(),
        difference=float((posterior - formula).abs().max()),
        loss_difference=float((-posterior.log() - losses).abs().max()),
        supcon_mass=(float(mass.min()), float(mass.max())),
        expected_gain=float((weight.unsqueeze(1) * posterior * (posterior * last).log()).sum()),
        seed=seed,
    )


def _posterior_by_bayes(of_target: Tensor, of_noise: Tensor, known: int) -> tuple[Tensor, Tensor]:
    """p(last target at i | first `known` places are targets, data) for every data set, and p(data | those places).

    Places 0 … known − 1 are the known ones; any others would be the same data sets in another order.
    """
    samples = of_target.shape[1]
    joint = of_target.new_zeros(of_target.shape[0], samples)
    for places in combinations(range(samples), known + 1):
        if not set(range(known)) <= set(places):
            continue
        is_target = torch.zeros(samples, dtype=torch.bool)
        is_target[list(places)] = True
        likelihood = torch.where(is_target, of_target, of_noise).prod(dim=1)
        (last,) = set(places) - set(range(known))
        joint[:, last] = likelihood
    joint = joint[:, known:]
    total = joint.sum(dim=1, keepdim=True)
    return joint / total, total.squeeze(1) / (samples - known)
