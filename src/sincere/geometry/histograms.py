"""Histograms of the cosine of every pair, within classes and between them: SINCERE's Figure 3, for every class."""

import torch
from torch import Tensor

from sincere.checks import is_whole
from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.errors import OptionError
from sincere.geometry.directions import Directions, check_not_empty, directions_of
from sincere.geometry.pair_pass import Tile, listen, same_class
from sincere.geometry.pair_similarity import similarity_by_class_pair
from sincere.geometry.record import PairSimilarity, SimilarityHistograms
from sincere.losses.backends.class_layout import Block
from sincere.nearest.precision import full_precision

MOST_BINS = 32_000  # what an int16 can number


class HistogramCounts:
    """Adds up how many pairs fall into each bin, by class: int64 (classes that have samples, bins) each."""

    def __init__(self, rows: Directions, bins: int) -> None:
        if not is_whole(bins) or not 1 <= bins <= MOST_BINS:
            raise OptionError(f"bins must lie between 1 and {MOST_BINS:,}, a whole number: got {bins!r}.")
        self.rows, self.bins = rows, bins
        # Counting is some five times faster on bytes than on 64-bit numbers.
        self.narrow = torch.uint8 if bins < 256 else torch.int16
        self.cells = bins + 1  # the last holds cosine 1, and what rounding put above it
        present = rows.layout.sizes.shape[0]
        self.within = torch.zeros(present, self.cells, dtype=torch.int64, device=rows.rows.device)
        self.between = torch.zeros_like(self.within)
        self.middle = rows.rows.new_full((), bins / 2)

    def fresh(self) -> "HistogramCounts":
        """Another one, without counts."""
        return HistogramCounts(self.rows, self.bins)

    def join(self, other: "HistogramCounts") -> None:
        """Add another one's counts."""
        self.within += other.within
        self.between += other.between

    def add(self, tile: Tile) -> None:
        """Count one tile."""
        scaled = torch.add(self.middle, tile.cosines, alpha=self.bins / 2, out=tile.scratch)
        numbers = scaled.to(self.narrow)
        if tile.one_class:
            self.within[self._first_class(tile.block)] += self._counts_of_one_class(numbers, tile.diagonal)
        elif tile.two_classes:
            counts = torch.bincount(numbers.flatten(), minlength=self.cells)
            self.between[self._first_class(tile.block)] += counts
            self.between[self._first_class(tile.other)] += counts
        elif tile.diagonal:  # several whole classes: every pair is here twice, once by the row of either sample
            same = same_class(self.rows, tile)
            self._add_by_row_class(self.within, numbers, tile.block, same)
            self._add_by_row_class(self.between, numbers, tile.block, (~same).fill_diagonal_(False))
        else:
            self._add_by_row_class(self.between, numbers, tile.block)
            self._add_by_row_class(self.between, numbers.T, tile.other)

    def _counts_of_one_class(self, numbers: Tensor, diagonal: bool) -> Tensor:
        """Counts of both directions of every pair: a tile off the diagonal counts twice."""
        counts = torch.bincount(numbers.flatten(), minlength=self.cells)
        return counts - torch.bincount(numbers.diagonal(), minlength=self.cells) if diagonal else 2 * counts

    def _add_by_row_class(self, target: Tensor, numbers: Tensor, block: Block, kept: Tensor | None = None) -> None:
        first, here = self._first_class(block), len(block.edges) - 1
        local = self.rows.layout.classes[block.rows] - first
        keys = numbers.long() + self.cells * local.unsqueeze(1)
        flat = keys.flatten() if kept is None else keys[kept]
        target[first : first + here] += torch.bincount(flat, minlength=here * self.cells).view(here, self.cells)

    def _first_class(self, block: Block) -> int:
        return int(self.rows.layout.classes[block.start])

    def by_class(self) -> tuple[Tensor, Tensor]:
        """(within, between), each (all classes, bins)."""
        names = self.rows.numbers[self.rows.layout.starts]
        whole = []
        for counts in (self.within // 2, self.between):
            at_one = counts[:, -1:]
            binned = torch.cat([counts[:, :-2], counts[:, -2:-1] + at_one], dim=1).cpu()
            whole.append(binned.new_zeros(self.rows.classes, self.bins))
            whole[-1][names.cpu()] = binned
        return whole[0], whole[1]


@full_precision()
def similarity_histograms(
    found: EmbeddingSet, *, bins: int = 100, sample: int | None = None, seed: int = 0
) -> SimilarityHistograms:
    """Histograms over [−1, 1] of the cosines of all pairs within a class, and of all pairs between two classes.

    The overlap is Σ_b min(p_b, q_b), with p and q the shares of the pairs in bin b: 0 if a threshold separates
    same-class pairs from others without error, 1 if cosine says nothing.

    Args:
        found: the embeddings.
        bins: number of bins, all of equal width.
        sample: number of samples to draw at random, without replacement; only their pairs are counted, and the record
            says so. None takes every pair.
        seed: of that draw.
    """
    check_not_empty(found)
    drawn = None
    if sample is not None:
        if not is_whole(sample) or sample < 2:
            raise OptionError(f"sample must be at least 2, a whole number, to have a pair: got {sample!r}.")
        if sample < len(found):
            chosen = torch.randperm(len(found), generator=torch.Generator().manual_seed(seed), device="cpu")[:sample]
            found, drawn = found.subset(chosen.sort().values), sample
    rows = directions_of(found)
    counts = HistogramCounts(rows, bins)
    listen(rows, [counts])
    return histograms_from(counts, similarity_by_class_pair(found), sampled=drawn)


def histograms_from(
    counts: HistogramCounts, similarity: PairSimilarity, *, sampled: int | None = None
) -> SimilarityHistograms:
    """The record, once every tile was counted."""
    within, between = counts.by_class()
    # linspace has −2e−17 in place of 0
    edges = torch.arange(-counts.bins, counts.bins + 1, 2, dtype=torch.float64, device="cpu") / counts.bins
    all_within, all_between = within.sum(dim=0), between.sum(dim=0) // 2
    return SimilarityHistograms(
        class_names=similarity.class_names,
        edges=tuple(edges.tolist()),
        within=tuple(all_within.tolist()),
        between=tuple(all_between.tolist()),
        within_by_class=tuple(map(tuple, within.tolist())),
        between_by_class=tuple(map(tuple, between.tolist())),
        overlap=overlap(all_within, all_between),
        overlap_by_class=tuple(overlap(p, q) for p, q in zip(within, between, strict=True)),
        mean_within=similarity.within,
        mean_between=similarity.between,
        median_within=_median(all_within, edges),
        median_between=_median(all_between, edges),
        pairs_within=int(all_within.sum()),
        pairs_between=int(all_between.sum()),
        sampled=sampled,
    )


def overlap(counts: Tensor, others: Tensor) -> float | None:
    """The mass that two histograms share; None where one is empty."""
    totals = counts.sum(), others.sum()
    if not all(totals):
        return None
    return float(torch.minimum(counts.double() / totals[0], others.double() / totals[1]).sum())


def _median(counts: Tensor, edges: Tensor) -> float | None:
    """The cosine below which half of the pairs lie, if each bin's pairs are spread evenly over it."""
    total = int(counts.sum())
    if total == 0:
        return None
    below = counts.cumsum(0).double()
    place = int((below >= total / 2).nonzero()[0])
    before = float(below[place] - counts[place])
    return float(edges[place] + (total / 2 - before) / float(counts[place]) * (edges[place + 1] - edges[place]))
