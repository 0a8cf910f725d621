"""The k nearest samples by cosine, and what they vote for; in tiles, so that n×m never exists at once."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from sincere.checks import check_choice, check_labels, check_temperature, is_integral
from sincere.errors import InputError, OptionError
from sincere.nearest.cosines import comparable, prepared
from sincere.nearest.precision import full_precision

Voting: TypeAlias = Literal["count", "similarity"]
TILE = {"cpu": 2**23, "cuda": 2**27}  # similarities held at once: 32 MB where caches are small, 512 MB on a GPU
PARTS = 8  # of a tile's rows at once where they have ties, as those need several more numbers of each similarity


def row_tiles(rows: int, columns: int, device: torch.device) -> Iterator[slice]:
    """Blocks of rows, each with about `TILE` similarities."""
    step = max(1, TILE.get(device.type, TILE["cpu"]) // max(1, columns))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def cosine_tiles(queries: Tensor, gallery: Tensor | None = None) -> Iterator[tuple[slice, Tensor]]:
    """Cosines of a block of queries with the whole gallery; without a gallery, with the other queries (−inf itself)."""
    if gallery is not None and queries.shape[1] != gallery.shape[1]:
        raise InputError(f"queries and gallery must share a dimension: got {queries.shape[1]} and {gallery.shape[1]}.")
    cosines = prepared(queries, gallery)
    for tile in row_tiles(cosines.queries.shape[0], cosines.gallery.shape[0], queries.device):
        found = cosines.of(tile)
        if gallery is None:
            own = torch.arange(tile.start, tile.stop, device=queries.device)
            found[own - tile.start, own] = -torch.inf
        yield tile, found


@dataclass(frozen=True)
class Neighbours:
    """The k nearest of each query, nearest first, and for whom the choice of the last ones was arbitrary."""

    cosines: Tensor  # (n, k)
    labels: Tensor  # (n, k)
    tied: Tensor | None = None  # (t,) queries for which samples beyond the k have exactly the last cosine
    tied_counts: Tensor | None = None  # (t, classes) how many of each class have that cosine, within the k and beyond

    @property
    def k(self) -> int:
        return self.labels.shape[1]


@full_precision()
def nearest(queries: Tensor, gallery: Tensor | None, labels: Tensor, *, k: int) -> Neighbours:
    """The k gallery samples with the largest cosine to each query; without a gallery, of the other queries.

    `labels` are the gallery's. Of samples with exactly the k-th cosine any may be among the k; `vote` treats all alike.
    """
    queries, gallery = comparable(queries, gallery)
    check_labels("labels", labels, (queries if gallery is None else gallery).shape[0], "the gallery", queries.device)
    most = labels.shape[0] - (1 if gallery is None else 0)
    if not is_integral(k) or not 1 <= k <= most:
        raise OptionError(f"k must be a whole number between 1 and the {most} samples to choose from: got {k!r}.")
    cosines = queries.new_empty(queries.shape[0], k)
    found = torch.empty(queries.shape[0], k, dtype=torch.int64, device=queries.device)
    tied, counts = [], []
    for tile, values in cosine_tiles(queries, gallery):
        nearby, places = values.topk(min(k + 1, most), dim=1)
        cosines[tile], found[tile] = nearby[:, :k], labels[places[:, :k]]
        rows = (nearby[:, k - 1] == nearby[:, k]).nonzero().flatten() if k < most else places.new_empty(0)
        for some in rows.tensor_split(PARTS) if rows.numel() else ():
            tied.append(some + tile.start)
            counts.append(class_counts(values[some] == nearby[some, k - 1 : k], labels))
    return Neighbours(cosines, found, *((torch.cat(tied), torch.cat(counts)) if tied else ()))


def class_counts(taken: Tensor, labels: Tensor) -> Tensor:
    """How many of each class are taken in each row, float32 (n, classes)."""
    counts = torch.zeros(taken.shape[0], int(labels.max()) + 1, dtype=torch.float32, device=taken.device)
    return counts.scatter_add_(1, labels.expand(taken.shape), taken.float())


def vote(
    neighbours: Neighbours, *, classes: int, k: int, voting: Voting = "count", temperature: float = 0.07
) -> Tensor:
    """Scores (n, classes) from the k nearest.

    `"count"`: every neighbour has one vote; where classes have equally many, the one with the larger sum of cosines
    comes first. `"similarity"`: a vote counts e^(cosine/temperature): Wu et al. 2018, arXiv:1805.01978, Section 3.4.
    If g samples have exactly the k-th cosine and the k have room for r of them, each of the g has r/g of a vote: the
    mean over every choice of r, so that the order of the gallery makes no difference.
    """
    check_choice("voting", voting, ("count", "similarity"))
    check_temperature(temperature)
    return _tally(neighbours, classes, k, lambda cosines, finest: _weights(cosines, voting, temperature, finest))


def votes(neighbours: Neighbours, *, classes: int, k: int) -> Tensor:
    """How many of the k nearest are of each class, (n, classes): `"count"` of `vote` without what breaks ties."""
    return _tally(neighbours, classes, k, lambda cosines, finest: torch.ones_like(cosines))


def _tally(
    neighbours: Neighbours, classes: int, k: int, weights_of: Callable[[Tensor, Tensor | float], Tensor]
) -> Tensor:
    """The weights of the k nearest, added up by class; those that are equally near share out what is left for them."""
    k = min(k, neighbours.k)
    cosines, labels = neighbours.cosines[:, :k].double(), neighbours.labels[:, :k]
    scores = torch.zeros(labels.shape[0], classes, dtype=torch.float64, device=labels.device)
    scores.scatter_add_(1, labels, weights_of(cosines, 1.0))
    tied = _tied_at(neighbours, k)
    if tied.numel():
        cosines, labels, group = cosines[tied], labels[tied], _group(neighbours, tied, k, classes)
        size, inside = group.sum(dim=1, keepdim=True), cosines == cosines[:, -1:]
        # Shares of a vote differ by 1/size at least, and what breaks ties must stay below that.
        weights = weights_of(cosines, size)
        certain = torch.zeros_like(group).scatter_add_(1, labels, weights.masked_fill(inside, 0))
        scores[tied] = certain + group * (weights[:, -1:] * inside.sum(dim=1, keepdim=True) / size)
    return scores


def _weights(cosines: Tensor, voting: Voting, temperature: float, finest: Tensor | float) -> Tensor:
    """What the vote of each of k neighbours counts. Numbers of votes differ by 1/finest at least, or not at all."""
    if voting == "similarity":
        return ((cosines - cosines[:, :1]) / temperature).exp()  # a common factor of a row changes no order
    return 1 + cosines / ((2 * cosines.shape[1] + 1) * finest)  # k cosines add less than half: they only break ties


def _tied_at(neighbours: Neighbours, k: int) -> Tensor:
    """Queries for which the k-th and the next neighbour have exactly one cosine, (t,)."""
    if k < neighbours.k:
        return (neighbours.cosines[:, k - 1] == neighbours.cosines[:, k]).nonzero().flatten()
    return neighbours.labels.new_empty(0) if neighbours.tied is None else neighbours.tied


def _group(neighbours: Neighbours, queries: Tensor, k: int, classes: int) -> Tensor:
    """How many samples of each class have exactly the k-th cosine, float64 (queries, classes)."""
    cosines, labels = neighbours.cosines[queries], neighbours.labels[queries]
    inside = cosines == cosines[:, k - 1 : k]
    counts = torch.zeros(len(queries), classes, dtype=torch.float64, device=labels.device)
    counts.scatter_add_(1, labels, inside.double())
    if neighbours.tied is not None and neighbours.tied_counts is not None:
        known = labels.new_full((neighbours.labels.shape[0],), -1)
        known[neighbours.tied] = torch.arange(len(neighbours.tied), device=labels.device)
        known = known[queries]
        beyond = inside[:, -1] & (known >= 0)  # the group goes on where the neighbours end
        whole = neighbours.tied_counts[known[beyond]]
        counts[beyond, : whole.shape[1]] = whole.double()
    return counts


def choose_k(
    neighbours: Neighbours, labels: Tensor, candidates: Sequence[int], *, classes: int, voting: Voting = "count"
) -> int:
    """The candidate with most right on these samples, which must not be the test samples; of equals the smallest."""
    usable = sorted({min(k, neighbours.k) for k in candidates})
    right = [int((vote(neighbours, classes=classes, k=k, voting=voting).argmax(1) == labels).sum()) for k in usable]
    return usable[right.index(max(right))]
