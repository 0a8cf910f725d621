"""Out-of-class detection: can samples of unseen classes be told from samples of known ones?"""

from collections.abc import Iterator
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from sincere.checks import check_choice, is_whole
from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.errors import InputError, OptionError
from sincere.evaluate.bootstrap import estimated, resampled_counts
from sincere.geometry.directions import check_not_empty, class_sums
from sincere.geometry.record import OutOfClass
from sincere.losses.similarity import unit_rows
from sincere.nearest.neighbours import cosine_tiles, row_tiles
from sincere.nearest.precision import full_precision

Score: TypeAlias = Literal["nearest_mean", "knn"]
PASSING = 0.95  # share of known samples that the threshold lets pass
DRAWS_AT_ONCE = 64


def out_of_class(
    found: EmbeddingSet,
    other: EmbeddingSet,
    *,
    train: EmbeddingSet | None = None,
    score: Score = "nearest_mean",
    k: int = 50,
    bins: int = 50,
    draws: int = 1000,
    seed: int = 0,
) -> OutOfClass:
    """Score every sample by how close it is to the known classes, and see whether `other` scores lower.

    AUROC is the chance that a sample of `found` scores above one of `other`; ties count half. FPR at 95 % is the share
    of `other` at or above the score that 95 % of `found` reach (with ties, the highest threshold that still lets 95 %
    pass). Intervals come from resampling both sets.

    Args:
        found: samples of the known classes.
        other: samples of none of them, such as another data set's, embedded by the same model.
        train: samples from which the known classes are learned; without it, `found`, each sample left out of its own
            score.
        score: "nearest_mean", the largest cosine with a class mean; "knn", the cosine of the k-th nearest sample (Sun
            et al. 2022, arXiv:2204.06507, which takes the distance).
        k: for "knn"; no more than there are samples.
        bins: of the histograms of both scores.
        draws: of the bootstrap.
        seed: of the draws.
    """
    check_choice("score", score, ("nearest_mean", "knn"))
    for one in (found, other) if train is None else (found, other, train):
        check_not_empty(one)
        if one.embeddings.shape[1] != found.embeddings.shape[1]:
            raise InputError(
                f"all sets must have one dimension, {found.embeddings.shape[1]}: {one.name!r} has "
                f"{one.embeddings.shape[1]}. Are these embeddings of one model?"
            )
    if not is_whole(k) or not is_whole(bins) or k < 1 or bins < 1:
        raise OptionError(f"k and bins must be whole numbers of at least 1: got {k!r} and {bins!r}.")
    known = train or found
    if train is None and len(found) < 2:
        raise InputError(
            f"without train a sample is scored by the others of its set: {found.name!r} must hold at least two."
        )
    if score == "knn":
        k = min(k, len(known) - (train is None))
        mine = _kth_cosine(found, train, k)
        others = _kth_cosine(other, known, k)
    else:
        mine = _mean_scores(found, known, leave_out=train is None)
        others = _mean_scores(other, known, leave_out=False)
    return _record(found, other, score, (mine.cpu(), others.cpu()), bins, draws, seed)


@full_precision()
def _mean_scores(queries: EmbeddingSet, known: EmbeddingSet, *, leave_out: bool) -> Tensor:
    """The largest cosine with the mean of a known class, leaving the sample itself out of its class's mean."""
    sums = class_sums(unit_rows(known.embeddings), known.labels, classes=len(known.class_names))
    counts = torch.bincount(known.labels, minlength=len(known.class_names))
    empty = counts == 0
    directions, rows = unit_rows(sums), unit_rows(queries.embeddings)
    scores = []
    for tile in row_tiles(len(queries), sum(sums.shape), rows.device):
        z = rows[tile].double()
        cosines = (z @ directions.T).masked_fill(empty, -torch.inf)
        if leave_out:
            label = known.labels[tile]
            own = (z * unit_rows(sums[label] - z)).sum(dim=1)
            own = own.masked_fill(counts[label] == 1, -torch.inf)  # without it its class has no mean
            cosines.scatter_(1, label.unsqueeze(1), own.unsqueeze(1))
        scores.append(cosines.amax(dim=1))
    return torch.cat(scores)


