"""Label configurations of one batch have different minimisers; the sum over all batches has the simplex."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from sincere.defaults import usual_defaults
from sincere.errors import OptionError
from sincere.tables import columns
from sincere.theory.arrangement import Arrangement, arrangement, class_labels, simplex
from sincere.theory.batches import all_batches, supcon_bound_over_batches, supcon_over_batches
from sincere.theory.minimise import random_points, sphere_descent
from sincere.theory.record import Record


@dataclass(frozen=True)
class BatchMinimiser:
    """Where the points of one batch end when SupCon of that batch alone is minimised."""

    counts: tuple[int, ...]  # members of each class present
    batches: int  # how many batches of the whole set have these counts, in any order of the classes
    positions: Tensor  # (b, d)
    arrangement: Arrangement
    value: float  # sum over the batch's anchors
    simplex_value: float  # the same with every class at its corner of the simplex of all K classes
    converged: bool

    @property
    def gain(self) -> float:
        """How much lower than the simplex this batch alone can go."""
        return self.simplex_value - self.value


@dataclass(frozen=True)
class BatchMinimisers(Record):
    """The minimiser of every label configuration of a batch, and that of their sum."""

    classes: int
    dim: int
    batch: int
    members: int  # points of each class in the whole set
    temperature: float
    seed: int
    configurations: tuple[BatchMinimiser, ...]
    positions: Tensor  # of the whole set, minimising the sum over all batches
    labels: Tensor
    arrangement: Arrangement
    batches: int
    value: float
    bound: float  # Graf et al., Theorem 2
    converged: bool
    seconds: float

    @property
    def excess(self) -> float:
        """The sum above its bound."""
        return self.value - self.bound

    @property
    def differing(self) -> int:
        """Configurations whose minimiser is lower than the simplex by more than 1e-6 an anchor."""
        return sum(found.gain > 1e-6 * self.batch for found in self.configurations)

    def __str__(self) -> str:
        title = (
            f"SupCon, batches of {self.batch} of {self.classes} × {self.members} points in {self.dim} dimensions, "
            f"τ = {self.temperature:g}"
        )
        table: list[tuple[str, ...]] = [("members", "batches", "minimum", "at the simplex", "cosines of the classes")]
        for found in self.configurations:
            cosines = _shown(found.arrangement.cosines)
            members = "+".join(map(str, found.counts))
            table.append((members, str(found.batches), f"{found.value:.4f}", f"{found.simplex_value:.4f}", cosines))
        table.append(
            ("all", str(self.batches), f"{self.value:.4f}", f"{self.bound:.4f}", _shown(self.arrangement.cosines))
        )
        return "\n".join([title, *columns(table)])


def _shown(cosines: Tensor) -> str:
    rows, cols = torch.triu_indices(len(cosines), len(cosines), offset=1, device=cosines.device)
    return " ".join(f"{cosine:+.3f}" for cosine in cosines[rows, cols].tolist())


def partitions(total: int, parts: int, largest: int) -> Iterator[tuple[int, ...]]:
    """`total` as a sum of at most `parts` numbers from 1 to `largest`, in falling order.

    >>> list(partitions(4, 2, 3))
    [(3, 1), (2, 2)]
    """
    if total == 0:
        yield ()
    elif parts:
        for first in range(min(total, largest), 0, -1):
            for rest in partitions(total - first, parts - 1, first):
                yield (first, *rest)


@usual_defaults()
def batch_minimisers(
    *,
    classes: int = 3,
    batch: int = 9,
    dim: int = 2,
    members: int = 5,
    temperature: float = 1.0,
    seed: int = 0,
    starts: int = 3,
    steps: int = 1000,
    tolerance: float = 1e-4,
) -> BatchMinimisers:
    """Minimise SupCon for every label configuration of a batch alone, and for all batches together.

    The whole set has `members` points in each class, so that a batch has at most so many of one. In the sum all its
    C(K·members, batch) batches are gone through, and nothing is assumed about where points end.
    """
    if classes < 2 or classes > dim + 1 or not 2 <= batch <= classes * members or starts < 1:
        raise OptionError(
            "there must be 2 to dim + 1 classes, batches of 2 to all points, and a start: "
            f"got classes={classes}, dim={dim}, batch={batch}, {classes * members} points, starts={starts}."
        )
    labels = class_labels((members,) * classes)
    batches = all_batches(len(labels), batch)
    sizes = torch.zeros(len(batches), classes, dtype=torch.int64)
    sizes.scatter_add_(1, labels[batches], torch.ones_like(batches))
    sizes = sizes.sort(dim=1, descending=True).values
    configurations = tuple(
        _alone(counts, classes, dim, sizes, temperature, range(seed, seed + starts), steps, tolerance)
        for counts in partitions(batch, classes, members)
    )
    positions, descent = sphere_descent(
        lambda points: supcon_over_batches(points, labels, batches, temperature=temperature) / len(batches),
        random_points(len(labels), dim, seed),
        steps=steps,
        tolerance=tolerance,
    )
    return BatchMinimisers(
        classes=classes,
        dim=dim,
        batch=batch,
        members=members,
        temperature=temperature,
        seed=seed,
        configurations=configurations,
        positions=positions,
        labels=labels,
        arrangement=arrangement(positions, labels, classes),
        batches=len(batches),
        value=descent.value * len(batches),
        bound=supcon_bound_over_batches((members,) * classes, batch, temperature=temperature),
        converged=descent.converged,
        seconds=descent.seconds,
    )


def _alone(
    counts: tuple[int, ...],
    classes: int,
    dim: int,
    sizes: Tensor,
    temperature: float,
    seeds: range,
    steps: int,
    tolerance: float,
) -> BatchMinimiser:
    labels = class_labels(counts)
    whole = torch.arange(len(labels)).unsqueeze(0)

    def objective(points: Tensor) -> Tensor:
        return supcon_over_batches(points, labels, whole, temperature=temperature)

    tried = [
        sphere_descent(objective, random_points(len(labels), dim, seed), steps=steps, tolerance=tolerance)
        for seed in seeds
    ]
    positions, descent = min(tried, key=lambda found: found[1].value)
    padded = torch.tensor(counts + (0,) * (classes - len(counts)))
    return BatchMinimiser(
        counts=counts,
        batches=int((sizes == padded).all(dim=1).sum()),
        positions=positions,
        arrangement=arrangement(positions, labels, len(counts)),
        value=descent.value,
        simplex_value=float(objective(simplex(classes, dim)[labels])),
        converged=descent.converged,
    )
