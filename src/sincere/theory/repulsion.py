"""Repulsion within a class: how it grows with |P|, and what it does on the way, step by step from one start."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, nan

import torch
from torch import Tensor

from sincere.checks import check_choice
from sincere.defaults import usual_defaults
from sincere.errors import OptionError
from sincere.tables import columns
from sincere.theory.arrangement import class_labels
from sincere.theory.gradients import noisy_classes, pair_coefficients, same_class
from sincere.theory.minimise import unit
from sincere.theory.objectives import LOSSES, point_loss
from sincere.theory.record import Record


@dataclass(frozen=True)
class RepulsionPoint:
    """One loss at one |P|. A coefficient is ∂ℓ_t/∂s_tp; a positive one pushes p away from t."""

    loss: str
    positives: int
    share: float  # of positives that are pushed away
    push: float  # Σ_p of positive coefficients, mean over anchors
    push_error: float  # its standard error over batches
    pull: float  # −Σ_p of negative coefficients, mean over anchors
    largest: float  # coefficient of any pair
    limit: float  # 1 − 1/|P|, what Eq. 14 allows SupCon; 0 for the others


@dataclass(frozen=True)
class RepulsionByPositives(Record):
    """How hard members of a class are pushed apart as the class grows, with |N| held still."""

    negatives: int
    dim: int
    noise: float
    temperature: float
    batches: int
    seed: int
    points: tuple[RepulsionPoint, ...]

    def of(self, loss: str) -> tuple[RepulsionPoint, ...]:
        """The points of one loss, by |P|."""
        return tuple(point for point in self.points if point.loss == loss)

    def __str__(self) -> str:
        title = (
            f"|N| = {self.negatives}, noise {self.noise:g}, τ = {self.temperature:g}, {self.dim} dimensions, "
            f"{self.batches} batches; push and pull are sums over an anchor's positives"
        )
        table: list[tuple[str, ...]] = [("loss", "|P|", "pushed", "push", "pull", "largest", "1 − 1/|P|")]
        for p in self.points:
            push = f"{p.push:.4f} ± {p.push_error:.4f}"
            cells = (f"{100 * p.share:.1f} %", push, f"{p.pull:.4f}", f"{p.largest:.4f}", f"{p.limit:.4f}")
            table.append((p.loss, str(p.positives), *cells))
        return "\n".join([title, *columns(table)])


@usual_defaults()
def repulsion_by_positives(
    losses: Sequence[str] = ("supcon", "sincere", "set_nce"),
    *,
    positives: Sequence[int] = (1, 2, 4, 8, 16, 32),
    negatives: int = 32,
    dim: int = 16,
    noise: float = 0.7,
    temperature: float = 0.1,
    batches: int = 20,
    seed: int = 0,
) -> RepulsionByPositives:
    """Coefficients of the positives of one class with |P| + 1 members, against |N| samples of four other classes.

    Members lie around their class's direction with noise of length `noise`; the same batches for every loss.
    """
    if negatives < 4 or batches < 2 or min(positives, default=0) < 1:
        raise OptionError(
            "there must be at least four negatives, two batches and one positive: "
            f"got negatives={negatives}, batches={batches}, positives={tuple(positives)}."
        )
    if dim < 1 or not 0 <= noise < inf:
        raise OptionError(f"dim must be at least 1, and noise from 0 and finite: got dim={dim}, noise={noise}.")
    for loss in losses:
        check_choice("loss", loss, LOSSES)
    points = []
    for loss in losses:
        for size in positives:
            counts = (size + 1, *(negatives // 4 + (c < negatives % 4) for c in range(4)))
            labels = class_labels(counts)
            found = []
            for b in range(batches):
                z = noisy_classes(labels, dim, noise, seed + b)
                # Pairs come row by row: those of the first class are first.
                found.append(pair_coefficients(loss, z @ z.T, labels, temperature)[: (size + 1) * size])
            points.append(_point(loss, size, torch.stack(found)))
    return RepulsionByPositives(negatives, dim, noise, temperature, batches, seed, tuple(points))


def _point(loss: str, positives: int, coefficients: Tensor) -> RepulsionPoint:
    anchors = positives + 1
    push = coefficients.clamp(min=0).sum(dim=1) / anchors
    return RepulsionPoint(
        loss=loss,
        positives=positives,
        share=float((coefficients > 0).double().mean()),
        push=float(push.mean()),
        push_error=float(push.std() / len(push) ** 0.5),
        pull=float(-coefficients.clamp(max=0).sum(dim=1).mean() / anchors),
        largest=float(coefficients.max()),
        limit=1 - 1 / positives if loss == "supcon" else 0.0,
    )


@dataclass(frozen=True)
class Trajectory:
    """One loss from the common start; every list has one number for each recorded step."""

    loss: str
    value: tuple[float, ...]
    repelled: tuple[float, ...]  # share of same-class pairs that this loss pushes apart
    push: tuple[float, ...]  # Σ_p of positive coefficients, mean over anchors
    within: tuple[float, ...]  # mean cosine within classes
    between: tuple[float, ...]  # mean cosine between classes


@dataclass(frozen=True)
class RepulsionDynamics(Record):
    """Several losses, the same points, the same steps."""

    classes: int
    members: int
    dim: int
    temperature: float
    rate: float
    seed: int
    steps: tuple[int, ...]  # when the trajectories were recorded
    trajectories: tuple[Trajectory, ...]

    def of(self, loss: str) -> Trajectory:
        """The trajectory of one loss."""
        for found in self.trajectories:
            if found.loss == loss:
                return found
        raise OptionError(f"loss must be one that was run, {[t.loss for t in self.trajectories]}: got {loss!r}.")

    def steps_to(self, loss: str, cosine: float = 0.99) -> float:
        """The first recorded step at which the mean cosine within classes is at least `cosine`; NaN if none is."""
        within = self.of(loss).within
        return next((float(step) for step, at in zip(self.steps, within, strict=True) if at >= cosine), nan)

    def __str__(self) -> str:
        title = (
            f"{self.classes} × {self.members} points in {self.dim} dimensions, τ = {self.temperature:g}, "
            f"{self.steps[-1]} steps of rate {self.rate:g} from one start"
        )
        head = ("loss", "pushed: most", "at the end", "cosine within", "between", "steps to 0.99 within")
        table: list[tuple[str, ...]] = [head]
        for found in self.trajectories:
            shares = (f"{100 * max(found.repelled):.1f} %", f"{100 * found.repelled[-1]:.1f} %")
            cosines = (f"{found.within[-1]:.4f}", f"{found.between[-1]:.4f}")
            table.append((found.loss, *shares, *cosines, f"{self.steps_to(found.loss):.0f}"))
        return "\n".join([title, *columns(table)])


@usual_defaults()
def repulsion_dynamics(
    losses: Sequence[str] = ("supcon", "sincere", "set_nce"),
    *,
    classes: int = 4,
    members: int = 12,
    dim: int = 8,
    temperature: float = 0.1,
    rate: float = 0.03,
    steps: int = 150,
    every: int = 5,
    seed: int = 0,
) -> RepulsionDynamics:
    """Gradient descent on the sphere from one random start under each loss, and who is pushed apart on the way.

    A step is z ← unit(z − rate · n · tangential gradient of the mean loss): the same for all losses.
    """
    if not 1 <= every <= steps or members < 2 or classes < 2:
        raise OptionError(
            "steps and every must be at least 1, members and classes at least 2, and every no more than steps: "
            f"got steps={steps}, every={every}, members={members}, classes={classes}."
        )
    if not 0 < rate < inf:
        raise OptionError(f"rate must be positive and finite: got {rate}.")
    labels = class_labels((members,) * classes)
    start = noisy_classes(labels, dim, 30.0, seed)  # the direction of a class is lost in such noise
    recorded = tuple(range(0, steps + 1, every))
    found = tuple(_trajectory(loss, start, labels, temperature, rate, steps, every) for loss in losses)
    return RepulsionDynamics(classes, members, dim, temperature, rate, seed, recorded, found)


def _trajectory(
    loss: str, start: Tensor, labels: Tensor, temperature: float, rate: float, steps: int, every: int
) -> Trajectory:
    objective = point_loss(loss, labels, temperature=temperature)
    same, z, rows = same_class(labels), start, []
    other = labels.unsqueeze(1) != labels
    for step in range(steps + 1):
        leaf = z.clone().requires_grad_()
        value = objective(leaf)
        if step % every == 0:
            cosines = z @ z.T
            coefficients = pair_coefficients(loss, cosines, labels, temperature)
            rows.append(
                (
                    float(value.detach()),
                    float((coefficients > 0).double().mean()),
                    float(coefficients.clamp(min=0).sum() / len(labels)),
                    float(cosines[same].mean()),
                    float(cosines[other].mean()),
                )
            )
        (gradient,) = torch.autograd.grad(value, leaf)
        tangential = gradient - (gradient * z).sum(dim=1, keepdim=True) * z
        z = unit(z - rate * len(labels) * tangential)
    return Trajectory(loss, *zip(*rows, strict=True))