@full_precision()
def _kth_cosine(queries: EmbeddingSet, gallery: EmbeddingSet | None, k: int) -> Tensor:
    """The cosine of the k-th nearest sample of the gallery; without a gallery, of the other queries."""
    there = None if gallery is None else gallery.embeddings
    return torch.cat([cosines.topk(k, dim=1).values[:, -1] for _, cosines in cosine_tiles(queries.embeddings, there)])


class RankedScores:
    """Both sets' scores as ranks, so that figures of a weighted draw are sums over ranks."""

    def __init__(self, mine: Tensor, others: Tensor) -> None:
        self.values, ranks = torch.unique(torch.cat([mine, others]), return_inverse=True)
        self.mine, self.others = ranks[: mine.shape[0]], ranks[mine.shape[0] :]

    def _per_rank(self, ranks: Tensor, weights: Tensor) -> Tensor:
        """(draws, n) weights → (draws, values)."""
        found = weights.new_zeros(weights.shape[0], self.values.shape[0], dtype=torch.float64)
        return found.index_add_(1, ranks, weights.double())

    def figures(self, mine: Tensor, others: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """AUROC, FPR at 95 % and the threshold's rank of each draw; weights are (draws, n) and (draws, m)."""
        here, there = self._per_rank(self.mine, mine), self._per_rank(self.others, others)
        totals = here.sum(dim=1, keepdim=True), there.sum(dim=1, keepdim=True)
        below = there.cumsum(dim=1) - there / 2
        auroc = (here * below).sum(dim=1) / (totals[0] * totals[1]).squeeze(1)
        reaching = totals[0] - here.cumsum(dim=1) + here  # weight of `mine` at or above each value
        # Weights are counts, so a sum is an integer and the comparison exact but for 0.95 itself.
        rank = (reaching >= PASSING * totals[0] - 1e-6).sum(dim=1) - 1
        passing = totals[1] - there.cumsum(dim=1) + there
        return auroc, passing.gather(1, rank.unsqueeze(1)).squeeze(1) / totals[1].squeeze(1), rank


def _record(
    found: EmbeddingSet,
    other: EmbeddingSet,
    score: Score,
    scores: tuple[Tensor, Tensor],
    bins: int,
    draws: int,
    seed: int,
) -> OutOfClass:
    mine, others = scores
    ranked = RankedScores(mine, others)
    auroc, fpr, rank = ranked.figures(*(torch.ones_like(one).unsqueeze(0) for one in scores))
    drawn = _drawn(ranked, mine.shape[0], others.shape[0], draws=draws, seed=seed)
    low, high = float(ranked.values[0]), float(ranked.values[-1])
    edges = torch.linspace(low, high if high > low else low + 1, bins + 1, dtype=torch.float64, device="cpu")
    counts = [torch.histogram(one.double(), edges).hist.long().tolist() for one in scores]
    return OutOfClass(
        name=found.name,
        other=other.name,
        score=score,
        auroc=estimated(float(auroc), drawn[:, 0]),
        fpr95=estimated(float(fpr), drawn[:, 1]),
        threshold=float(ranked.values[rank]),
        edges=tuple(edges.tolist()),
        counts=tuple(counts[0]),
        other_counts=tuple(counts[1]),
    )


def _drawn(ranked: RankedScores, mine: int, others: int, *, draws: int, seed: int) -> Tensor:
    """AUROC and FPR of every draw of both sets, (draws, 2)."""
    parts = []
    streams = resampled_counts(mine, draws=draws, seed=seed), resampled_counts(others, draws=draws, seed=seed + 1)
    for here, there in _in_step(*streams):
        auroc, fpr, _ = ranked.figures(here, there)
        parts.append(torch.stack([auroc, fpr], dim=1))
    return torch.cat(parts)


def _in_step(first: Iterator[Tensor], second: Iterator[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Two streams of draws, whose pieces differ in length, cut into pieces of the same length."""
    held = [torch.empty(0, device="cpu"), torch.empty(0, device="cpu")]
    streams = (first, second)
    while True:
        for place, stream in enumerate(streams):
            if held[place].shape[0] == 0:
                piece = next(stream, None)
                if piece is None:
                    return
                held[place] = piece
        step = min(held[0].shape[0], held[1].shape[0], DRAWS_AT_ONCE)
        yield held[0][:step], held[1][:step]
        held = [one[step:] for one in held]
