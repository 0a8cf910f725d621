"""Intervals of figures over pairs of test samples, by the jackknife: what each would be without any one sample.

A claim that was run with one seed has no spread over seeds. Pairs share samples, so that they cannot be resampled one
by one; leaving out one sample at a time leaves out all of its pairs, and costs one pass over them.
"""

from math import sqrt

import torch
from torch import Tensor

from sincere.claims.record import Measured
from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.geometry.directions import class_sums, directions_of

BINS = 100  # as many as `similarity_histograms` has


def with_jackknife(what: str, value: float, left_out: Tensor, *, paper: str | None = None) -> Measured:
    """A figure with the normal 95 % interval; `left_out` (n,) is the figure without each of the n samples."""
    n = len(left_out)
    half = 1.959964 * sqrt((n - 1) / n * float((left_out - left_out.mean()).square().sum()))
    return Measured(what, value, value - half, value + half, f"{n:,} test samples × 1 seed", paper)


def similarities_left_out(found: EmbeddingSet) -> dict[str, Tensor]:
    """Mean cosine of all pairs within classes and of all between them, without each sample in turn: (n,) each; and by
    how much the second is above the first."""
    rows = directions_of(found)
    z, sizes = rows.rows.double(), rows.counts.double()
    sums = class_sums(rows.rows, rows.numbers, classes=rows.classes)
    own, size, n = sums[rows.numbers], sizes[rows.numbers], float(len(z))
    with_own = (z * (own - z)).sum(dim=1)  # cosines of each sample with the others of its class, added up
    with_others = (z * (sums.sum(dim=0) - own)).sum(dim=1)
    pairs_within, pairs_between = float((size - 1).sum()) / 2, float((n - size).sum()) / 2
    within = (with_own.sum() / 2 - with_own) / (pairs_within - (size - 1))
    between = (with_others.sum() / 2 - with_others) / (pairs_between - (n - size))
    return {"within": within, "between": between, "between − within": between - within}


def separation_left_out(found: EmbeddingSet, chosen: int) -> dict[str, Tensor]:
    """Of one class: mean and deviation ("spread") of cosines with itself ("target") and with other classes ("noise"),
    and the overlap of both, without each sample in turn: (n,) each, from histograms."""
    rows = directions_of(found)
    mine = rows.numbers == chosen
    members, others = rows.rows[mine], rows.rows[~mine]
    target, _ = _histograms(members, members)
    target -= torch.nn.functional.one_hot(_bins((members * members).sum(dim=1)), BINS)  # no pair with itself
    noise, of_others = _histograms(members, others)
    all_target, all_noise = target.sum(dim=0) / 2, noise.sum(dim=0)
    targets = torch.cat([all_target - target, all_target.expand(len(others), -1)])
    noises = torch.cat([all_noise - noise, all_noise - of_others])
    p, q = (counts / counts.sum(dim=1, keepdim=True) for counts in (targets, noises))
    middles = (torch.arange(BINS, dtype=torch.float64) + 0.5) * 2 / BINS - 1
    means = {"target": p @ middles, "noise": q @ middles}
    spreads = {
        f"{name} spread": (shares @ middles.square() - means[name].square()).clamp(min=0).sqrt()
        for name, shares in (("target", p), ("noise", q))
    }
    return means | spreads | {"overlap": torch.minimum(p, q).sum(dim=1)}


def _histograms(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Of the cosines of every row of a with all of b, and of every row of b with all of a: float64 (rows, BINS)."""
    numbers = _bins(a @ b.T)
    firsts, seconds = (BINS * torch.arange(len(side)) for side in (a, b))
    by_first = torch.bincount((numbers + firsts.unsqueeze(1)).flatten(), minlength=BINS * len(a))
    by_second = torch.bincount((numbers + seconds).flatten(), minlength=BINS * len(b))
    return by_first.view(-1, BINS).double(), by_second.view(-1, BINS).double()


def _bins(cosines: Tensor) -> Tensor:
    return ((cosines + 1) * (BINS / 2)).long().clamp_(0, BINS - 1)
