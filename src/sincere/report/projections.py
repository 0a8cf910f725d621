"""Embeddings as points that can be drawn: the sphere itself, the two directions of most variance, a neighbour map."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sincere.evaluate.accuracy import ENOUGH
from sincere.geometry.directions import vectors_on
from sincere.nearest.neighbours import cosine_tiles
from sincere.report.picture import needs_lab
from sincere.report.subject import Subject

MOST_POINTS = 2500
NEIGHBOURS = 10  # by which a map is judged
SEED = 0
SAME = 1e-6  # unit vectors of float32 that differ by less in every entry are one point but for rounding
STEPS = 500  # half of scikit-learn's: the islands have formed by then, and a report makes a map of every run


@dataclass(frozen=True, eq=False)
class Projection:
    """One way to place the points."""

    key: str  # "sphere", "circle", "pca", "neighbours"
    title: str
    note: str  # how to read it
    points: Any  # float64 (n, 2) or (n, 3)


@dataclass(frozen=True, eq=False)
class PointMap:
    """Every way to place the same points."""

    chosen: Tensor  # places of the points among the samples
    projections: tuple[Projection, ...]
    agreement: float | None  # share of a point's nearest that have its class, in the whole space
    agreements: dict[str, float]  # and in each projection
    judged: float | None  # in the whole space, every class counting alike: what the grade goes by

    @property
    def first(self) -> int:
        """What to show first: the embeddings as they are, or the picture that misleads least."""
        if self.projections[0].key in ("sphere", "circle"):
            return 0
        shares = [self.agreements.get(one.key, 0.0) for one in self.projections]
        return shares.index(max(shares))


def point_map(subject: Subject) -> PointMap:
    """Place a subject's samples; a seeded draw of them where there are too many to look at."""
    chosen = drawn_samples(len(subject.test))
    rows = vectors_on(subject.test.subset(chosen), "embeddings").double().numpy()
    labels = subject.test.labels[chosen].numpy()
    found = list(_projections(rows))
    shares = _shares_of_own(labels, _nearest(torch.from_numpy(rows).float()))
    in_pictures = {one.key: _mean(_shares_of_own(labels, _nearest_drawn(one.points))) for one in found}
    agreements = {key: share for key, share in in_pictures.items() if share is not None}
    return PointMap(chosen, tuple(found), _mean(shares), agreements, _mean_over_classes(labels, shares))


def drawn_samples(samples: int) -> Tensor:
    """All of them, or a random draw of `MOST_POINTS`, in their order."""
    if samples <= MOST_POINTS:
        return torch.arange(samples)
    generator = torch.Generator().manual_seed(SEED)
    return torch.randperm(samples, generator=generator)[:MOST_POINTS].sort().values


def _projections(rows: Any) -> Any:
    n, dim = rows.shape
    flat, shares = principal_components(rows)
    if dim == 3:
        yield Projection("sphere", "Sphere", "The embeddings as they are, as unit vectors: drag to turn.", rows)
    if dim == 2:
        yield Projection("circle", "Circle", "The embeddings as they are, as unit vectors: nothing is left out.", rows)
    else:
        note = (
            f"The two directions of most variance hold {100 * sum(shares):.0f} % of it; classes that differ "
            "along others lie on top of each other here."
            if any(shares)
            else "All samples lie on one point."
        )
        yield Projection("pca", "PCA", note, flat)
    if n >= 10 and dim > 2:
        note = "t-SNE keeps near neighbours near: trust which points lie together, not how far apart the islands are."
        yield Projection("neighbours", "Neighbour map", note, neighbour_embedding(rows, flat))


def principal_components(rows: Any) -> tuple[Any, tuple[float, ...]]:
    """Points along the two directions of most variance, and their shares of it."""
    centred = rows - rows.mean(axis=0)
    if float(np.abs(centred).max(initial=0.0)) < SAME:
        centred = np.zeros_like(centred)
    left, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    signs = np.where(directions[np.arange(len(directions)), np.abs(directions).argmax(axis=1)] < 0, -1.0, 1.0)
    points = (left * sizes * signs)[:, :2]
    variance = sizes**2 / max(float((sizes**2).sum()), 1e-30)
    return np.pad(points, ((0, 0), (0, 2 - points.shape[1]))), tuple(float(share) for share in variance[:2])


def neighbour_embedding(rows: Any, start: Any) -> Any:
    """t-SNE from the principal components, the same every time."""
    manifold = needs_lab("sklearn.manifold")
    spread = float(start[:, 0].std()) or 1.0
    perplexity = min(30.0, max(5.0, len(rows) / 30), (len(rows) - 1) / 3)  # a few of a class: more make dots of classes
    begin = (1e-4 * start / spread).astype(np.float32)
    model = manifold.TSNE(init=begin, perplexity=perplexity, max_iter=STEPS, random_state=SEED)
    return model.fit_transform(rows.astype(np.float32)).astype(np.float64)


def _nearest(rows: Tensor) -> Any:
    """Places of every point's nearest by cosine: (n, k)."""
    if len(rows) < 3:
        return _nobody(rows)
    k = min(NEIGHBOURS, len(rows) - 1)
    return torch.cat([cosines.topk(k, dim=1).indices for _, cosines in cosine_tiles(rows)]).numpy()


def _nearest_drawn(points: Any) -> Any:
    """Places of every point's nearest by distance in a picture: (n, k)."""
    if len(points) < 3:
        return _nobody(points)
    neighbors = needs_lab("sklearn.neighbors")
    k = min(NEIGHBOURS, len(points) - 1)
    return neighbors.NearestNeighbors(n_neighbors=k).fit(points).kneighbors(return_distance=False)


def _nobody(points: Any) -> Any:
    """No neighbours: of one or two points nothing can be said."""
    return np.zeros((len(points), 0), dtype=np.int64)


def _shares_of_own(labels: Any, places: Any) -> Any:
    """Share of each point's nearest that have its class; NaN where it is alone in its class.

    Of as many nearest as its class has other points, where those are fewer than there are places: then 1 can be reached
    by every point, however small its class.
    """
    depth = np.minimum(np.bincount(labels)[labels] - 1, places.shape[1])
    counted = np.arange(places.shape[1]) < depth[:, None]
    same = (labels[places] == labels[:, None]) & counted
    return np.where(depth > 0, same.sum(axis=1) / np.maximum(depth, 1), np.nan)


def _mean(shares: Any) -> float | None:
    known = shares[~np.isnan(shares)]
    return float(known.mean()) if len(known) else None


def _mean_over_classes(labels: Any, shares: Any) -> float | None:
    """Every class counts alike: by chance this is 1/K at most, however unequal the K that count.

    A few points can lie badly by bad luck: classes of fewer than ten count together as one, and not at all if they are
    fewer than ten together and two other classes are there to be judged by.
    """
    known = ~np.isnan(shares)
    labels, shares = labels[known], shares[known]
    present, sizes = np.unique(labels, return_counts=True)
    many = present[sizes >= ENOUGH] if (sizes >= ENOUGH).any() else present
    found = [shares[labels == c].mean() for c in many]
    rest = shares[~np.isin(labels, many)]
    if len(rest) >= ENOUGH or (len(rest) and len(many) < 2):
        found.append(rest.mean())
    return float(np.mean(found)) if found else None
