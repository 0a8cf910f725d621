"""Which pairs a loss pulls and which it pushes: coefficients on random batches, against Eq. 13 and Eq. 14."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

import sincere.functional as SF
from sincere.checks import check_choice
from sincere.defaults import usual_defaults
from sincere.errors import OptionError
from sincere.tables import columns
from sincere.theory.arrangement import class_labels
from sincere.theory.minimise import unit
from sincere.theory.objectives import LOSSES, point_loss
from sincere.theory.record import Record

NOISES = (0.0, 0.3, 1.0, 3.0, 30.0)  # lengths of the noise around a class's direction: collapsed to unrelated


@dataclass(frozen=True)
class CoefficientRange:
    """∂ℓ_t/∂s_tp times |P| under one loss, over all pairs of all batches."""

    loss: str
    least: float
    largest: float
    limits: tuple[float, float] | None  # what the equation allows, times |P|; None where no paper states it
    positive_share: float  # of same-class pairs: pushed apart
    equation_difference: float | None  # largest |autograd − Eq. 13 or Eq. 14|; None without an equation
    vector_difference: float | None  # the same for the whole gradient with respect to z_t

    @property
    def within_limits(self) -> bool:
        """Inside what the paper states, to rounding."""
        if self.limits is None:
            return True
        return self.limits[0] - 1e-12 <= self.least and self.largest <= self.limits[1] + 1e-12


@dataclass(frozen=True)
class GradientRanges(Record):
    """The coefficients of positives under every loss."""

    classes: int
    positives: int  # |P|
    dim: int
    temperature: float
    batches: int
    pairs: int  # ordered same-class pairs looked at, for each loss
    seed: int
    ranges: tuple[CoefficientRange, ...]

    def of(self, loss: str) -> CoefficientRange:
        """The range of one loss."""
        for found in self.ranges:
            if found.loss == loss:
                return found
        raise OptionError(f"loss must be one that was looked at, {[r.loss for r in self.ranges]}: got {loss!r}.")

    def __str__(self) -> str:
        title = (
            f"|P| ∂ℓ_t/∂s_tp of {self.pairs:,} same-class pairs, {self.batches} batches of {self.classes} classes, "
            f"|P| = {self.positives}, τ = {self.temperature:g}"
        )
        table: list[tuple[str, ...]] = [("loss", "least", "largest", "allowed", "pushed apart", "off the equation")]
        for found in self.ranges:
            allowed = "–" if found.limits is None else f"{found.limits[0]:g} to {found.limits[1]:g}"
            off = "–" if found.equation_difference is None else f"{found.equation_difference:.1e}"
            share = f"{100 * found.positive_share:.1f} %"
            table.append((found.loss, f"{found.least:.4f}", f"{found.largest:.4f}", allowed, share, off))
        return "\n".join([title, *columns(table)])


@usual_defaults()
def gradient_ranges(
    losses: Sequence[str] = ("sincere", "supcon", "supcon_in", "eps_supinfonce", "decoupled", "set_nce"),
    *,
    classes: int = 4,
    positives: int = 5,
    dim: int = 8,
    temperature: float = 0.1,
    batches: int = 10,
    seed: int = 0,
) -> GradientRanges:
    """Coefficients of same-class pairs on random batches, from unrelated embeddings to collapsed classes.

    Batches go through five levels of noise around random class directions; among the collapsed and the scattered ones
    coefficients come close to both ends of their range.
    """
    if positives < 1 or classes < 2 or batches < 1:
        raise OptionError(
            "there must be at least one positive, two classes and one batch: "
            f"got positives={positives}, classes={classes}, batches={batches}."
        )
    for name in losses:
        check_choice("loss", name, LOSSES)
    labels = class_labels((positives + 1,) * classes)
    drawn = [noisy_classes(labels, dim, NOISES[b % len(NOISES)], seed + b) for b in range(batches)]
    ranges = []
    for name in losses:
        found = torch.cat([positives * pair_coefficients(name, z @ z.T, labels, temperature) for z in drawn])
        expected = [_equation(name, z @ z.T, labels, temperature) for z in drawn]
        off = vector = None
        if expected[0] is not None:
            written = torch.cat([positives * each for each in expected if each is not None])
            off = float((found - written).abs().max())
            vector = float(torch.stack([_vector_difference(name, z, labels, temperature) for z in drawn]).max())
        ranges.append(
            CoefficientRange(
                loss=name,
                least=float(found.min()),
                largest=float(found.max()),
                limits=_limits(name, positives),
                positive_share=float((found > 0).double().mean()),
                equation_difference=off,
                vector_difference=vector,
            )
        )
    pairs = batches * len(labels) * positives
    return GradientRanges(classes, positives, dim, temperature, batches, pairs, seed, tuple(ranges))


def noisy_classes(labels: Tensor, dim: int, noise: float, seed: int) -> Tensor:
    """Unit rows around a random direction for each class; `noise` is the length of the noise against the direction."""
    generator = torch.Generator().manual_seed(seed)
    directions = unit(torch.randn(int(labels.max()) + 1, dim, dtype=torch.float64, generator=generator))
    spread = torch.randn(len(labels), dim, dtype=torch.float64, generator=generator) * noise / dim**0.5
    return unit(directions[labels] + spread)


def same_class(labels: Tensor) -> Tensor:
    """Which ordered pairs are an anchor and its positive, bool (n, n)."""
    return (labels.unsqueeze(1) == labels) & ~torch.eye(len(labels), dtype=torch.bool)


def pair_coefficients(name: str, cosines: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """∂ℓ_t/∂s_tp of every same-class pair by automatic differentiation of the library's loss, row by row."""
    free = cosines.detach().clone().requires_grad_()
    total = LOSSES[name](
        cosines.detach(), labels, similarity=lambda a, c: free, temperature=temperature, reduction="sum"
    )
    (gradient,) = torch.autograd.grad(total, free)
    return temperature * gradient[same_class(labels)]


