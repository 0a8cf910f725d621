"""The k nearest samples by cosine, and what they vote for; in tiles, so that n×m never exists at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from sincere.checks import check_choice, check_temperature
from sincere.errors import InputError, OptionError
from sincere.evaluate.precision import full_precision
from sincere.losses.similarity import unit_rows

Voting: TypeAlias = Literal["count", "similarity"]
TILE = {"cpu": 2**23, "cuda": 2**27}  # similarities held at once: 32 MB where caches are small, 512 MB on a GPU


def row_tiles(rows: int, columns: int, device: torch.device) -> Iterator[slice]:
    """Blocks of rows, each with about `TILE` similarities."""
    step = max(1, TILE.get(device.type, TILE["cpu"]) // max(1, columns))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def cosine_tiles(queries: Tensor, gallery: Tensor | None = None) -> Iterator[tuple[slice, Tensor]]:
    """Cosines of a block of queries with the whole gallery; without a gallery, with the other queries (−inf itself)."""
    if gallery is not None and queries.shape[1] != gallery.shape[1]:
        raise InputError(f"queries and gallery must share a dimension: got {queries.shape[1]} and {gallery.shape[1]}.")
    rows = unit_rows(queries)
    columns = rows if gallery is None else unit_rows(gallery)
    for tile in row_tiles(rows.shape[0], columns.shape[0], rows.device):
        cosines = rows[tile] @ columns.T
        if gallery is None:
            own = torch.arange(tile.start, tile.stop, device=rows.device)
            cosines[own - tile.start, own] = -torch.inf
        yield tile, cosines


@dataclass(frozen=True)
class Neighbours:
    """The k nearest of each query, nearest first."""

    cosines: Tensor  # (n, k)
    labels: Tensor  # (n, k)

    @property
    def k(self) -> int:
        return self.labels.shape[1]


@full_precision()
def nearest(queries: Tensor, gallery: Tensor, labels: Tensor, *, k: int) -> Neighbours:
    """The k gallery samples with the largest cosine to each query."""
    if not 1 <= k <= gallery.shape[0]:
        raise OptionError(f"k must lie between 1 and the {gallery.shape[0]} samples to choose from: got {k}.")
    cosines = queries.new_empty(queries.shape[0], k)
    found = torch.empty(queries.shape[0], k, dtype=torch.int64, device=queries.device)
    for tile, values in cosine_tiles(queries, gallery):
        cosines[tile], places = values.topk(k, dim=1)
        found[tile] = labels[places]
    return Neighbours(cosines, found)


def vote(
    neighbours: Neighbours, *, classes: int, k: int, voting: Voting = "count", temperature: float = 0.07
) -> Tensor:
    """Scores (n, classes) from the k nearest.

    `"count"`: every neighbour has one vote; where classes have equally many, the one with the larger sum of cosines
    comes first. `"similarity"`: a vote counts e^(cosine/temperature): Wu et al. 2018, arXiv:1805.01978, Section 3.4.
    """
    check_choice("voting", voting, ("count", "similarity"))
    check_temperature(temperature)
    cosines, labels = neighbours.cosines[:, :k].double(), neighbours.labels[:, :k]
    weights = 1 + cosines / (2 * k + 1)  # k cosines add less than half a vote: they only break ties
    if voting == "similarity":
        weights = ((cosines - cosines[:, :1]) / temperature).exp()  # a common factor of a row changes no order
    scores = torch.zeros(labels.shape[0], classes, dtype=torch.float64, device=labels.device)
    return scores.scatter_add_(1, labels, weights)


def choose_k(
    neighbours: Neighbours, labels: Tensor, candidates: Sequence[int], *, classes: int, voting: Voting = "count"
) -> int:
    """The candidate with most right on these samples, which must not be the test samples; of equals the smallest."""
    usable = sorted({min(k, neighbours.k) for k in candidates})
    right = [int((vote(neighbours, classes=classes, k=k, voting=voting).argmax(1) == labels).sum()) for k in usable]
    return usable[right.index(max(right))]
