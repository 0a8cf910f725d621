"""How far must an embedding move before a linear head changes its answer?"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from sincere.checks import check_choice, is_number
from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.errors import InputError, OptionError
from sincere.evaluate.bootstrap import estimated, resampled_means
from sincere.evaluate.linear import LinearClassifier, fit_logistic, fit_with_folds
from sincere.evaluate.options import Vectors
from sincere.evaluate.record import Estimate
from sincere.geometry.directions import check_not_empty, vectors_on
from sincere.geometry.record import HeadRobustness
from sincere.nearest.neighbours import row_tiles
from sincere.nearest.precision import full_precision

Norm: TypeAlias = Literal["length", "coordinate"]
STEPS = (0.0, 0.25, 0.5, 1.0)
CHOSEN_ON = 4_000  # samples: a strength of L2 is found as well on these, in a fraction of the time


@full_precision()
def head_robustness(
    train: EmbeddingSet,
    test: EmbeddingSet,
    *,
    steps: Sequence[float] = STEPS,
    on: Vectors = "embeddings",
    norm: Norm = "length",
    l2: float | None = None,
    draws: int = 1000,
    seed: int = 0,
) -> HeadRobustness:
    """Accuracy on `test` of a linear head fitted on `train`, every vector moved against the head by a step of size ε.

    FGSM (Goodfellow et al. 2015, arXiv:1412.6572, Section 4) steps along the sign of the gradient of cross-entropy. A
    linear head also has an exact answer: the smallest step that makes class c win over class y is
    (score_y − score_c)/‖w_y − w_c‖, in the dual norm, and the worst step takes the nearest c. So `worst` is never
    above `fgsm`. Moved embeddings are not put back on the sphere.

    Args:
        train: what the head, a logistic regression, is fitted on.
        test: what is moved.
        steps: the sizes ε. Unit embeddings have length 1: a step of 1 is as long as the embedding itself.
        on: "embeddings", as unit vectors; or "features", as they are.
        norm: "length" measures a step by its L2 length; "coordinate" by its largest entry, which is FGSM's usual ε and
            √d times as long.
        l2: of the head; None chooses it by cross-validation within `train`, on 4,000 samples where there are more.
        draws: of the bootstrap over test samples.
        seed: of the draws and the folds.
    """
    check_choice("norm", norm, ("length", "coordinate"))
    check_not_empty(train)
    check_not_empty(test)
    if not isinstance(steps, Sequence) or not steps or not all(map(_is_size, steps)):
        raise OptionError(f"steps must hold finite sizes from 0, such as (0.0, 0.5): got {steps!r}.")
    if l2 is not None and not (_is_size(l2) and l2 > 0):
        raise OptionError(f"l2 must be positive and finite, or None to choose it: got {l2!r}.")
    classes = len(train.class_names)
    vectors, labels = vectors_on(test, on), test.with_classes(train.class_names).labels
    fit_on = vectors_on(train, on)
    if vectors.shape[1] != fit_on.shape[1]:
        raise InputError(f"train and test must share a dimension: got {fit_on.shape[1]} and {vectors.shape[1]}.")
    l2 = _strength(fit_on, train.labels, classes=classes, seed=seed) if l2 is None else l2
    head = fit_logistic(fit_on, train.labels, classes=classes, l2=l2)
    radius, fgsm = _outcomes(head, vectors, labels, steps, norm)
    worst = torch.stack([radius >= 0 if step == 0 else radius > step for step in steps], dim=1)
    shares = _estimates(torch.cat([fgsm, worst], dim=1), draws=draws, seed=seed)
    right = radius[radius >= 0]
    return HeadRobustness(
        on=on,
        norm=norm,
        steps=tuple(map(float, steps)),
        fgsm=shares[: len(steps)],
        worst=shares[len(steps) :],
        radius=float(right.double().quantile(0.5)) if right.numel() and bool(right.median().isfinite()) else None,
        mean_norm=float(vectors.norm(dim=1).double().mean()),
        l2=l2,
        samples=len(test),
    )


def _is_size(value: object) -> bool:
    return is_number(value) and 0 <= value < torch.inf


def _strength(vectors: Tensor, labels: Tensor, *, classes: int, seed: int) -> float:
    """The strength of L2 that cross-validation chooses."""
    if vectors.shape[0] > CHOSEN_ON:
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randperm(vectors.shape[0], generator=generator, device="cpu")[:CHOSEN_ON]
        vectors, labels = vectors[drawn.to(vectors.device)], labels[drawn.to(labels.device)]
    return fit_with_folds(vectors, labels, classes=classes, seed=seed)[1]


@full_precision()
def _outcomes(
    head: LinearClassifier, vectors: Tensor, labels: Tensor, steps: Sequence[float], norm: Norm
) -> tuple[Tensor, Tensor]:
    """The smallest step that changes the answer, (n,), −1 where it is wrong already; and whether FGSM's leave it right,
    (n, steps)."""
    weight = (head.weight / head.scale).double()
    bias = head.bias.double() - weight @ head.mean.double()
    apart = torch.cdist(weight, weight, p=2 if norm == "length" else 1)
    radii, right = [], []
    for tile in row_tiles(vectors.shape[0], 4 * max(weight.shape), vectors.device):
        x, own = vectors[tile].double(), labels[tile].unsqueeze(1)
        scores = x @ weight.T + bias
        margins = scores.gather(1, own) - scores
        # Classes with equal weights never change places: 0/0 and x/0 both mean "no step does it".
        reach = (margins / apart[labels[tile]]).nan_to_num(nan=torch.inf, posinf=torch.inf)
        radius = reach.scatter_(1, own, torch.inf).amin(dim=1).clamp(min=0)
        radii.append(torch.where(scores.argmax(dim=1) == labels[tile], radius, -1.0))
        against = (scores.softmax(dim=1).scatter_add_(1, own, -torch.ones_like(own, dtype=x.dtype)) @ weight).sign()
        moved = _unit_step(against, norm) @ weight.T  # scores are linear: they move with the step
        right.append(torch.stack([(scores + step * moved).argmax(dim=1) == labels[tile] for step in steps], dim=1))
    return torch.cat(radii), torch.cat(right)


def _unit_step(signs: Tensor, norm: Norm) -> Tensor:
    return signs if norm == "coordinate" else signs / signs.norm(dim=1, keepdim=True).clamp(min=1)


def _estimates(right: Tensor, *, draws: int, seed: int) -> tuple[Estimate, ...]:
    resampled = resampled_means(right, draws=draws, seed=seed)
    means = right.double().mean(dim=0).tolist()
    return tuple(estimated(mean, draw) for mean, draw in zip(means, resampled.T, strict=True))