def _limits(name: str, positives: int) -> tuple[float, float] | None:
    """Times |P|. Eq. 13: [−1, 0]; Eq. 14: [−1, |P| − 1]; the set loss: π − 1 with π in [0, 1]."""
    return {"sincere": (-1.0, 0.0), "supcon": (-1.0, positives - 1.0), "set_nce": (-1.0, 0.0)}.get(name)


def _equation(name: str, cosines: Tensor, labels: Tensor, temperature: float) -> Tensor | None:
    """The scalar that multiplies z_p in Eq. 13 (with its 1/|P|) and in Eq. 14, pair by pair as they stand."""
    if name not in ("sincere", "supcon"):
        return None
    values = []
    s = cosines / temperature  # fractions of e^s as e^(s − log of the bottom), which cannot overflow
    for t in range(len(labels)):
        members = [p for p in range(len(labels)) if p != t and labels[p] == labels[t]]
        noise = s[t][labels != labels[t]].logsumexp(dim=0)
        everyone = torch.logaddexp(noise, s[t, members].logsumexp(dim=0))
        for p in members:
            if name == "sincere":
                values.append((torch.exp(s[t, p] - torch.logaddexp(noise, s[t, p])) - 1) / len(members))
            else:
                values.append(torch.exp(s[t, p] - everyone) - 1 / len(members))
    return torch.stack(values)


def _vector_difference(name: str, z: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Largest |autograd − Eq. 13 or 14| of the gradient with respect to z_t, all contrasts held still."""
    differences = []
    for t in range(0, len(labels), max(1, len(labels) // 6)):
        others = torch.arange(len(labels)) != t
        anchor = z[t : t + 1].clone().requires_grad_()
        value = LOSSES[name](
            anchor, labels[t : t + 1], z[others], labels[others], similarity="dot", temperature=temperature
        )
        (gradient,) = torch.autograd.grad(value, anchor)
        s = z[others] @ z[t] / temperature
        members = labels[others] == labels[t]
        count = int(members.sum())  # a tensor of whole numbers would make float32 of what it multiplies
        noise = s[~members].logsumexp(dim=0)
        written = torch.zeros_like(z[t])
        for s_p, z_p in zip(s[members], z[others][members], strict=True):
            bottom = s.logsumexp(dim=0) if name == "supcon" else torch.logaddexp(noise, s_p)
            of_noise = (torch.exp(s[~members] - bottom).unsqueeze(1) * z[others][~members]).sum(dim=0)
            scale = count if name == "supcon" else 1
            written += (z_p * (scale * torch.exp(s_p - bottom) - 1) + of_noise) / (temperature * count)
        differences.append((gradient[0] - written).abs().max())
    return torch.stack(differences).max()


@dataclass(frozen=True)
class SinglePositive(Record):
    """How far the losses are from InfoNCE when every anchor has one positive."""

    samples: int  # pairs of views
    dim: int
    temperature: float
    batches: int
    seed: int
    value_difference: dict[str, float]  # largest |loss − InfoNCE|
    gradient_difference: dict[str, float]  # largest entry of the difference of gradients

    def __str__(self) -> str:
        table: list[tuple[str, ...]] = [("with one positive, against InfoNCE", "value", "gradient")]
        for name, value in self.value_difference.items():
            table.append((name, f"{value:.1e}", f"{self.gradient_difference[name]:.1e}"))
        return "\n".join(columns(table))


@usual_defaults()
def single_positive(
    losses: Sequence[str] = ("sincere", "supcon", "supcon_in", "set_nce", "decoupled"),
    *,
    samples: int = 12,
    dim: int = 8,
    temperature: float = 0.1,
    batches: int = 10,
    seed: int = 0,
) -> SinglePositive:
    """Every loss against InfoNCE on two views of each sample, each sample a class (the decoupled loss differs)."""
    if samples < 2 or batches < 1:
        raise OptionError(f"there must be two samples and a batch at least: got samples={samples}, batches={batches}.")
    values, gradients = dict.fromkeys(losses, 0.0), dict.fromkeys(losses, 0.0)
    labels = torch.arange(samples).repeat_interleave(2)
    for b in range(batches):
        z = noisy_classes(labels, dim, NOISES[1 + b % (len(NOISES) - 1)], seed + b).requires_grad_()
        infonce = SF.infonce(z.reshape(samples, 2, dim), temperature=temperature, backend="dense")
        (of_infonce,) = torch.autograd.grad(infonce, z)
        for name in losses:
            value = point_loss(name, labels, temperature=temperature, similarity="cosine")(z)
            (gradient,) = torch.autograd.grad(value, z)
            values[name] = max(values[name], abs(float((value - infonce).detach())))
            gradients[name] = max(gradients[name], float((gradient - of_infonce).abs().max()))
    return SinglePositive(samples, dim, temperature, batches, seed, values, gradients)
